"""A kernel compiled for the CPU: the lowered kernel linked with all that it calls, and its machine code."""

import functools
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llvmlite import binding as llvm

from . import allocations, cache, engine, entries, prelude, recursion, translate
from .device_library import UnknownDeviceFunction, definitions, reference_counts
from .faults import Unsupported
from .lowering import LoweredKernel, lower
from .memory_model.instrumentation import AccessSite
from .runtime import build
from .signatures import serving

_DECLARED = re.compile(r'^declare [^@\n]*@("(?:[^"\\]|\\.)*"|[-\w$.]+)\(', re.MULTILINE)
_DEFINED = re.compile(r'^define [^@\n]*@("(?:[^"\\]|\\.)*"|[-\w$.]+)\(', re.MULTILINE)
_INLINES = 3  # the level of optimisation from which what a kernel calls is compiled into it
_STACK_MARGIN = 80 * 1024  # colours (workers.py), the guard page, and calls
_LLVM_TYPE = {"void": "void", "int32": "i32", "int64": "i64", "int64*": "ptr"}


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
    instructions: Mapping[int, str]  # site -> PTX opcode, of inline assembly
    watched: bool  # instrumented for the sanitizers
    access_sites: tuple[AccessSite, ...]  # of the memory model
    shared_cell: int  # bytes of the smallest element of shared memory
    shared_arrays: tuple[translate.SharedArray, ...]
    code: engine.LoadedModule


def generate(lowered: LoweredKernel, *, scheduled: bool = False, optimise: int = 3) -> CompiledKernel:
    """Machine code for a lowered kernel.

    scheduled: every thread is a fiber even where none waits, so that a seeded schedule can reorder them. optimise: as
    in `Settings`.

    Raises `Unsupported` for a device function that has no host meaning.
    """
    fibers = lowered.waits or lowered.spins or scheduled or lowered.watched
    try:
        linked = _linked_text(lowered, fibers)
    except UnknownDeviceFunction as unknown:
        message = str(unknown)
        raise Unsupported(message, kernel=lowered.name, file=lowered.file, line=lowered.line) from None
    if reference_counts.COUNTER in linked:
        allocations.link_counter()
    called = _libraries(lowered)
    # Code that is called stays apart where compiling is to be quick: it is the larger part of many a kernel.
    apart = [_apart(library) for library in called] if optimise < _INLINES else []
    libraries = [build.device_bitcode(), *(called if not apart else ())]
    name = cache.key("kernel", str(optimise), _without_serial_numbers(linked), *libraries, engine.identity())
    object_file, local_bytes = cache.fetch(name, lambda: _machine_code(linked, libraries, optimise))
    local_bytes += sum(local for _, local in apart)
    build.scheduler_address("rk_switch")  # the kernel links against it; last, since another process may be building it
    code = engine.load(object_file, *(library for library, _ in apart))
    return CompiledKernel(
        name=lowered.name,
        file=lowered.file,
        line=lowered.line,
        argument_types=lowered.argument_types,
        entry=code.address("rk_entry"),
        fibers=fibers,
        spins=lowered.spins,
        grid_barrier=lowered.grid_barrier,
        shared_bytes=lowered.translation.shared_bytes,
        stack_bytes=max(_stack_bytes(local_bytes), recursion.STACK_BYTES if lowered.recursive else 0),
        sites=tuple(lowered.translation.sites),
        instructions=lowered.translation.instructions,
        watched=lowered.watched,
        access_sites=lowered.access_sites,
        shared_cell=lowered.translation.shared_cell,
        shared_arrays=tuple(lowered.translation.shared_arrays),
        code=code,
    )


def _libraries(lowered: LoweredKernel) -> list[bytes]:
    """Bitcode of what a kernel calls beside the device operations."""
    watching = [build.watch_bitcode()] if lowered.watched else []
    tracing = [build.trace_bitcode()] if lowered.traced else []
    needed = {library for meaning in lowered.translation.meanings.values() for library in meaning.libraries}
    in_order = sorted(needed, key=lambda library: library.name)
    return [*watching, *tracing, *(build.library_bitcode(library) for library in in_order)]


@functools.lru_cache(maxsize=256)
def _apart(library: bytes) -> tuple[bytes, int]:
    """The object file of a library's bitcode, and the bytes of local arrays in it."""

    def make() -> tuple[bytes, int]:
        module = llvm.parse_bitcode(library)
        return engine.machine_code(module), _local_bytes(str(module))

    return cache.fetch(cache.key("apart", library, engine.identity()), make)


def _without_serial_numbers(text: str) -> str:
    """IR text with the serial numbers in Numba's names (`B2v7`) counted anew: they tell what was compiled before."""
    numbers: dict[str, int] = {}
    return re.sub(r"B\d+v(\d+)", lambda match: f"Bv{numbers.setdefault(match.group(1), len(numbers))}", text)


def _linked_text(lowered: LoweredKernel, fibers: bool) -> str:
    """The kernel with everything it calls except the runtime, as one text."""
    text, translation = lowered.text, lowered.translation
    defined = {name.strip('"') for name in _DEFINED.findall(text)}
    small = prelude.definitions(
        fibers=fibers,
        watched=lowered.watched,
        shared_bytes=translation.shared_bytes,
        runtime=_runtime_declarations(lowered.watched, lowered.traced),
    )
    provided = {name.strip('"') for name in (*_DEFINED.findall(small), *_DECLARED.findall(small))}
    meanings = [meaning.definition for meaning in translation.meanings.values()]
    wanted = (
        translation.uses
        - defined
        - provided
        - set(translation.meanings)
        - {n for n in translation.uses if n.startswith("llvm.")}
    )
    library = definitions(sorted(wanted), libdevice=None)
    quoted = translation.quoted_entry
    parts = [text, small, *meanings, library, entries.entry(quoted, translation.entry_types, fibers=fibers)]
    return engine.retarget(_without_duplicates("\n".join(parts)))


def _machine_code(linked: str, libraries: list[bytes], level: int) -> tuple[bytes, int]:
    """The object file of a kernel's linked text, and the bytes of local arrays in it."""
    module = llvm.parse_assembly(linked)
    for library in libraries:
        module.link_in(llvm.parse_bitcode(library))
    for function in module.functions:
        if not function.is_declaration and function.name != "rk_entry":
            function.linkage = "internal"
    module.verify()
    engine.optimise(module, level=level)
    return engine.machine_code(module, level=level), _local_bytes(str(module))


@functools.cache
def _runtime_declarations(watched: bool, traced: bool) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (
            name,
            _LLVM_TYPE[str(return_type)] if str(return_type) != "none" else "void",
            tuple(_LLVM_TYPE[str(a)] for a in arguments),
        )
        for name, _, return_type, arguments in (
            *build.DEVICE_FUNCTIONS,
            *(build.WATCH_FUNCTIONS if watched else ()),
            *(build.TRACE_FUNCTIONS if traced else ()),
        )
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


def _local_bytes(optimised: str) -> int:
    """What optimised code keeps in local arrays."""
    return sum(
        translate.size_of(match.group(1)) * int(match.group(2) or 1)
        for match in re.finditer(
            r"= alloca ((?:\[[^\n]*?\]|\{[^\n]*?\}|\w+))(?:, i\d+ (\d+))?(?:, align \d+)?$", optimised, re.MULTILINE
        )
    )


def _stack_bytes(local_bytes: int) -> int:
    """A fiber's stack: local arrays, and a margin for calls; a power of two."""
    size = 128 * 1024
    while size < local_bytes + _STACK_MARGIN:
        size *= 2
    return size


class KernelCache:
    """Kernels by function, signature and options; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lowered: dict[Any, LoweredKernel] = {}
        self._compiled: dict[Any, CompiledKernel] = {}
        self._signatures: dict[Any, list[tuple[Any, ...]]] = {}

    def get(
        self,
        function: Callable[..., None],
        argument_types: tuple[Any, ...],
        *,
        fastmath: bool,
        debug: bool,
        scheduled: bool,
        watched: bool = False,
        traced: bool = False,
        optimise: int = 3,
    ) -> CompiledKernel:
        """The compiled kernel, compiled on first use.

        Below the highest level of `optimise`, one kernel serves several purposes so that few are compiled: it may be
        one for any strides where an argument is contiguous, and its threads can always be scheduled.
        """
        scheduled = scheduled or optimise < _INLINES
        options = {"fastmath": fastmath, "debug": debug, "watched": watched, "traced": traced}
        with self._lock:
            if optimise >= _INLINES:
                return self._made(function, argument_types, options, scheduled, optimise)
            known = self._signatures.setdefault((function, *options.values()), [])
            signature = serving(argument_types, known)
            try:
                kernel = self._made(function, signature, options, scheduled, optimise)
            except Exception:
                if signature == argument_types:
                    raise
                signature = argument_types  # what is done to a contiguous array may not be done to any
                kernel = self._made(function, signature, options, scheduled, optimise)
            if signature not in known:
                known.append(signature)
        return kernel

    def _made(
        self,
        function: Callable[..., None],
        argument_types: tuple[Any, ...],
        options: dict[str, bool],
        scheduled: bool,
        optimise: int,
    ) -> CompiledKernel:
        key = (function, argument_types, *options.values())
        kernel = self._compiled.get((key, scheduled, optimise))
        if kernel is None:
            if key not in self._lowered:
                self._lowered[key] = lower(function, argument_types, **options)
            kernel = generate(self._lowered[key], scheduled=scheduled, optimise=optimise)
            self._compiled[key, scheduled, optimise] = kernel
            if kernel.fibers:
                self._compiled[key, True, optimise] = kernel
        return kernel
