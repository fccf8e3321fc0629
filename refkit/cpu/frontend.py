"""The LLVM IR of a kernel, from numba-cuda's own frontend; the only file that knows that frontend's internals.

No GPU, driver or NVVM is needed: the frontend stops at IR text. Another frontend would provide the same `KernelIR`.
"""

import contextlib
import functools
import gc
import hashlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core.errors import NumbaError as HostNumbaError  # numba-cuda has a hierarchy of its own
from numba.cuda import cgutils, compiler, types
from numba.cuda.core import callconv, sigutils
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.errors import NumbaDebugInfoWarning, NumbaError
from numba.cuda.cpython import slicing
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudadrv.nvvm import llvm_replace

from .lean_frontend import lean

COMPUTE_CAPABILITY = (9, 0)
_WORD = ir.IntType(64)
_BYTE_POINTER = ir.IntType(8).as_pointer()


@dataclass(frozen=True)
class KernelIR:
    """A kernel as the frontend gives it: one text per module, and what is needed to report its exceptions."""

    modules: tuple[str, ...]
    entry: str
    argument_types: tuple[Any, ...]
    foreign: tuple[str, ...]  # names of linked code that is neither Python nor one of numba-cuda's own headers


_exceptions: dict[int, tuple[Any, Any, Any]] = {}  # code -> (class, arguments, (function, file, line))


def number_exception(helper: Any, kind: Any, arguments: Any, location: Any) -> int:
    """A code for an exception that compiled code raises; takes the place of a method of Numba's.

    Numba counts the exceptions of each function from 1, so that a kernel mistakes a device function's for its own; and
    the code is part of the machine code, so it has to be the same in every process.
    """
    code = exception_code(kind, arguments, location)
    helper.exceptions[code] = _exceptions[code]
    return code


def exception_code(kind: Any, arguments: Any, location: Any) -> int:
    """A positive 31-bit code for an exception, under which `exception_of` finds it."""
    digest = hashlib.sha256(repr((kind, arguments, location)).encode()).digest()
    code = int.from_bytes(digest[:4], "little") >> 1 | 1
    _exceptions[code] = (kind, arguments, location)
    return code


def exception_of(code: int) -> tuple[Any, Any, Any]:
    """`(class, arguments, (function, file, line))` of an exception code."""
    return _exceptions.get(code, (RuntimeError, (f"exception code {code}",), None))


class _EmulatedDevice:
    compute_capability = COMPUTE_CAPABILITY
    id = 0


_internal_functions: dict[bool, dict[Any, Any]] = {}  # with bounds calls or without -> the frontend's own cache


@contextlib.contextmanager
def without_driver(*, bounds: bool = False) -> Iterator[None]:
    """Lets the frontend ask for the current device where there is no driver: it wants the compute capability alone.

    Inside, exceptions are numbered by `number_exception`. The functions that the frontend compiles for its own use
    (conversions, say) and keeps are kept apart from those of real GPU kernels, whose debug information and bounds
    checks differ.
    """
    from numba.cuda import dispatcher
    from numba.cuda.descriptor import cuda_target

    context = cuda_target.target_context
    internal = context.cached_internal_func
    context.cached_internal_func = _internal_functions.setdefault(bounds, {})
    device, number = dispatcher.get_current_device, callconv._MinimalCallHelper._add_exception
    dispatcher.get_current_device = lambda: _EmulatedDevice
    callconv._MinimalCallHelper._add_exception = number_exception
    try:
        yield
    finally:
        context.cached_internal_func = internal
        dispatcher.get_current_device = device
        callconv._MinimalCallHelper._add_exception = number


@contextlib.contextmanager
def _bounds_calls() -> Iterator[None]:
    """Makes every array access of the code that is compiled meanwhile call `rk.bounds(data, index, length, axis)`.

    The call sees each index as the user wrote it, before a negative one wraps. Every indexing of the frontend goes
    through one function, which is replaced here, as is the one that wraps.
    """
    original, fix_index = cgutils.get_item_pointer2, slicing.fix_index
    written: dict[int, tuple[Any, Any]] = {}  # id of a wrapped index -> itself, kept alive, and the index as written
    names = ("context", "builder", "data", "shape", "strides", "layout", "inds", "wraparound", "boundscheck")

    def checked(*positional: Any, **named: Any) -> Any:
        call = {**dict(zip(names, positional)), **named}
        builder = call["builder"]
        signature = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _WORD, _WORD, ir.IntType(32)])
        function = cgutils.get_or_insert_function(builder.module, signature, "rk.bounds")
        address = builder.bitcast(call["data"], _BYTE_POINTER)
        for axis, (index, length) in enumerate(zip(call["inds"], call["shape"])):
            index = written.get(id(index), (None, index))[1]
            wide = [builder.sext(value, _WORD) if value.type.width < 64 else value for value in (index, length)]
            builder.call(function, [address, *wide, ir.IntType(32)(axis)])
        return original(**call)

    def remembered(builder: Any, index: Any, size: Any) -> Any:
        wrapped = fix_index(builder, index, size)
        written[id(wrapped)] = wrapped, index
        return wrapped

    cgutils.get_item_pointer2, slicing.fix_index = checked, remembered
    try:
        yield
    finally:
        cgutils.get_item_pointer2, slicing.fix_index = original, fix_index


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides that a generated function has no source file: the user did not ask for the line records that want one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaDebugInfoWarning)
        yield


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No cyclic garbage collection meanwhile: the frontend makes many objects that live, and each pass visits all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@global_compiler_lock
def kernel_ir(
    function: Callable[..., None],
    argument_types: tuple[Any, ...],
    *,
    fastmath: bool = False,
    debug: bool = False,
    bounds: bool = False,
) -> KernelIR:
    """Compiles a kernel's Python function for the given argument types, to IR text.

    bounds: every array access calls `rk.bounds` for each axis. debug: divisions by zero raise, as they do in Numba's
    debug mode; other exceptions are recorded always.

    Raises what the frontend raises, `numba.core.errors.TypingError` among them.
    """
    signature = types.void(*argument_types)
    arguments, return_type = sigutils.normalize_signature(signature)
    with (
        _without_collections(),
        without_driver(bounds=bounds),
        lean(bounds),
        _bounds_calls() if bounds else contextlib.nullcontext(),
        _quiet(),
    ):
        nvvm_options = {"fastmath": fastmath, "opt": 3}
        compiled = functools.partial(
            compiler.compile_cuda,
            function,
            return_type,
            arguments,
            debug=debug,
            fastmath=fastmath,
            nvvm_options=nvvm_options,
            cc=COMPUTE_CAPABILITY,
            abi="numba",
        )
        try:
            result = compiled(lineinfo=True)
        except (NumbaError, HostNumbaError):
            raise
        except Exception:  # Numba's line records fail on types that its compiler takes, such as a tuple of empty tuples
            result = compiled(lineinfo=False)
        library = result.library
        kernel = library.get_function(result.fndesc.llvm_func_name)
        library._entry_name = result.fndesc.llvm_func_name
        compiler.kernel_fixup(kernel, True)
        nvvm.set_launch_bounds(kernel, None)
        # A device function that several others call is listed as often, and one that was compiled stays as it is.
        called = [module for module in dict.fromkeys(library.modules) if module is not library._module]
        modules = llvm_replace(str(library._module)), *map(_text_of_device_function, called)
    return KernelIR(
        modules=modules,
        entry=result.fndesc.llvm_func_name,
        argument_types=tuple(arguments),
        foreign=tuple(sorted(_foreign(item) for item in library._linking_files if _foreign(item))),
    )


_device_functions: weakref.WeakKeyDictionary[ir.Module, str] = weakref.WeakKeyDictionary()


def _text_of_device_function(module: ir.Module) -> str:
    """The text of a module, which kernels that call its function share."""
    text = _device_functions.get(module)
    if text is None:
        text = _device_functions[module] = llvm_replace(str(module))
    return text


def device_function_ir(function: Callable[..., Any], signature: Any, name: str) -> tuple[str, ...]:
    """Compiles a device function under a C name; the runtime is built so."""
    with _without_collections(), without_driver(), lean():
        library, _ = compiler._compile_pyfunc_with_fixup(
            function, signature, device=True, abi="c", abi_info={"abi_name": name}, cc=COMPUTE_CAPABILITY
        )
    return tuple(library.llvm_strs)


def _foreign(item: Any) -> str:
    """The name of linked code that has no host meaning; empty for numba-cuda's own half-precision headers."""
    source = getattr(item, "data", "")
    text = source.decode(errors="replace") if isinstance(source, bytes) else str(source)
    name = str(getattr(item, "name", item))
    own_header = "nbst" in text or "cuda_bf16" in text or "cuda_fp16" in text or "cuda_fp8" in text
    return "" if own_header else name
