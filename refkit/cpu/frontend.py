"""The LLVM IR of a kernel, from numba-cuda's own frontend; the only file that knows that frontend's internals.

No GPU, driver or NVVM is needed: the frontend stops at IR text. Another frontend would provide the same `KernelIR`.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from numba.cuda import compiler, types
from numba.cuda.core import sigutils
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudadrv.nvvm import llvm_replace

COMPUTE_CAPABILITY = (9, 0)


@dataclass(frozen=True)
class KernelIR:
    """A kernel as the frontend gives it: one text per module, and what is needed to report its exceptions."""

    modules: tuple[str, ...]
    entry: str
    argument_types: tuple[Any, ...]
    exceptions: dict[int, tuple[Any, Any, Any]]  # code -> (class, arguments, (function, file, line))
    foreign: tuple[str, ...]  # names of linked code that is neither Python nor one of numba-cuda's own headers


class _EmulatedDevice:
    compute_capability = COMPUTE_CAPABILITY
    id = 0


@contextlib.contextmanager
def without_driver() -> Iterator[None]:
    """Lets the frontend ask for the current device where there is no driver: it wants the compute capability alone."""
    from numba.cuda import dispatcher

    original = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: _EmulatedDevice
    try:
        yield
    finally:
        dispatcher.get_current_device = original


@global_compiler_lock
def kernel_ir(function: Callable[..., None], argument_types: tuple[Any, ...], *, fastmath: bool = False) -> KernelIR:
    """Compiles a kernel's Python function for the given argument types, to IR text.

    Exceptions are always recorded (as with `debug=True`), at full optimisation. Raises what the frontend raises,
    `numba.core.errors.TypingError` among them.
    """
    signature = types.void(*argument_types)
    arguments, return_type = sigutils.normalize_signature(signature)
    with without_driver():
        result = compiler.compile_cuda(
            function,
            return_type,
            arguments,
            debug=False,
            lineinfo=True,
            fastmath=fastmath,
            nvvm_options={"fastmath": fastmath, "opt": 3},
            cc=COMPUTE_CAPABILITY,
            abi="numba",
        )
        library = result.library
        kernel = library.get_function(result.fndesc.llvm_func_name)
        library._entry_name = result.fndesc.llvm_func_name
        compiler.kernel_fixup(kernel, True)
        nvvm.set_launch_bounds(kernel, None)
        modules = tuple(llvm_replace(text) for text in library.llvm_strs)
    return KernelIR(
        modules=modules,
        entry=result.fndesc.llvm_func_name,
        argument_types=tuple(arguments),
        exceptions=dict(result.call_helper.exceptions) if result.call_helper else {},
        foreign=tuple(sorted(_foreign(item) for item in library._linking_files if _foreign(item))),
    )


def device_function_ir(function: Callable[..., Any], signature: Any, name: str) -> tuple[str, ...]:
    """Compiles a device function under a C name; the runtime is built so."""
    with without_driver():
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
