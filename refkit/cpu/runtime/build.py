"""Compiles the runtime: the device-side operations, linked into each kernel, and the scheduler, one per process."""

import functools
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba_cuda
from llvmlite import binding as llvm
from numba.cuda import types

from .. import cache, engine, frontend
from ..fibers import ASSEMBLY as FIBER_ASSEMBLY
from ..fibers import module_assembly
from . import device, extents, happens_before, products, reshape, scheduler, shadow, trace
from .primitives import words_type

_i32, _i64 = types.int32, types.int64

# C name, Python function, return type, argument types. Names with "nvvm." stand for the intrinsics of the same name.
DEVICE_FUNCTIONS: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...] = (
    ("nvvm.barrier0", device.barrier, types.void, (_i32,)),
    ("nvvm.barrier0.popc", device.barrier_count, _i32, (_i32, _i32)),
    ("nvvm.barrier0.and", device.barrier_and, _i32, (_i32, _i32)),
    ("nvvm.barrier0.or", device.barrier_or, _i32, (_i32, _i32)),
    ("nvvm.bar.warp.sync", device.warp_sync, types.void, (_i32, _i32)),
    ("rk.shuffle", device.shuffle, _i64, (_i32, _i32, _i32, _i32, _i32, _i32)),
    ("rk.vote", device.vote, _i64, (_i32, _i32, _i32, _i32)),
    ("nvvm.match.any.sync.i32", device.match_any, _i32, (_i32, _i32, _i32)),
    ("nvvm.match.any.sync.i64", device.match_any, _i32, (_i32, _i32, _i64)),
    ("rk.match.all.i32", device.match_all, _i64, (_i32, _i32, _i32)),
    ("rk.match.all.i64", device.match_all, _i64, (_i32, _i32, _i64)),
    ("rk.activemask.at", device.activemask_at, _i32, (_i32,)),
    ("rk.collective", device.collective, types.void, (_i32, _i64, _i64)),
    ("rk.grid.barrier", device.grid_barrier, types.void, (_i32,)),
    ("rk.lane", device.lane, _i32, ()),
    ("rk.dynamic_shared_bytes", device.dynamic_shared_bytes, _i32, ()),
    ("rk.poll", device.poll, types.void, (_i32,)),
    ("rk.spin", device.spin, types.void, (_i32,)),
    ("rk.yield", device.yield_, types.void, ()),
    ("rk.exception", device.exception, types.void, (_i32,)),
    ("rk.stack.overflow", device.stack_overflow, types.void, (_i32,)),
    ("rk.print", device.print_record, _i32, (_i64, _i64)),
    (
        "numba_attempt_nocopy_reshape",
        reshape.reshape_strides,
        _i32,
        (_i64, words_type, words_type, _i64, words_type, words_type, _i64, _i32),
    ),
)

# linked into kernels that the sanitizers watch
WATCH_FUNCTIONS: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...] = (
    ("rk.read", shadow.read, types.void, (_i32, _i64, _i64)),
    ("rk.write", shadow.write, types.void, (_i32, _i64, _i64)),
    ("rk.atomic", shadow.atomic, types.void, (_i32, _i64, _i64)),
    ("rk.within", extents.within, types.void, (_i32, _i64, _i64, _i32, _i32)),
    ("rk.bounds.at", shadow.bounds, types.void, (_i32, _i64, _i64, _i64, _i32)),
    ("rk.local_read.at", shadow.local_read, types.void, (_i32, _i32)),
    ("rk.accumulator.group", products.group_tag, _i32, ()),
    ("rk.accumulator.plain", products.plain_tag, _i32, ()),
    ("rk.accumulator.access", products.accumulator_access, types.void, (_i32, _i32, _i32)),
    ("rk.accumulator.operand", products.accumulator_operand, types.void, (_i32, _i32, _i32)),
    ("rk.fence", happens_before.fence, types.void, (_i32,)),
)

# linked into kernels whose accesses are traced
TRACE_FUNCTIONS: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...] = (
    ("rk.trace", trace.access, types.void, (_i32, _i64, _i64)),
    ("rk.trace.some", trace.access_some, types.void, (_i32, _i64, _i64, _i64)),
)

SCHEDULER_FUNCTIONS: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...] = (
    ("rk_thread_main", scheduler.thread_main, types.void, (words_type, words_type)),
    ("rk_plain_main", scheduler.plain_main, types.void, (words_type, words_type)),
    ("rk_run_fibers", scheduler.run_fibers, types.void, (words_type,)),
    ("rk_run_plain", scheduler.run_plain, types.void, (words_type,)),
    ("rk_leave_kernel", scheduler.leave_kernel, types.void, (_i32, words_type, words_type)),
)


@dataclass(frozen=True)
class Library:
    """Functions that only some kernels need, each `(C name, Python function, return type, argument types)`.

    sources: the files that decide their code, beside the runtime's own.
    """

    name: str
    functions: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...]
    sources: tuple[Path, ...] = ()


def _linked(functions: tuple[tuple[str, Any, Any, tuple[Any, ...]], ...], thread_argument: bool) -> llvm.ModuleRef:
    """One optimised module that holds the named functions; everything else in it is internal."""
    module = llvm.parse_assembly("")
    linked: set[str] = set()  # a device function comes again with each function that calls it
    for name, function, return_type, argument_types in functions:
        arguments = (words_type, *argument_types) if thread_argument else argument_types
        for text in frontend.device_function_ir(function, return_type(*arguments), name):
            if text not in linked:
                linked.add(text)
                module.link_in(llvm.parse_assembly(engine.retarget(text)))
    names = {name for name, *_ in functions}
    for function in module.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
    engine.optimise(module)
    return module


@functools.cache
def _source_key() -> str:
    """A key for the runtime: its sources and everything that compiles them."""
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return cache.key(*sources, FIBER_ASSEMBLY, engine.identity(), numba_cuda.__version__)


@functools.cache
def device_bitcode() -> bytes:
    """Bitcode of the operations that a kernel calls, to be linked into each kernel."""
    name = cache.key("device", _source_key())
    return cache.fetch_once(name, lambda: _linked(DEVICE_FUNCTIONS, thread_argument=True).as_bitcode())


@functools.cache
def watch_bitcode() -> bytes:
    """Bitcode of the sanitizers' checks, to be linked into each kernel that they watch."""
    name = cache.key("watch", _source_key())
    return cache.fetch_once(name, lambda: _linked(WATCH_FUNCTIONS, thread_argument=True).as_bitcode())


@functools.cache
def trace_bitcode() -> bytes:
    """Bitcode of the memory model's recording, to be linked into each kernel that is traced."""
    name = cache.key("trace", _source_key())
    return cache.fetch_once(name, lambda: _linked(TRACE_FUNCTIONS, thread_argument=True).as_bitcode())


@functools.cache
def library_bitcode(library: Library) -> bytes:
    """Bitcode of a library, to be linked into each kernel that calls it."""
    name = cache.key("library", library.name, _source_key(), *(path.read_bytes() for path in library.sources))
    return cache.fetch_once(name, lambda: _linked(library.functions, thread_argument=False).as_bitcode())


def _common_libraries() -> list[Library]:
    """The libraries of whole families of instructions, small ones first."""
    from ..ptx import instructions  # which imports this module

    modules = [importlib.import_module(f"{instructions.__name__}.{name}") for name in _FAMILIES]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Library)]


_FAMILIES = ("barriers", "wgmma", "mbarrier", "copies", "bulk_copy")


def _scheduler_code() -> bytes:
    module = _linked(SCHEDULER_FUNCTIONS, thread_argument=False)
    text = module_assembly() + "declare void @rk_switch()\ndeclare void @rk_start()\n"
    module.link_in(llvm.parse_assembly(engine.retarget(text)))
    return engine.machine_code(module)


@functools.cache
def _scheduler() -> engine.LoadedModule:
    name = cache.key("scheduler", _source_key())
    with cache.only_here(name, wait=False) as here:
        code = cache.fetch(name, _scheduler_code) if here else None
    if code is None:
        for library in _common_libraries():  # rather than wait for the process that builds the scheduler
            if cache.holds(name):
                break
            library_bitcode(library)
        code = cache.fetch_once(name, _scheduler_code)
    loaded = engine.load(code)
    llvm.add_symbol("rk_switch", loaded.address("rk_switch"))
    return loaded


def scheduler_address(name: str) -> int:
    """The address of a scheduler entry; loading the scheduler also defines `rk_switch` for the kernels."""
    return _scheduler().address(name)
