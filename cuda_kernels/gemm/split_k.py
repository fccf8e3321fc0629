"""A contraction cut into parts: how many, and how parts that were stored apart become one sum."""

from __future__ import annotations

from typing import Any

from numba import cuda, float32

from ..launch import ceil_div

BLOCK = 128
MOST_SPLITS = 65_535
"""The limit of grid.y."""


def check_split_k(split_k: int) -> None:
    """Raises ValueError unless K can be cut into so many parts."""
    if not 1 <= split_k <= MOST_SPLITS:
        raise ValueError(f"split_k={split_k} must lie between 1 and {MOST_SPLITS}, the limit of grid.y")


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
