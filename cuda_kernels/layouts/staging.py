"""Lane-major staging of GEMM operands: which swizzle keeps its stores free of bank conflicts, for all four transposes.

Threads that copy a tile from global to shared memory walk along the axis that lies side by side in global memory, which
the transpose decides. Lane-major tiles put neighbours along that axis into a few banks only. An XOR key helps if it
varies among the lanes of such a store, and it costs the load nothing if it is the same for a whole fragment: so it is
the number of the fragment along the axis that staging walks. A key from the other axis is just as correct, and useless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .access import Staging, fragment_load, staging_store
from .fragment import Fragment, LayoutError
from .mma import MmaLayout
from .swizzle import CHUNK_BYTES, Swizzle
from .tiles import LaneMajorTile

VECTOR_BYTES = 16
"""What a staging thread loads from global memory at once."""
_OTHER = {"row": "column", "column": "row"}


@dataclass(frozen=True)
class StagedOperand:
    """One operand of a GEMM in shared memory, and how it gets there and out again.

    operand: "A" or "B". transposed: whether it lies transposed in global memory (A as k x m, B as n x k).
    """

    operand: str
    transposed: bool
    tile: LaneMajorTile
    staging: Staging

    @property
    def load_ways(self) -> int:
        """n-way conflicts of a warp that loads a fragment, at worst over all fragments of the tile."""
        unit, tile = self.tile.fragment, self.tile
        origins = ((r, c) for r in range(0, tile.rows, unit.rows) for c in range(0, tile.columns, unit.columns))
        return max(fragment_load(tile, unit, *origin).ways for origin in origins)

    @property
    def store_ways(self) -> int:
        """n-way conflicts of the staging stores, at worst."""
        return staging_store(self.tile, self.staging).ways

    def keyed_on(self, axis: str | None, *, lanes: bool = False) -> StagedOperand:
        """The same with a swizzle keyed on this axis, or without one; with `lanes`, keyed on the lane as well.

        Lane bits 3 and 4 are bits 1 and 2 of A's row and of B's column. A quarter of a warp shares them, so that they
        cost a 16-byte load nothing; they spread stores of threads that take several rows of A, or columns of B.
        """
        also = Swizzle("row" if self.operand == "A" else "column", bits=2, shift=1) if lanes else None
        swizzle = None if axis is None else replace(lane_major_swizzle(self.tile.fragment, axis), also=also)
        return replace(self, tile=replace(self.tile, swizzle=swizzle))

    @property
    def problem(self) -> str:
        """What is wrong with the key of the swizzle, in one line; empty where the other axis would be no better."""
        swizzle = self.tile.swizzle
        if swizzle is None or swizzle.axis == self.staging.walk:
            return ""
        better = self.keyed_on(self.staging.walk)
        if better.store_ways >= self.store_ways:
            return ""
        walk = self.staging.walk
        varies = "the same for all lanes of a store" if self._key_is_uniform else "nearly the same within a store"
        return (
            f"{self.operand}{' transposed' if self.transposed else ''}: the swizzle's key, of the {swizzle.axis}, is "
            f"{varies}, since staging walks along the other axis: stores are {self.store_ways}-way conflicted; "
            f"keyed on the {walk}, {better.store_ways}-way"
        )

    @property
    def _key_is_uniform(self) -> bool:
        """Whether every lane of every staging store has the same key, so that the swizzle moves nothing apart."""
        swizzle = self.tile.swizzle
        if swizzle is None:
            return True
        keys = np.asarray(swizzle.key(*self.staging.elements))
        return bool(np.all(keys == keys[:, :1, :]))


def lane_major_swizzle(fragment: Fragment, axis: str) -> Swizzle:
    """The swizzle of a lane-major tile keyed on the number of the fragment along an axis, modulo 8.

    8 chunks of 16 bytes are the 32 banks, so that more bits would move nothing further apart.
    """
    extent = fragment.rows if axis == "row" else fragment.columns
    return Swizzle(axis, bits=3, shift=extent.bit_length() - 1)


def chunk_fragment(fragment: Fragment) -> Fragment:
    """The fragment, or several side by side along its columns, so that each lane holds 16 bytes."""
    held = fragment.registers * fragment.register_bits // 8
    if CHUNK_BYTES % held:
        raise LayoutError(f"a lane holds {held} bytes of the fragment; expected a divisor of {CHUNK_BYTES}")
    return fragment.repeated(columns=CHUNK_BYTES // held)


def staged_operand(
    mma: MmaLayout,
    operand: str,
    transposed: bool,
    *,
    mn: int = 128,
    k: int = 32,
    threads: int = 256,
    key: str | None = "staging",
) -> StagedOperand:
    """Operand "A" (mn x k) or "B" (k x mn) of a block tile, staged by `threads` threads with 16-byte loads.

    key: the axis that the swizzle is keyed on: "row", "column", "staging" (the one that staging walks), None (none).
    Raises LayoutError for sizes that fragments or threads do not fill.
    """
    if operand not in ("A", "B"):
        raise LayoutError(f"operand is {operand!r}; expected 'A' or 'B'")
    rows, columns = (mn, k) if operand == "A" else (k, mn)
    unit = chunk_fragment(mma.a if operand == "A" else mma.b)
    walk = "row" if transposed else "column"
    vector = VECTOR_BYTES * 8 // unit.element_bits
    staged = StagedOperand(
        operand,
        transposed,
        LaneMajorTile(rows, columns, unit),
        Staging(rows, columns, walk, vector, threads),
    )
    return staged.keyed_on(walk if key == "staging" else key)


def wrongly_keyed(
    mma: MmaLayout, operand: str, transposed: bool, *, mn: int = 128, k: int = 32, threads: int = 256
) -> StagedOperand:
    """The operand with the key of the other axis: correct, and conflicted; its `problem` says so."""
    right = staged_operand(mma, operand, transposed, mn=mn, k=k, threads=threads)
    return right.keyed_on(_OTHER[right.staging.walk])
