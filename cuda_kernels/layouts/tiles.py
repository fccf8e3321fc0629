"""Tiles in shared memory: the byte offset of every element, checked to be one-to-one when a tile is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from .fragment import Fragment, LayoutError
from .swizzle import CHUNK_BYTES, Swizzle


class Tile(Protocol):
    """A rows x columns matrix in shared memory."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def element_bytes(self) -> int: ...
    @property
    def swizzle(self) -> Swizzle | None: ...
    @property
    def size_bytes(self) -> int: ...
    def offset(self, row: Any, column: Any) -> Any:
        """Bytes from the start of the tile to element (row, column); integers or arrays of them."""
        ...


@dataclass(frozen=True)
class StridedTile:
    """Rows one after another (`contiguous="column"`), or columns one after another (`contiguous="row"`).

    contiguous: the axis along which neighbours lie side by side. stride_bytes: from one row (or column) to the next; 0
        is without a gap. swizzle: permutes the 16-byte chunks of a row (or column).
    Raises LayoutError where two elements would lie in the same place, or outside of the tile.
    """

    rows: int
    columns: int
    element_bytes: int
    contiguous: str = "column"
    stride_bytes: int = 0
    swizzle: Swizzle | None = None

    def __post_init__(self) -> None:
        if self.contiguous not in ("row", "column"):
            raise LayoutError(f"contiguous is {self.contiguous!r}; expected 'row' or 'column'")
        _check_bijective(self)
        if self.swizzle is not None:
            _check_whole(self, replace(self, swizzle=None), CHUNK_BYTES)

    @property
    def stride(self) -> int:
        """Bytes from one row (or column) to the next."""
        inner = self.columns if self.contiguous == "column" else self.rows
        return self.stride_bytes or inner * self.element_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the tile, padding included."""
        return self.stride * (self.rows if self.contiguous == "column" else self.columns)

    def offset(self, row: Any, column: Any) -> Any:
        """Bytes from the start of the tile to element (row, column)."""
        outer, inner = (row, column) if self.contiguous == "column" else (column, row)
        chunk, rest = inner * self.element_bytes // CHUNK_BYTES, inner * self.element_bytes % CHUNK_BYTES
        if self.swizzle is not None:
            chunk = self.swizzle.place(chunk, row, column)
        return outer * self.stride + chunk * CHUNK_BYTES + rest


@dataclass(frozen=True)
class LaneMajorTile:
    """A grid of fragments, each stored as a warp holds it: lane after lane, each with all its registers side by side.

    A warp then loads a whole fragment with one access for each 16 bytes of a lane. The swizzle permutes the slots of
    the lanes within a fragment.
    Raises LayoutError where the size is no multiple of the fragment's, or the swizzle leaves the fragment.
    """

    rows: int
    columns: int
    fragment: Fragment
    swizzle: Swizzle | None = None

    def __post_init__(self) -> None:
        if self.rows % self.fragment.rows or self.columns % self.fragment.columns:
            held = f"{self.fragment.rows} x {self.fragment.columns}"
            raise LayoutError(f"{self.rows} x {self.columns} is not a grid of fragments of {held}")
        _check_bijective(self)
        if self.swizzle is not None:
            _check_whole(self, replace(self, swizzle=None), self.lane_bytes)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.fragment.element_bits // 8

    @property
    def lane_bytes(self) -> int:
        """Bytes that a lane holds of one fragment."""
        return self.fragment.registers * self.fragment.register_bits // 8

    @property
    def size_bytes(self) -> int:
        """Bytes of the tile."""
        return self.rows * self.columns * self.element_bytes

    def offset(self, row: Any, column: Any) -> Any:
        """Bytes from the start of the tile to element (row, column)."""
        fragment = self.fragment
        down, right = np.asarray(row) // fragment.rows, np.asarray(column) // fragment.columns
        index = down * (self.columns // fragment.columns) + right
        lane, within = self._slots(np.asarray(row) % fragment.rows, np.asarray(column) % fragment.columns)
        if self.swizzle is not None:
            lane = self.swizzle.place(lane, row, column)
        return (index * len(fragment.elements) + lane) * self.lane_bytes + within

    def _slots(self, row: Any, column: Any) -> tuple[Any, Any]:
        """Lane, and byte within the lane's registers, of an element of the fragment."""
        fragment = self.fragment
        lanes, within = (np.empty((fragment.rows, fragment.columns), np.int64) for _ in range(2))
        numbers = np.indices(fragment.row_of.shape)
        lanes[fragment.row_of, fragment.column_of] = numbers[0]
        byte = numbers[1] * (fragment.register_bits // 8) + numbers[2] * self.element_bytes
        within[fragment.row_of, fragment.column_of] = byte
        return lanes[row, column], within[row, column]


def _check_bijective(tile: Tile) -> None:
    row, column = np.indices((tile.rows, tile.columns))
    offsets = np.asarray(tile.offset(row, column)).ravel()
    outside = (offsets < 0) | (offsets + tile.element_bytes > tile.size_bytes)
    order = np.argsort(offsets, kind="stable")
    clash = np.flatnonzero(np.diff(offsets[order]) < tile.element_bytes)
    for at, reason in ((np.flatnonzero(outside), "outside of the tile"), (order[clash], "where another one lies")):
        if len(at):
            where = (int(row.ravel()[at[0]]), int(column.ravel()[at[0]]))
            raise LayoutError(f"element {where} lies at byte {int(offsets[at[0]])}, {reason}")


def _check_whole(tile: Tile, plain: Tile, size: int) -> None:
    """Raises LayoutError where the swizzle takes a piece of `size` bytes of the plain tile apart."""
    row, column = np.indices((tile.rows, tile.columns))
    before = np.asarray(plain.offset(row, column)).ravel()
    moved = np.asarray(tile.offset(row, column)).ravel() - before
    order = np.argsort(before)
    torn = (np.diff(before[order] // size) == 0) & (np.diff(moved[order]) != 0)
    if torn.any():
        at = order[np.flatnonzero(torn)[0]]
        where = (int(row.ravel()[at]), int(column.ravel()[at]))
        raise LayoutError(f"the swizzle takes the {size} bytes with element {where} apart: its key varies within them")
