"""A contraction cut into parts: how many, and how parts that were stored apart become one sum."""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .tiles import Tiles, WarpTiles

BLOCK = 128
MOST_SPLITS = 65_535
"""The limit of grid.y."""
WORTH = 1.05
"""More splits are taken only where they are estimated to save more than this factor: they cost memory or atomics."""


def check_split_k(split_k: int) -> None:
    """Raises ValueError unless K can be cut into so many parts."""
    if not 1 <= split_k <= MOST_SPLITS:
        raise ValueError(f"split_k={split_k} must lie between 1 and {MOST_SPLITS}, the limit of grid.y")


@functools.lru_cache(maxsize=1024)
def choose_split_k(K: int, M: int, N: int, tiles: Tiles | WarpTiles, multiprocessors: int) -> int:
    """The number of parts for a contraction of length K into an output (M, N), on a GPU of so many multiprocessors.

    An output of few tiles leaves multiprocessors idle, however long K is; s parts make s times as many blocks. Each
    multiprocessor is taken to work on one block at a time, so that the launch takes

        waves(s) (slices(s) + finish)    with waves(s) = ceil(s output tiles / multiprocessors),
                                              slices(s) = ceil(ceil(K / block_k) / s)

    in units of one slice of K. `finish` is what a block's end costs, its tile read and written once, as the number of
    slices that move as many bytes: 2 block_m block_n / ((block_m + block_n) block_k). No part is made shorter than its
    own finish, and no more than two waves. The smallest s within a factor `WORTH` of the best is taken.
    """
    block_m, block_n, block_k = tiles[:3]
    output_tiles = ceil_div(M, block_m) * ceil_div(N, block_n)
    slices = ceil_div(K, block_k)
    finish = 2 * block_m * block_n / ((block_m + block_n) * block_k)
    most = min(int(slices / finish), MOST_SPLITS, ceil_div(2 * multiprocessors, max(1, output_tiles)))
    if output_tiles == 0 or most <= 1:
        return 1

    def time(s: int) -> float:
        return ceil_div(s * output_tiles, multiprocessors) * (ceil_div(slices, s) + finish)

    best = min(map(time, range(1, most + 1)))
    return next(s for s in range(1, most + 1) if time(s) <= WORTH * best)


def split_k_or_chosen(split_k: int | None, a: Any, b: Any, tiles: Tiles | WarpTiles) -> int:
    """`split_k` as given, or for None the choice for a (M, K) b (K, N) on the current device."""
    if split_k is not None:
        return split_k
    multiprocessors = cuda.get_current_device().MULTIPROCESSOR_COUNT
    return choose_split_k(a.shape[1], a.shape[0], b.shape[1], tiles, multiprocessors)


@cuda.jit(device=True)
def split_of_k(depth, block_k):
    """The part of range(depth) that this block, number blockIdx.y of gridDim.y, contracts: (begin, end).

    Parts are multiples of block_k but for the last that is not empty, so that none but that one has a ragged slice and
    every one begins where loads of 16 bytes may begin.
    """
    slices = (depth + block_k - 1) // block_k
    per_split = (slices + cuda.gridDim.y - 1) // cuda.gridDim.y * block_k
    begin = min(depth, cuda.blockIdx.y * per_split)
    return begin, min(depth, begin + per_split)


@cuda.jit
def add_partials_kernel(partials, c):
    """c (M, N) += the sum of partials (split_k, M, N) over its first axis, always in the same order."""
    element = cuda.grid(1)
    if element >= c.shape[0] * c.shape[1]:
        return
    row, column = element // c.shape[1], element % c.shape[1]
    value = float32(0)
    for split in range(partials.shape[0]):
        value += partials[split, row, column]
    c[row, column] += value


def launch_add_partials(partials: Any, c: Any, stream: Any = 0) -> None:
    """c (M, N) += the sum of partials (split_k, M, N) over its first axis, in a fixed order."""
    elements = c.shape[0] * c.shape[1]
    if elements:
        add_partials_kernel[ceil_div(elements, BLOCK), BLOCK, stream](partials, c)
