"""Kernels under emulation: what `CUDADispatcher` does instead of compiling for, and launching on, a GPU.

A dispatcher keeps compiled code apart: its own `overloads`, for the GPU, and one set for each way of compiling for the
CPU (`flavour`). Under emulation the attribute `overloads` is the latter, so that nothing compiled for one side is ever
linked into the other.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import inspect
import weakref
from typing import Any

from numba.cuda import dispatcher as numba_dispatcher
from numba.cuda import types
from numba.cuda.core import sigutils
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.errors import normalize_kernel_dimensions
from numba.cuda.typing.typeof import Purpose, typeof

from . import active
from .arguments import prepare
from .device import ATTRIBUTES, DEVICE, resident_blocks
from .faults import Unsupported
from .limits import check_dynamic_shared_memory, check_launch
from .settings import Settings
from .signatures import convert, select_signature
from .streams import Stream

CUDADispatcher = numba_dispatcher.CUDADispatcher
DEFAULT_BLOCK = 256

_per_dispatcher: weakref.WeakKeyDictionary[Any, _Emulated] = weakref.WeakKeyDictionary()


class _Emulated:
    """What emulation knows of one dispatcher."""

    def __init__(self) -> None:
        self.overloads: dict[Any, collections.OrderedDict[Any, Any]] = {}
        self.kernels: dict[Any, Kernel] = {}  # by argument types
        self.device_signatures: dict[Any, Any] = {}  # argument types -> return type
        self.specializations: dict[Any, Any] = {}


def _emulated(dispatcher: Any) -> _Emulated:
    with active.lock:
        return _per_dispatcher.setdefault(dispatcher, _Emulated())


def flavour(settings: Settings) -> tuple[Any, ...]:
    """What of the settings changes the compiled code."""
    return settings.watches, settings.always_raise


class Kernel:
    """A kernel for one set of argument types, known under emulation and not compiled.

    It also stands in the dispatcher's own overloads, where a signature was declared under emulation; launched on a GPU
    later, it compiles itself for that GPU then.
    """

    launch_config_sensitive = False
    objectmode = False
    entry_point = None

    def __init__(self, dispatcher: Any, argument_types: tuple[Any, ...]) -> None:
        self._dispatcher = weakref.proxy(dispatcher)
        self.py_func = dispatcher.py_func
        self.argument_types = self.argtypes = argument_types
        self.signature = types.void(*argument_types)
        self.dynamic_shared_limit = ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK"]
        self._for_gpu: Any = None

    @property
    def _codelibrary(self) -> Any:
        return _Library(self) if active.settings() is not None else self._compiled()._codelibrary

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if active.settings() is not None:
            raise Unsupported(f"{name} needs a kernel compiled for a GPU", **place(self._dispatcher))
        return getattr(self._compiled(), name)

    def _compiled(self) -> Any:
        if self._for_gpu is None:
            kernel = numba_dispatcher._Kernel(self.py_func, self.argument_types, **self._dispatcher.targetoptions)
            kernel.bind()
            self._for_gpu = self._dispatcher.overloads[self.argument_types] = kernel
        return self._for_gpu

    def launch(self, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        """Launch, on the CPU under emulation and on the GPU outside."""
        if active.settings() is None:
            self._compiled().launch(args, griddim, blockdim, stream, sharedmem)
        else:
            configure(self._dispatcher, griddim, blockdim, stream, sharedmem)(*args)

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Blocks that are resident together on the emulated device, by threads and dynamic shared memory alone."""
        threads = functools.reduce(lambda x, y: x * y, blockdim) if isinstance(blockdim, tuple) else blockdim
        return resident_blocks(threads, dynsmemsize) * ATTRIBUTES["MULTIPROCESSOR_COUNT"]


class _Library:
    """What host code asks a kernel's code library for, to set an attribute of the loaded function by the driver."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def get_cufunc(self) -> _Function:
        return _Function(self.kernel)


class _Function:
    """A loaded function; its handle is what `EmulatedDriver.cuKernelSetAttribute` receives."""

    device = DEVICE

    def __init__(self, kernel: Kernel) -> None:
        self.handle = kernel


class LaunchConfiguration(numba_dispatcher._LaunchConfiguration):
    """A configured kernel under emulation."""

    def __init__(self, dispatcher: Any, griddim: Any, blockdim: Any, stream: Any, sharedmem: int) -> None:
        self.dispatcher, self.griddim, self.blockdim = dispatcher, griddim, blockdim
        self.stream, self.sharedmem = to_stream(stream), sharedmem
        self.pre_launch_callbacks: list[Any] = []
        self._kernel_launch_config_sensitive = None

    def __call__(self, *args: Any) -> None:
        if active.settings() is None:  # kept past the end of emulation
            return self.dispatcher[self.griddim, self.blockdim, 0, self.sharedmem](*args)
        return self.dispatcher.call(args, self)


def to_stream(stream: Any) -> Any:
    """The stream of a launch: 0 and None are the default stream. Raises TypeError for what is no stream."""
    if not stream:
        return DEVICE.primary_context.get_default_stream()
    if isinstance(stream, numba_driver.Stream):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return DEVICE.primary_context.create_external_stream(int(stream.__cuda_stream__()[1]))
    raise TypeError(f"Expected a Stream object or 0, got {stream!r}")


def place(dispatcher: Any) -> dict[str, Any]:
    """`kernel`, `file` and `line` of a dispatcher's function, as `KernelFault` takes them."""
    code = dispatcher.py_func.__code__
    return {"kernel": dispatcher.py_func.__name__, "file": code.co_filename, "line": code.co_firstlineno}


# --- the methods that take the place of Numba's while emulation is on; `self` is a CUDADispatcher ---


def configure(self: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> LaunchConfiguration:
    """A launch configuration, its dimensions normalised to three."""
    griddim, blockdim = normalize_kernel_dimensions(griddim, blockdim)
    return LaunchConfiguration(self, griddim, blockdim, stream, sharedmem)


def call(self: Any, args: tuple[Any, ...], launch_config: Any) -> None:
    """Launch on the CPU executor and return when the kernel has ended."""
    settings = active.settings() or Settings()
    if self.targetoptions.get("device"):
        raise RuntimeError(f"Cannot compile a device function as a kernel: {self.py_func.__name__}")
    grid, block = _three(launch_config.griddim), _three(launch_config.blockdim)
    where = place(self)
    shared = int(launch_config.sharedmem or 0)
    check_launch(where.pop("kernel"), grid, block, self.targetoptions.get("launch_bounds"), where)
    arguments, write_backs = prepare(_parameters(self, args), args, self.extensions or (), launch_config.stream)
    kernel = _kernel_for(self, arguments)
    arguments = tuple(map(convert, arguments, kernel.argument_types))
    for callback in launch_config.pre_launch_callbacks:
        callback(kernel, launch_config)
    check_dynamic_shared_memory(shared, kernel.dynamic_shared_limit, place(self))
    if isinstance(launch_config.stream, Stream):
        launch_config.stream.drain()
    run = importlib.import_module("refkit.cpu.launch").launch
    previous = launch_config._push_args(args)
    try:
        run(self, grid, block, shared, arguments, settings)
    finally:
        launch_config._pop_args(previous)
    for write_back in write_backs:
        write_back()


def _three(extents: Any) -> tuple[int, int, int]:
    x, y, z = map(int, extents)
    return x, y, z


def _parameters(dispatcher: Any, args: tuple[Any, ...]) -> list[str]:
    names, starred = _signature_of(dispatcher.py_func)
    expected = len(names) - starred
    if len(args) < expected or (len(args) > expected and not starred):
        few = "not enough" if len(args) < expected else "too many"
        raise TypeError(f"{dispatcher.py_func.__name__}: {few} arguments: expected {expected}, got {len(args)}")
    return names


@functools.lru_cache(maxsize=256)
def _signature_of(function: Any) -> tuple[list[str], bool]:
    parameters = inspect.signature(function).parameters.values()
    starred = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    return [parameter.name for parameter in parameters], starred


def argument_types(dispatcher: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The Numba types that a launch of `dispatcher` with these arguments compiles for.

    A dispatcher with signatures of its own (`@cuda.jit("void(float32[:])")`) converts to the one that fits; raises
    TypeError if none does. Any other compiles for the types of the arguments.
    """
    actual = tuple(typeof(argument, Purpose.argument) for argument in arguments)
    declared = () if dispatcher._can_compile else _declared(dispatcher)
    if not declared or actual in declared:
        return actual
    return select_signature(dispatcher.py_func.__name__, declared, actual)


def _declared(dispatcher: Any) -> tuple[Any, ...]:
    """The signatures that a dispatcher was decorated with, under emulation or before it."""
    return tuple({**_emulated(dispatcher).kernels, **dispatcher.__dict__["overloads"]})


def _kernel_for(dispatcher: Any, arguments: tuple[Any, ...]) -> Kernel:
    kinds = argument_types(dispatcher, arguments)
    known = _emulated(dispatcher).kernels
    if kinds not in known:
        known[kinds] = Kernel(dispatcher, kinds)
    return dispatcher.overloads.setdefault(kinds, known[kinds])


def compile_signature(self: Any, sig: Any) -> Kernel:
    """Take note of a signature; it is compiled when it is launched."""
    kinds, return_type = sigutils.normalize_signature(sig)
    if return_type not in (None, types.none):
        raise TypeError(f"CUDA kernel must have void return type: {self.py_func.__name__} returns {return_type}")
    known = _emulated(self).kernels
    if kinds in known:
        return known[kinds]
    if not self._can_compile:
        raise RuntimeError("Compilation disabled")
    kernel = known[kinds] = Kernel(self, kinds)
    self.overloads[kinds] = kernel
    own = self.__dict__["overloads"]
    if kinds not in own:
        self._insert([kind._code for kind in kinds], kernel, cuda=True)
        own[kinds] = kernel
    return kernel


def specialize(self: Any, *args: Any) -> Any:
    """A dispatcher for the types of these arguments alone."""
    if self.specialized:
        raise RuntimeError("Dispatcher already specialized")
    kinds = tuple(typeof(argument, Purpose.argument) for argument in args)
    known = _emulated(self).specializations
    if kinds not in known:
        special = CUDADispatcher(self.py_func, targetoptions=self.targetoptions)
        special.compile(kinds)
        special.disable_compile()
        special._specialized = True
        known[kinds] = special
    return known[kinds]


def forall_call(self: Any, *args: Any) -> None:
    """`kernel.forall(n)(...)`: enough blocks for `n` tasks; `self` is Numba's `ForAll`."""
    if self.ntasks == 0:
        return
    threads = self.thread_per_block or DEFAULT_BLOCK
    self.dispatcher[-(-self.ntasks // threads), threads, self.stream, self.sharedmem](*args)


def compile_device(original: Any) -> Any:
    """`CUDADispatcher.compile_device` with line numbers; it remembers the signature for the other ways of compiling."""

    @functools.wraps(original)
    def compiling(self: Any, args: tuple[Any, ...], return_type: Any = None) -> Any:
        _emulated(self).device_signatures.setdefault(args, return_type)
        options = self.targetoptions
        self.targetoptions = {**options, "lineinfo": not options.get("debug")}
        try:
            return original(self, args, return_type)
        finally:
            self.targetoptions = options

    return compiling


def disable_compile(original: Any) -> Any:
    """`CUDADispatcher.disable_compile` that lets declared device functions be compiled for other targets later."""

    @functools.wraps(original)
    def disabling(self: Any, val: bool = True) -> None:
        original(self, val)
        if val and _emulated(self).device_signatures and not self.__dict__["overloads"]:
            _compile_when_called(self)

    return disabling


def _compile_when_called(dispatcher: Any) -> None:
    weak: Any = weakref.ref(dispatcher)

    def call_template(args: Any, kws: Any) -> Any:
        owner = weak()
        for kinds, return_type in _emulated(owner).device_signatures.items():
            owner.compile_device(kinds, return_type)
        return CUDADispatcher.get_call_template(owner, args, kws)

    dispatcher.get_call_template = call_template


def get_call_template(original: Any) -> Any:
    """`CUDADispatcher.get_call_template` that first compiles the signatures which were declared for a GPU."""

    @functools.wraps(original)
    def getting(self: Any, args: Any, kws: Any) -> Any:
        if not self._can_compile:
            for kinds, result in self.__dict__["overloads"].items():
                if not isinstance(result, Kernel):
                    self.compile_device(kinds, result.signature.return_type)
        return original(self, args, kws)

    return getting


def _get_overloads(self: Any) -> Any:
    settings = active.settings()
    if settings is None:
        return self.__dict__["overloads"]
    known = _emulated(self)
    key = flavour(settings)
    if key not in known.overloads:
        known.overloads[key] = collections.OrderedDict(known.kernels)
        _release_with(self, known.overloads[key])
    return known.overloads[key]


def _set_overloads(self: Any, value: Any) -> None:
    self.__dict__["overloads"] = value
    _release_with(self, value)


def _release_with(dispatcher: Any, compiled: Any) -> None:
    weakref.finalize(dispatcher, _release, compiled, dispatcher.targetctx).atexit = False


def _release(compiled: Any, context: Any) -> None:
    """Take a dead dispatcher's functions out of Numba's tables, which key them by an id that comes back."""
    for result in compiled.values():
        with contextlib.suppress(KeyError):
            context.remove_user_function(result.entry_point)


overloads = property(_get_overloads, _set_overloads)


def needs_gpu(name: str) -> Any:
    """A method that says that `name` needs code compiled for a GPU."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported(
            f"{name}() needs a kernel compiled for a GPU, which the CPU executor never makes", **place(self)
        )

    method.__name__ = name
    return method


NEEDS_GPU = (
    "inspect_asm",
    "inspect_llvm",
    "inspect_lto_ptx",
    "inspect_sass",
    "inspect_sass_cfg",
    "inspect_types",
    "get_regs_per_thread",
    "get_const_mem_size",
    "get_shared_mem_per_block",
    "get_max_threads_per_block",
    "get_local_mem_per_thread",
    "recompile",
)


def patches() -> list[tuple[Any, str, Any]]:
    """`(object, attribute, value)` for each attribute of Numba's that emulation replaces here."""
    methods = {
        "configure": configure,
        "call": call,
        "compile": compile_signature,
        "specialize": specialize,
        "compile_device": compile_device(CUDADispatcher.compile_device),
        "get_call_template": get_call_template(CUDADispatcher.get_call_template),
        "disable_compile": disable_compile(CUDADispatcher.disable_compile),
        "overloads": overloads,
        **{name: needs_gpu(name) for name in NEEDS_GPU},
    }
    return [
        *((CUDADispatcher, name, method) for name, method in methods.items()),
        (numba_dispatcher.ForAll, "__call__", forall_call),
        (numba_driver, "_to_core_stream", to_stream),
    ]
