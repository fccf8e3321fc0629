"""Sizes of a warpgroup GEMM, and where the parts of a block lie in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..launch import check_multiple
from .formats import LINE_BYTES, WgmmaFormat

WARPGROUP = 128
ATOM = 1024  # bytes of 8 swizzled lines; tiles begin at multiples
PADDING = 8  # floats per row of sums, against bank conflicts


class WgmmaTiles(NamedTuple):
    """A block makes block_m x block_n elements, a warpgroup 64 x block_n; K is staged by lines of 128 bytes."""

    block_m: int
    block_n: int
    stages: int

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.block_m // 64

    @property
    def threads(self) -> int:
        """Threads per block: the consumers, and one warpgroup that copies."""
        return (self.consumers + 1) * WARPGROUP

    def check(self, kind: WgmmaFormat) -> None:
        """Raises ValueError where the sizes do not fit the instruction, a block or shared memory."""
        check_multiple("block_m", self.block_m, "the rows of a warpgroup", 64)
        check_multiple("block_n", self.block_n, "twice the instruction's N", 16)
        if self.block_n > 256 or self.block_m > 192:
            raise ValueError(f"{self}: block_m is at most 192, block_n at most 256")
        if self.stages < 2:
            raise ValueError(f"stages={self.stages} must be at least 2: one is filled while another is read")
        if kind.promotes and self.block_n > 128:
            raise ValueError(
                f"block_n={self.block_n} is at most 128 for {kind.name}: two sets of sums are in registers"
            )
        if kind.transposes:
            check_multiple("block_n", self.block_n, "a line of N", kind.line)


@dataclass(frozen=True)
class Layout:
    """Which operands have K contiguous, and how a block's shared memory is divided; sizes in bytes."""

    kind: WgmmaFormat
    tiles: WgmmaTiles
    a_along_k: bool
    b_along_k: bool

    @property
    def block_k(self) -> int:
        """Elements of K in a stage: a line of 128 bytes."""
        return self.kind.line

    @property
    def a_bytes(self) -> int:
        """A's tile of one stage."""
        return self.tiles.block_m * LINE_BYTES

    @property
    def b_bytes(self) -> int:
        """B's tile of one stage."""
        return self.tiles.block_n * LINE_BYTES

    @property
    def stage_bytes(self) -> int:
        """Both tiles."""
        return self.a_bytes + self.b_bytes

    @property
    def sums_bytes(self) -> int:
        """The block's tile of sums, which takes the place of the stages at the end."""
        return self.tiles.block_m * (self.tiles.block_n + PADDING) * 4

    @property
    def barriers_offset(self) -> int:
        """Where the mbarriers lie: behind stages and sums."""
        return -(-max(self.tiles.stages * self.stage_bytes, self.sums_bytes) // ATOM) * ATOM

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block, with room to align its start."""
        return ATOM + self.barriers_offset + 2 * self.tiles.stages * 8
