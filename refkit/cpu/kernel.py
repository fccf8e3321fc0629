"""A kernel compiled for the CPU, and the steps that compile it: frontend, translation, polls, linking, machine code."""

import functools
import inspect
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding as llvm

from . import cache, engine, entries, frontend, loops, prelude, translate
from .device_library import UnknownDeviceFunction, definitions
from .faults import Unsupported
from .runtime import build

_WAITING = re.compile(r"nvvm\.(barrier0|bar\.warp|shfl|vote|match)|cudaCGSynchronize$|rk\.activemask")
_DECLARED = re.compile(r'^declare [^@\n]*@("(?:[^"\\]|\\.)*"|[-\w$.]+)\(', re.MULTILINE)
_DEFINED = re.compile(r'^define [^@\n]*@("(?:[^"\\]|\\.)*"|[-\w$.]+)\(', re.MULTILINE)
_STACK_MARGIN = 80 * 1024  # colours (workers.py), the guard page, and calls
_LLVM_TYPE = {"void": "void", "int32": "i32", "int64": "i64"}


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code of one kernel for one signature, and what a launch needs to know about it."""

    name: str
    file: str
    line: int
    argument_types: tuple[Any, ...]
    entry: int  # address
    fibers: bool  # threads wait for each other, so each is a fiber
    spins: bool  # a loop waits for other threads' atomics, so blocks are resident together
    grid_barrier: bool  # all blocks are resident together
    shared_bytes: int  # static
    stack_bytes: int
    sites: tuple[tuple[str, int], ...]
    exceptions: dict[int, tuple[Any, Any, Any]]
    code: engine.LoadedModule


def compile_kernel(
    function: Callable[..., None], argument_types: tuple[Any, ...], *, fastmath: bool = False, scheduled: bool = False
) -> CompiledKernel:
    """Compiles a kernel's Python function for a signature.

    scheduled: every thread is a fiber even where none waits, so that a seeded schedule can reorder them.

    Raises what Numba's frontend raises where the kernel does not compile, and `Unsupported` where it links foreign
    code or holds inline assembly without a host meaning.
    """
    file = inspect.getsourcefile(function) or "<unknown>"
    line = function.__code__.co_firstlineno
    ir = frontend.kernel_ir(function, argument_types, fastmath=fastmath)
    if ir.foreign:
        names = ", ".join(ir.foreign)
        raise Unsupported(
            f"linked device code ({names}) has no host meaning", kernel=function.__name__, file=file, line=line
        )
    try:
        translation = translate.translate(ir.modules, ir.entry, file)
        text, spins = _with_polls(translation, file)
        waits = any(_WAITING.match(name) for name in translation.uses)
        fibers = waits or spins or scheduled
        linked = _linked_text(text, translation, fibers)
    except Unsupported as fault:
        fault.kernel = function.__name__
        fault.file = fault.file or file
        fault.line = fault.line or line
        raise
    build.scheduler_address("rk_switch")  # the kernel links against it
    name = cache.key("kernel", linked, build.device_bitcode(), engine.identity())
    object_file, stack_bytes = cache.fetch(name, lambda: _machine_code(linked))
    return CompiledKernel(
        name=function.__name__,
        file=file,
        line=line,
        argument_types=ir.argument_types,
        code=(code := engine.load(object_file)),
        entry=code.address("rk_entry"),
        fibers=fibers,
        spins=spins,
        grid_barrier="cudaCGSynchronize" in translation.uses,
        shared_bytes=translation.shared_bytes,
        stack_bytes=stack_bytes,
        sites=tuple(translation.sites),
        exceptions=ir.exceptions,
    )


def _with_polls(translation: translate.Translation, file: str) -> tuple[str, bool]:
    """The kernel's text in SSA form with polls in its loops; and whether a loop waits for other threads."""
    module = llvm.parse_assembly(engine.retarget(translation.text))
    passes = llvm.create_new_module_pass_manager()
    for add in (
        "simplify_cfg",
        "sroa",
        "instruction_combine",
        "simplify_cfg",
        "sroa",
        "loop_simplify",
        "loop_rotate",
        "instruction_combine",
        "simplify_cfg",
    ):
        getattr(passes, f"add_{add}_pass")()
    builder = llvm.create_pass_builder(engine.target_machine(), llvm.create_pipeline_tuning_options(speed_level=1))
    passes.run(module, builder)
    text, spins = loops.insert_polls(str(module), translation.sites, file)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("declare") or "@llvm." in line)
    return loops.unroll_local_arrays(translate.without_metadata(text)), spins


def _linked_text(text: str, translation: translate.Translation, fibers: bool) -> str:
    """The kernel with everything it calls except the runtime, as one text."""
    defined = {name.strip('"') for name in _DEFINED.findall(text)}
    small = prelude.definitions(fibers=fibers, shared_bytes=translation.shared_bytes, runtime=_runtime_declarations())
    provided = {name.strip('"') for name in (*_DEFINED.findall(small), *_DECLARED.findall(small))}
    meanings = [meaning.definition for meaning in translation.meanings.values()]
    wanted = (
        translation.uses
        - defined
        - provided
        - set(translation.meanings)
        - {n for n in translation.uses if n.startswith("llvm.")}
    )
    try:
        library = definitions(sorted(wanted), libdevice=None)
    except UnknownDeviceFunction as unknown:
        raise Unsupported(f"device function {unknown} has no host meaning") from None
    quoted = translation.quoted_entry
    parts = [text, small, *meanings, library, entries.entry(quoted, translation.entry_types, fibers=fibers)]
    return engine.retarget(_without_duplicates("\n".join(parts)))


def _machine_code(linked: str) -> tuple[bytes, int]:
    """The object file of a kernel's linked text, and how much stack a thread needs."""
    module = llvm.parse_assembly(linked)
    module.link_in(llvm.parse_bitcode(build.device_bitcode()))
    for function in module.functions:
        if not function.is_declaration and function.name != "rk_entry":
            function.linkage = "internal"
    module.verify()
    engine.optimise(module)
    return engine.machine_code(module), _stack_bytes(str(module))


@functools.cache
def _runtime_declarations() -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (
            name,
            _LLVM_TYPE[str(return_type)] if str(return_type) != "none" else "void",
            tuple(_LLVM_TYPE[str(a)] for a in arguments),
        )
        for name, _, return_type, arguments in build.DEVICE_FUNCTIONS
    ]


def _without_duplicates(text: str) -> str:
    """IR text whose declarations are dropped where the function is defined, or declared before."""
    defined = set(_DEFINED.findall(text))
    seen: set[str] = set()
    out = []
    for line in text.splitlines():
        if match := _DECLARED.match(line):
            name = match.group(1)
            if name in defined or name in seen:
                continue
            seen.add(name)
        out.append(line)
    return "\n".join(out)


def _stack_bytes(optimised: str) -> int:
    """A fiber's stack: what the optimised code keeps in local arrays, and a margin for calls; a power of two."""
    total = sum(
        translate.size_of(match.group(1)) * int(match.group(2) or 1)
        for match in re.finditer(
            r"= alloca ((?:\[[^\n]*?\]|\{[^\n]*?\}|\w+))(?:, i\d+ (\d+))?(?:, align \d+)?$", optimised, re.MULTILINE
        )
    )
    size = 128 * 1024
    while size < total + _STACK_MARGIN:
        size *= 2
    return size


class KernelCache:
    """Compiled kernels by function, signature and options; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernels: dict[Any, CompiledKernel] = {}

    def get(
        self, function: Callable[..., None], argument_types: tuple[Any, ...], *, fastmath: bool, scheduled: bool
    ) -> CompiledKernel:
        """The compiled kernel, compiled on first use."""
        key = (function, argument_types, fastmath)
        with self._lock:
            kernel = self._kernels.get((*key, scheduled))
            if kernel is None:
                kernel = compile_kernel(function, argument_types, fastmath=fastmath, scheduled=scheduled)
                self._kernels[(*key, scheduled)] = kernel
                if kernel.fibers:
                    self._kernels[(*key, True)] = kernel
        return kernel
