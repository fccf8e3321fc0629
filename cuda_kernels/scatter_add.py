"""Gather of rows, and scatter-add, its backward: y[i] = x[index[i]] and dx[index[i]] += dy[i].

x (V, D), index (I,) int32 or int64 with 0 <= index < V, y and dy (I, D); dx (V, D) is the caller's float32 buffer,
into which duplicates add up. x, y and dy are float32, bfloat16 or float16; every sum is float32. The embedding's
backward is the same with one row left out: indices equal to padding_idx add nothing (a negative padding_idx means that
there is none).
An index outside the range, a negative one included (it does not count from the end), is an IndexError with
`check=True`, before anything is written; without it it is the caller's fault: looking costs a launch and a wait.

gather:              one thread per element of y.
scatter_add naive:   one thread per element of dx looks through all of index; deterministic, I V D work.
scatter_add atomic:  one thread per element of dy adds by an atomic; the order of duplicates is left to the hardware.
scatter_add sorted:  a stable sort of index on the device brings duplicates together, then one block per row of dx adds
                     them in the order in which they stand in index; deterministic, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32

from .index_check import check_indices
from .launch import INTEGERS, add_into, ceil_div, launcher, read, write
from .stable_argsort import stable_argsort

NO_PADDING = -1


@cuda.jit
def gather_kernel(x, index, y):
    element = cuda.grid(1)
    if element >= y.shape[0] * y.shape[1]:
        return
    i, column = element // y.shape[1], element % y.shape[1]
    y[i, column] = x[index[i], column]


@cuda.jit
def scatter_add_naive_kernel(dx, index, dy, padding_idx):
    element = cuda.grid(1)
    if element >= dx.shape[0] * dx.shape[1]:
        return
    row, column = element // dx.shape[1], element % dx.shape[1]
    if row == padding_idx:
        return
    total = float32(0)
    for i in range(index.shape[0]):
        if index[i] == row:
            total += float32(dy[i, column])
    dx[row, column] += total


@cuda.jit
def scatter_add_atomic_kernel(dx, index, dy, padding_idx):
    element = cuda.grid(1)
    if element >= dy.shape[0] * dy.shape[1]:
        return
    i, column = element // dy.shape[1], element % dy.shape[1]
    row = index[i]
    if row != padding_idx:
        cuda.atomic.add(dx, (row, column), float32(dy[i, column]))


@cuda.jit
def segment_starts_kernel(index, order, starts):
    """starts[v] (V + 1,) = how many indices are below v: where row v begins in the sorted order."""
    row = cuda.grid(1)
    if row >= starts.shape[0]:
        return
    low, high = 0, order.shape[0]
    while low < high:
        middle = (low + high) // 2
        if index[order[middle]] < row:
            low = middle + 1
        else:
            high = middle
    starts[row] = low


@cuda.jit
def scatter_add_sorted_kernel(dx, order, starts, dy, padding_idx):
    row = cuda.blockIdx.x
    if row == padding_idx:
        return
    for column in range(cuda.threadIdx.x, dx.shape[1], cuda.blockDim.x):
        total = float32(0)
        for slot in range(starts[row], starts[row + 1]):
            total += float32(dy[order[slot], column])
        dx[row, column] += total


_rows_added = launcher(dx=add_into("V", "D"), index=read("I", dtypes=INTEGERS), dy=read("I", "D"))


@launcher(x=read("V", "D"), index=read("I", dtypes=INTEGERS), y=write("I", "D"))
def gather(x: Any, index: Any, y: Any, block: int = 256, check: bool = False, *, stream: Any = None) -> None:
    """Writes y (I, D): the rows of x (V, D) that index (I,) names."""
    if check:
        check_indices("gather", "index", index, x.shape[0], stream)
    elements = y.shape[0] * y.shape[1]
    if elements:
        gather_kernel[ceil_div(elements, block), block, stream](x, index, y)


def _add_naive(dx: Any, index: Any, dy: Any, padding_idx: int, block: int, stream: Any) -> None:
    elements = dx.shape[0] * dx.shape[1]
    if elements:
        scatter_add_naive_kernel[ceil_div(elements, block), block, stream](dx, index, dy, padding_idx)


def _add_atomic(dx: Any, index: Any, dy: Any, padding_idx: int, block: int, stream: Any) -> None:
    elements = dy.shape[0] * dy.shape[1]
    if elements:
        scatter_add_atomic_kernel[ceil_div(elements, block), block, stream](dx, index, dy, padding_idx)


def _add_sorted(dx: Any, index: Any, dy: Any, padding_idx: int, block: int, stream: Any) -> None:
    if 0 in dx.shape or 0 in dy.shape:
        return
    V = dx.shape[0]
    order = stable_argsort(index, V, block, stream=stream)
    starts = cuda.device_array(V + 1, np.dtype(np.int64), stream=stream)
    segment_starts_kernel[ceil_div(V + 1, block), block, stream](index, order, starts)
    scatter_add_sorted_kernel[V, block, stream](dx, order, starts, dy, padding_idx)


@_rows_added
def embedding_backward_naive(
    dx: Any,
    index: Any,
    dy: Any,
    padding_idx: int = NO_PADDING,
    block: int = 128,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Adds dy (I, D) to the rows of the float32 buffer dx (V, D) that index (I,) names, padding_idx left out."""
    if check:
        check_indices("embedding_backward_naive", "index", index, dx.shape[0], stream)
    _add_naive(dx, index, dy, padding_idx, block, stream)


@_rows_added
def embedding_backward_atomic(
    dx: Any,
    index: Any,
    dy: Any,
    padding_idx: int = NO_PADDING,
    block: int = 256,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """As `embedding_backward_naive`, by atomics: the order in which duplicates add up is left to the hardware."""
    if check:
        check_indices("embedding_backward_atomic", "index", index, dx.shape[0], stream)
    _add_atomic(dx, index, dy, padding_idx, block, stream)


@_rows_added
def embedding_backward_sorted(
    dx: Any,
    index: Any,
    dy: Any,
    padding_idx: int = NO_PADDING,
    block: int = 256,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """As `embedding_backward_naive`, bit for bit repeatable at any size; duplicates add up in the order of index.

    The scratch is two int64 per index and one per row of dx, besides 16 for every `block` indices.
    """
    if check:
        check_indices("embedding_backward_sorted", "index", index, dx.shape[0], stream)
    _add_sorted(dx, index, dy, padding_idx, block, stream)


@_rows_added
def scatter_add_naive(
    dx: Any, index: Any, dy: Any, block: int = 128, check: bool = False, *, stream: Any = None
) -> None:
    """Adds dy (I, D) to the rows of the float32 buffer dx (V, D) that index (I,) names; deterministic."""
    if check:
        check_indices("scatter_add_naive", "index", index, dx.shape[0], stream)
    _add_naive(dx, index, dy, NO_PADDING, block, stream)


@_rows_added
def scatter_add_atomic(
    dx: Any, index: Any, dy: Any, block: int = 256, check: bool = False, *, stream: Any = None
) -> None:
    """Adds dy (I, D) to the rows of the float32 buffer dx (V, D) that index (I,) names, by atomics in any order."""
    if check:
        check_indices("scatter_add_atomic", "index", index, dx.shape[0], stream)
    _add_atomic(dx, index, dy, NO_PADDING, block, stream)


@_rows_added
def scatter_add_sorted(
    dx: Any, index: Any, dy: Any, block: int = 256, check: bool = False, *, stream: Any = None
) -> None:
    """Adds dy (I, D) to the rows of the float32 buffer dx (V, D) that index (I,) names, bit for bit repeatable."""
    if check:
        check_indices("scatter_add_sorted", "index", index, dx.shape[0], stream)
    _add_sorted(dx, index, dy, NO_PADDING, block, stream)
