"""Registers, spills, shared memory and occupancy of a launched kernel, per architecture."""

from __future__ import annotations

import functools
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from refkit.cpu.memory_model.tracing import TracedLaunch
from refkit.planner.occupancy import MULTIPROCESSORS, Cliff, Occupancy, next_cliff, occupancy
from refkit.verify.analysis import toolchain

ARCHITECTURES = tuple(MULTIPROCESSORS)

STANDARD_BOUNDS = (256, 2)
"""The launch bounds whose effect is shown for every kernel."""

_MIX = {
    "fma": r"fma\.\S+",
    "mma": r"(?:mma\.sync|wgmma\.mma_async)\S*",
    "load.global": r"ld\.global\S*",
    "store.global": r"st\.global\S*",
    "load.shared": r"ld\.shared\S*",
    "store.shared": r"st\.shared\S*",
    "load.local": r"ld\.local\S*",
    "store.local": r"st\.local\S*",
    "load.matrix": r"ldmatrix\.\S+",
    "store.matrix": r"stmatrix\.\S+",
    "copy.async": r"cp\.async\.(?:ca|cg|bulk)\S*",
    "atomic": r"(?:atom|red)\.\S+",
    "barrier": r"bar(?:rier)?\.\S+",
}


@dataclass(frozen=True)
class Bounded:
    """What the kernel needs when it promises `launch_bounds`: at most so many threads per block, and so many blocks per
    SM that the compiler has to leave registers for."""

    launch_bounds: tuple[int, int]
    registers: int
    spill_bytes: int
    blocks_per_sm: int


@dataclass(frozen=True)
class Resources:
    """One kernel on one architecture. Bytes: spills and stack per thread, shared memory per block.

    bounded: with one more block per SM, where registers are what limits. bounded_256: with `STANDARD_BOUNDS`.
    problem: why there are no figures, where it does not compile.
    """

    kernel: str
    compute_capability: tuple[int, int]
    threads: int
    registers: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    occupancy: Occupancy | None = None
    cliff: Cliff | None = None
    bounded: Bounded | None = None
    bounded_256: Bounded | None = None
    instructions: dict[str, int] | None = None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object; the compute capability as `9.0`."""
        data = asdict(self)
        data["compute_capability"] = "{}.{}".format(*self.compute_capability)
        if self.occupancy is not None:
            data["occupancy"]["fraction"] = round(self.occupancy.fraction, 4)
        return data


def resources(launch: TracedLaunch, compute_capability: tuple[int, int]) -> Resources:
    """What the kernel of a launch needs on an architecture; its `problem` says why where that is not known."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    unknown = Resources(launch.kernel, compute_capability, threads)
    options = launch.dispatcher.targetoptions
    function, types = launch.dispatcher.py_func, launch.argument_types
    try:
        ptx, made = _compiled(
            function, types, compute_capability, bool(options.get("fastmath")), options.get("launch_bounds")
        )
    except toolchain.CompilationError as error:
        return replace(unknown, problem=str(error))
    shared = made.shared_bytes + launch.dynamic_shared_bytes
    use = {"threads": threads, "registers": made.registers, "shared_bytes": shared}
    now = occupancy(compute_capability, **use)
    return replace(
        unknown,
        registers=made.registers,
        spill_bytes=made.spill_store_bytes + made.spill_load_bytes,
        stack_bytes=made.stack_bytes,
        shared_bytes=shared,
        occupancy=now,
        cliff=next_cliff(compute_capability, **use),
        bounded=_with_one_more(threads, ptx, compute_capability, now, shared),
        bounded_256=_with_standard_bounds(threads, ptx, compute_capability, shared),
        instructions=instruction_mix(ptx),
    )


@functools.lru_cache(maxsize=512)
def _compiled(
    function: Any, types: tuple[Any, ...], compute_capability: tuple[int, int], fastmath: bool, launch_bounds: Any
) -> tuple[str, toolchain.Assembled]:
    ptx = toolchain.ptx_of(function, types, compute_capability, fastmath=fastmath, launch_bounds=launch_bounds)
    return ptx, toolchain.assemble(ptx, compute_capability)


def _with_one_more(
    threads: int, ptx: str, compute_capability: tuple[int, int], now: Occupancy, shared_bytes: int
) -> Bounded | None:
    """The kernel with room made for one more block; None where registers are not what limits."""
    if now.limits != ("registers",):
        return None
    return _bounded(ptx, (threads, now.blocks + 1), threads, compute_capability, shared_bytes)


def _with_standard_bounds(
    threads: int, ptx: str, compute_capability: tuple[int, int], shared_bytes: int
) -> Bounded | None:
    """The kernel with `STANDARD_BOUNDS`, in blocks of that many threads or its own fewer; None for larger blocks."""
    if threads > STANDARD_BOUNDS[0]:
        return None
    return _bounded(ptx, STANDARD_BOUNDS, threads, compute_capability, shared_bytes)


def _bounded(
    ptx: str, bounds: tuple[int, int], threads: int, compute_capability: tuple[int, int], shared_bytes: int
) -> Bounded | None:
    try:
        made = toolchain.assemble(with_launch_bounds(ptx, bounds), compute_capability)
    except toolchain.CompilationError:
        return None
    then = occupancy(compute_capability, threads=threads, registers=made.registers, shared_bytes=shared_bytes)
    return Bounded(bounds, made.registers, made.spill_store_bytes + made.spill_load_bytes, then.blocks)


def with_launch_bounds(ptx: str, bounds: tuple[int, int]) -> str:
    """PTX whose kernel promises at most `bounds[0]` threads per block and asks for `bounds[1]` blocks per SM, as
    `@cuda.jit(launch_bounds=...)` does."""
    bare = re.sub(r"^\s*\.(?:maxntid|minnctapersm|maxnreg)\b[^\n]*\n", "", ptx, flags=re.MULTILINE)
    promise = f".maxntid {bounds[0]}, 1, 1\n.minnctapersm {bounds[1]}\n"
    return re.sub(r"(\.entry\b[^{]*?\))(\s*\{)", rf"\1\n{promise}\2", bare, count=1)


def instruction_mix(ptx: str) -> dict[str, int]:
    """How many instructions of each kind stand in PTX text; loads and stores also by bytes (`load.global.16`)."""
    mix: dict[str, int] = {}
    for opcode in re.findall(r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.:]*)", ptx, re.MULTILINE):
        for name, pattern in _MIX.items():
            if re.fullmatch(pattern, opcode):
                size = _bytes(opcode)
                label = f"{name}.{size}" if size and name.endswith((".global", ".shared", ".local")) else name
                mix[label] = mix.get(label, 0) + 1
    return dict(sorted(mix.items()))


def _bytes(opcode: str) -> int:
    """Bytes that a PTX load or store moves: the width of its type, times 2 or 4 for a vector."""
    width = re.search(r"\.[usfb](\d+)$", opcode)
    vector = re.search(r"\.v(\d)", opcode)
    return int(width.group(1)) // 8 * (int(vector.group(1)) if vector else 1) if width else 0
