"""Indices outside their range, found on the device before they are used; for launchers with `check=True`.

A kernel believes its index: a wrong one reads or writes memory of another array, and a negative one, in Numba, the row
counted from the end. Looking costs a launch, and the host waits for its answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from .launch import ceil_div

BLOCK = 256


@cuda.jit
def first_outside_kernel(index, below, first):
    """first (1,) = the lowest i with index[i] outside [0, below), index (I,); unchanged where there is none."""
    i = cuda.grid(1)
    if i < index.shape[0] and (index[i] < 0 or index[i] >= below):
        cuda.atomic.min(first, 0, i)


@cuda.jit
def first_outside_of_rows_kernel(index, below, first):
    """As `first_outside_kernel` for index (B, L), whose elements are numbered along the rows."""
    i, length = cuda.grid(1), index.shape[1]
    if i < index.shape[0] * length:
        value = index[i // length, i % length]
        if value < 0 or value >= below:
            cuda.atomic.min(first, 0, i)


def check_indices(name: str, argument: str, index: Any, below: int, stream: Any) -> None:
    """Raises IndexError that names the first element of `index`, of one or two axes, outside [0, below).

    The host waits until the stream has got there.
    """
    if not index.size:
        return
    first = cuda.to_device(np.full(1, index.size, np.int64), stream=stream)
    kernel = first_outside_kernel if index.ndim == 1 else first_outside_of_rows_kernel
    kernel[ceil_div(index.size, BLOCK), BLOCK, stream](index, below, first)
    host = first.copy_to_host(stream=stream)
    if stream:
        stream.synchronize()
    found = int(host[0])
    if found < index.size:
        where = (found,) if index.ndim == 1 else divmod(found, index.shape[1])
        place = ", ".join(map(str, where))
        raise IndexError(f"{name}: {argument}[{place}] is {index[where]}, expected an index from 0 to {below - 1}")
