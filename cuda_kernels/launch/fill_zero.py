"""Zeros in a device array, on the stream of a launch: what an atomic kernel adds to."""

from __future__ import annotations

from typing import Any

from numba import cuda

from .checks import ceil_div


@cuda.jit
def fill_zero_kernel(array):
    element = cuda.grid(1)
    if element < array.size:
        array.flat[element] = 0


def fill_zero(array: Any, block: int, stream: Any) -> None:
    """Writes 0 to every element of a device array of any shape and strides; one thread per element."""
    if array.size:
        fill_zero_kernel[ceil_div(array.size, block), block, stream](array)
