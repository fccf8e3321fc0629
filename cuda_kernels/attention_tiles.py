"""Tiles of the fused attention kernels: their sizes, how they are loaded, and how threads share them.

A block owns `own` rows (queries, or keys when gradients of keys are wanted) and walks over tiles of `other` rows. Each
group of 16 lanes makes 4 own rows: of a product (own, other) lane l has the columns l, l + 16, ..., of a product (own,
depth) likewise. So a row's maximum and sum are found by shuffles among 16 lanes, and a block has 4 own threads.

`depth` is the width of a tile, at least the head dimension D; columns past D hold 0.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import cuda, float32

LANES = 16
ROWS = 4
DEPTHS = (32, 64, 128, 256)
"""Widths of tiles that are compiled by default; the last is the limit of D."""
MOST_SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare."""


class AttentionTiles(NamedTuple):
    """A block owns `own` rows and walks over tiles of `other` rows, both `depth` wide."""

    own: int
    other: int
    depth: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.own // ROWS * LANES


FORWARD = {
    depth: AttentionTiles(own, other, depth)
    for depth, own, other in ((32, 64, 64), (64, 64, 32), (128, 32, 32), (256, 16, 16))
}
BACKWARD = {
    depth: AttentionTiles(own, other, depth)
    for depth, own, other in ((32, 64, 32), (64, 32, 32), (128, 16, 32), (256, 8, 16))
}
"""Sizes by depth such that the tiles of the kernels fit into 48 KB."""


def tiles_for(
    D: int, own: int | None, other: int | None, depth: int | None, defaults: dict[int, AttentionTiles], own_tiles: int
) -> AttentionTiles:
    """The tiles for heads of D columns, with None replaced by the sizes in `defaults`.

    `own_tiles` is how many tiles of (own, depth) a kernel keeps besides one of (other, depth) and one of (own, other).
    Raises ValueError for sizes that do not fit the threads or the shared memory.
    """
    if not 1 <= D <= DEPTHS[-1]:
        raise ValueError(f"D={D}: the fused kernels take heads of 1 to {DEPTHS[-1]} columns")
    usual = defaults[next(width for width in DEPTHS if width >= D)]
    given = (own, other, depth)
    tiles = AttentionTiles(*(size if size is not None else default for size, default in zip(given, usual)))
    for name, size, factor in (("own", tiles.own, 8), ("other", tiles.other, LANES), ("depth", tiles.depth, LANES)):
        if size <= 0 or size % factor:
            raise ValueError(f"{name} tile size {size} must be a positive multiple of {factor}: {tiles}")
    if tiles.depth < D:
        raise ValueError(f"depth={tiles.depth} is less than the D={D} columns of a head")
    if tiles.threads > 1024:
        raise ValueError(f"{tiles} needs {tiles.threads} threads per block, at most 1024 are possible")
    floats = (own_tiles * tiles.own + tiles.other) * (tiles.depth + 1) + tiles.own * (tiles.other + 1)
    if 4 * floats > MOST_SHARED:
        raise ValueError(f"{tiles} needs {4 * floats} bytes of shared memory, at most {MOST_SHARED} are possible")
    return tiles


@functools.cache
def loader(rows: int, depth: int) -> Any:
    """The device function that all threads of a block fill a shared tile (rows, depth) with."""

    @cuda.jit(device=True)
    def load(tile, x, first_row):
        """tile = rows first_row, ... of x (T, D) as float32, 0 outside of x; a barrier is the caller's."""
        for item in range(cuda.threadIdx.x, rows * depth, cuda.blockDim.x):
            r, column = item // depth, item % depth
            row = first_row + r
            tile[r, column] = float32(x[row, column]) if row < x.shape[0] and column < x.shape[1] else float32(0)

    return load


@functools.cache
def row_products(columns: int) -> Any:
    """The device function of products between rows of two tiles, for `columns` columns per lane."""

    @cuda.jit(device=True)
    def products(a, b, first_row, lane, depth, values):
        """values[r, c] = the product of row first_row + r of `a` and row lane + 16 c of `b` over `depth` columns."""
        for r in range(ROWS):
            for c in range(columns):
                values[r, c] = float32(0)
        for d in range(depth):
            for c in range(columns):
                y = b[lane + LANES * c, d]
                for r in range(ROWS):
                    values[r, c] += a[first_row + r, d] * y

    return products


@functools.cache
def add_weighted_rows(other: int, columns: int) -> Any:
    """The device function that adds weighted rows of a tile (other, depth), for `columns` columns per lane."""

    @cuda.jit(device=True)
    def add(weights, tile, first_row, lane, sums):
        """sums[r, c] += the sum over j of weights[first_row + r, j] times tile[j, lane + 16 c]."""
        for j in range(other):
            for c in range(columns):
                y = tile[j, lane + LANES * c]
                for r in range(ROWS):
                    sums[r, c] += weights[first_row + r, j] * y

    return add
