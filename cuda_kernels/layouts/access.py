"""Layouts composed: what a warp asks shared memory for when it loads a fragment from a tile, or fills a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .banks import Access, access
from .fragment import LANES, Fragment, LayoutError, from_arrays
from .tiles import StridedTile, Tile

MAX_BYTES = 16
"""What one lane moves with one instruction at most."""


def fragment_load(tile: Tile, fragment: Fragment, row: int = 0, column: int = 0) -> Access:
    """The requests with which a warp loads a fragment, whose element (0, 0) is (row, column) of the tile.

    Each lane loads at once as many elements as lie side by side in all lanes, aligned and in the order of registers.
    """
    offsets = tile.offset(row + fragment.row_of, column + fragment.column_of).reshape(LANES, -1)
    return _vectorised(offsets.T[None], tile.element_bytes)


def matrix_load(tile: StridedTile, origins: Sequence[tuple[int, int]]) -> Access:
    """The request of an `ldmatrix` (or `stmatrix`) of 8 x 8 matrices of 16 bits, each given by its first element.

    A matrix row is a row of the tile where columns lie side by side there, otherwise a column.
    Raises LayoutError where a matrix row is not 16 aligned bytes in one piece.
    """
    lanes = 8 * len(origins)
    offsets = np.zeros(LANES, np.int64)
    for j, (row, column) in enumerate(origins):
        for i in range(8):
            along = np.arange(8)
            if tile.contiguous == "column":
                at = np.asarray(tile.offset(row + i, column + along))
            else:
                at = np.asarray(tile.offset(row + along, column + i))
            if tile.element_bytes != 2 or np.any(np.diff(at) != 2) or at[0] % MAX_BYTES:
                raise LayoutError(f"row {i} of matrix {j} is not 16 aligned bytes in one piece")
            offsets[8 * j + i] = at[0]
    return access(offsets, MAX_BYTES, np.arange(LANES) < lanes)


def loaded_by_matrices(move: Fragment, origins: Sequence[tuple[int, int]], transposed: bool = False) -> Fragment:
    """What a warp holds after an `ldmatrix` with the layout `move` of matrices that begin at these elements.

    transposed: matrix rows are columns of the tile. The result counts rows and columns from the least origin.
    """
    matrix, within = np.divmod(move.row_of, 8)
    down, right = (move.column_of, within) if transposed else (within, move.column_of)
    first = np.array(origins)
    first = first - first.min(axis=0)
    row, column = first[matrix, 0] + down, first[matrix, 1] + right
    return from_arrays(row, column, move.element_bits, move.register_bits)


@dataclass(frozen=True)
class Staging:
    """How the threads of a block fill a tile: each takes `vector` neighbours along one axis, thread after thread.

    walk: the axis along which the source lies side by side in global memory, "row" or "column": the staging walks along
        it, so that lanes of a warp first vary there. It takes as many rounds as the tile needs.
    Raises LayoutError where the tile is not filled by whole rounds, or a vector would cross its edge.
    """

    rows: int
    columns: int
    walk: str
    vector: int
    threads: int

    def __post_init__(self) -> None:
        inner = self.rows if self.walk == "row" else self.columns
        if self.walk not in ("row", "column"):
            raise LayoutError(f"walk is {self.walk!r}; expected 'row' or 'column'")
        if self.threads % LANES:
            raise LayoutError(f"{self.threads} threads are not whole warps")
        if inner % self.vector or self.rows * self.columns % (self.vector * self.threads):
            raise LayoutError(
                f"{self.threads} threads x {self.vector} elements do not fill {self.rows} x {self.columns} evenly"
            )

    @cached_property
    def elements(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns, each (rounds * warps, 32, vector): what each lane of each warp stores in each round."""
        index = np.arange(self.rows * self.columns).reshape(-1, LANES, self.vector)
        if self.walk == "column":
            return index // self.columns, index % self.columns
        return index % self.rows, index // self.rows


def staging_store(tile: Tile, staging: Staging) -> Access:
    """The requests with which the staging threads fill the tile: at once what lies side by side there, too."""
    row, column = staging.elements
    return _vectorised(tile.offset(row, column).transpose(0, 2, 1), tile.element_bytes)


def _vectorised(offsets: np.ndarray, element_bytes: int) -> Access:
    """Requests of the widest accesses for elements (times, elements, 32), taken in order."""
    times, count, _ = offsets.shape
    width = MAX_BYTES
    while width > element_bytes:
        group = width // element_bytes
        if count % group == 0:
            grouped = offsets.reshape(times, count // group, group, LANES)
            step = grouped - grouped[:, :, :1]
            together = np.all(step == element_bytes * np.arange(group)[:, None])
            if together and not np.any(grouped[:, :, 0] % width):
                return access(grouped[:, :, 0].reshape(-1, LANES), width)
        width //= 2
    return access(offsets.reshape(-1, LANES), element_bytes)
