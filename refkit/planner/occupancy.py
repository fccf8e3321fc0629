"""How many blocks of a kernel one multiprocessor (SM) holds at once, and what limits them.

The arithmetic is that of NVIDIA's occupancy calculator (`cuda_occupancy.h`): registers are allocated per warp, in units
of 256, out of the quarter of the register file that belongs to the warp's sub-partition; shared memory per block, in
units of 128 bytes (256 on 7.x) and with 1 KB that the system keeps on 8.0 and later.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP_SIZE = 32
SUB_PARTITIONS = 4
REGISTERS_PER_SM = 65_536
REGISTER_UNIT = 256
MOST_REGISTERS = 255
MOST_THREADS = 1024


@dataclass(frozen=True)
class Multiprocessor:
    """What one SM of a compute capability holds. Sizes in bytes (CUDA C++ Programming Guide 13.1, technical
    specifications per compute capability)."""

    compute_capability: tuple[int, int]
    blocks: int
    warps: int
    shared_bytes: int
    shared_bytes_per_block: int

    @property
    def shared_unit(self) -> int:
        """Granularity of a block's shared memory."""
        return 128 if self.compute_capability >= (8, 0) else 256

    @property
    def reserved_bytes(self) -> int:
        """Shared memory of each block that the system keeps."""
        return 1024 if self.compute_capability >= (8, 0) else 0

    @property
    def name(self) -> str:
        """`9.0`, as the tables write it."""
        return "{}.{}".format(*self.compute_capability)


KB = 1024
MULTIPROCESSORS = {
    each.compute_capability: each
    for each in (
        Multiprocessor((7, 5), 16, 32, 64 * KB, 64 * KB),
        Multiprocessor((8, 0), 32, 64, 164 * KB, 163 * KB),
        Multiprocessor((8, 6), 16, 48, 100 * KB, 99 * KB),
        Multiprocessor((8, 9), 24, 48, 100 * KB, 99 * KB),
        Multiprocessor((9, 0), 32, 64, 228 * KB, 227 * KB),
        Multiprocessor((10, 0), 32, 64, 228 * KB, 227 * KB),
        Multiprocessor((12, 0), 24, 48, 100 * KB, 99 * KB),
    )
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks per SM, the warps that these are, and what allows no more.

    limits: what permits the fewest blocks: "registers", "shared memory", "warps", "blocks"; several where they tie.
    bounds: how many blocks each of these alone would permit; what the kernel does not use is left out.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: tuple[str, ...]
    bounds: dict[str, int]

    @property
    def fraction(self) -> float:
        """Resident warps out of those that the SM can hold."""
        return self.warps / self.most_warps


def multiprocessor(compute_capability: tuple[int, int]) -> Multiprocessor:
    """The SM of a compute capability; ValueError that names those known."""
    try:
        return MULTIPROCESSORS[compute_capability]
    except KeyError:
        known = ", ".join(each.name for each in MULTIPROCESSORS.values())
        raise ValueError(f"compute capability {compute_capability} is not in the table; known are {known}") from None


def registers_per_warp(registers: int) -> int:
    """Registers that a warp takes whose threads use `registers` each: 32 of them, rounded up to 256."""
    return -(-registers * WARP_SIZE // REGISTER_UNIT) * REGISTER_UNIT


def occupancy(compute_capability: tuple[int, int], *, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Occupancy of a kernel on one SM.

    threads: per block. registers: per thread. shared_bytes: static and dynamic shared memory of a block.

    Raises ValueError for values that no launch could have. A block that needs more shared memory or registers than
    a block may have gives 0 blocks.
    """
    sm = multiprocessor(compute_capability)
    if not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"threads={threads}: expected 1 to {MOST_THREADS}")
    if not 0 <= registers <= MOST_REGISTERS:
        raise ValueError(f"registers={registers}: expected 0 to {MOST_REGISTERS}")
    if shared_bytes < 0:
        raise ValueError(f"shared_bytes={shared_bytes}: expected bytes from 0")
    warps = -(-threads // WARP_SIZE)
    bounds = {"warps": sm.warps // warps, "blocks": sm.blocks}
    if registers:
        bounds["registers"] = _by_registers(warps, registers)
    if shared_bytes + sm.reserved_bytes:
        bounds["shared memory"] = _by_shared(shared_bytes, sm)
    blocks = min(bounds.values())
    limits = tuple(name for name, bound in bounds.items() if bound == blocks)
    return Occupancy(blocks, blocks * warps, sm.warps, limits, bounds)


def _by_registers(warps: int, registers: int) -> int:
    each = registers_per_warp(registers)
    whole = -(-warps // SUB_PARTITIONS) * SUB_PARTITIONS
    if each * whole > REGISTERS_PER_SM:
        return 0
    return REGISTERS_PER_SM // SUB_PARTITIONS // each * SUB_PARTITIONS // warps


def _by_shared(shared_bytes: int, sm: Multiprocessor) -> int:
    if shared_bytes > sm.shared_bytes_per_block:
        return 0
    each = -(-(shared_bytes + sm.reserved_bytes) // sm.shared_unit) * sm.shared_unit
    return sm.shared_bytes // each


@dataclass(frozen=True)
class Cliff:
    """The nearest smaller count of registers that lets another block in: `registers` of them give `blocks`."""

    registers: int
    blocks: int


def next_cliff(
    compute_capability: tuple[int, int], *, threads: int, registers: int, shared_bytes: int = 0
) -> Cliff | None:
    """The most registers below `registers` with which more blocks fit; None where registers are not what limits."""
    now = occupancy(compute_capability, threads=threads, registers=registers, shared_bytes=shared_bytes)
    if now.limits != ("registers",):
        return None
    for fewer in range(registers - 1, 15, -1):
        then = occupancy(compute_capability, threads=threads, registers=fewer, shared_bytes=shared_bytes)
        if then.blocks > now.blocks:
            return Cliff(fewer, then.blocks)
    return None
