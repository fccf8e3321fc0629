"""A contraction cut into parts: how many, and how parts that were stored apart become one sum."""

from __future__ import annotations

from typing import Any

from numba import cuda, float32

from ..launch import ceil_div

BLOCK = 128


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
