"""The K largest of each row of x (T, C), in descending order, and where they stand; and the backward pass.

    values[t, m] = x[t, indices[t, m]]            values, indices (T, K), 0 <= K <= C
    dx[t, indices[t, m]] = dvalues[t, m]          dx (T, C), 0 where nothing was chosen

Equal numbers stand in the order of their indices, lower first (-0 equals 0); NaN is larger than every number, several
NaN in the order of their indices. Nothing is rounded: values are copied as they are stored. Indices of a row are
distinct, hence a plain store backward; that they are, and lie in [0, C), is the caller's promise. x, values, dvalues
and dx are float32, bfloat16 or float16; indices int32 or int64.

K rounds, each of which looks for the first element in that order behind the one that it found last: nothing is marked
as taken, and no scratch is needed. The work is K C, for the small K of routing and sampling.

naive:            one thread per row.
warp:             one warp per row; the lanes' candidates are compared by shuffles.
backward naive:   one thread per row writes zeros, then the K gradients.
backward warp:    one warp per row, likewise.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32, int64

from .launch import INTEGERS, ceil_div, check_block, launcher, read, write
from .primitives.warp import WARP, comes_first, warp_argmax

BEYOND = (1 << 62) + 1  # an index above all others: a candidate that never comes first


@cuda.jit(device=True)
def first_behind(x, row, start, step, last_value, last_index):
    """(value, index) of the first element behind (last_value, last_index) in descending order, among every step-th
    column from start; (-inf, BEYOND) where there is none. A last_index below 0 means that nothing was chosen yet."""
    value, index = float32(-math.inf), int64(BEYOND)
    for column in range(start, x.shape[1], step):
        candidate = float32(x[row, column])
        behind = last_index < 0 or comes_first(last_value, last_index, candidate, int64(column))
        if behind and comes_first(candidate, int64(column), value, index):
            value, index = candidate, int64(column)
    return value, index


@cuda.jit
def top_k_naive_kernel(x, values, indices):
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    value, index = float32(0), int64(-1)
    for slot in range(values.shape[1]):
        value, index = first_behind(x, row, 0, 1, value, index)
        values[row, slot] = x[row, index]
        indices[row, slot] = index


@cuda.jit
def top_k_warp_kernel(x, values, indices):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    value, index = float32(0), int64(-1)
    for slot in range(values.shape[1]):
        value, index = first_behind(x, row, lane, WARP, value, index)
        value, index = warp_argmax(value, index)
        if lane == 0:
            values[row, slot] = x[row, index]
            indices[row, slot] = index


@cuda.jit
def top_k_backward_naive_kernel(dvalues, indices, dx):
    row = cuda.grid(1)
    if row >= dx.shape[0]:
        return
    for column in range(dx.shape[1]):
        dx[row, column] = float32(0)
    for slot in range(dvalues.shape[1]):
        dx[row, indices[row, slot]] = dvalues[row, slot]


@cuda.jit
def top_k_backward_warp_kernel(dvalues, indices, dx):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= dx.shape[0]:
        return
    for column in range(lane, dx.shape[1], WARP):
        dx[row, column] = float32(0)
    cuda.syncwarp()  # a lane stores where another has put its zero
    for slot in range(lane, dvalues.shape[1], WARP):
        dx[row, indices[row, slot]] = dvalues[row, slot]


def check_chosen(K: int, C: int) -> None:
    """Raises ValueError where more are to be chosen than there are."""
    if K > C:
        raise ValueError(f"top_k: K={K} exceeds the C={C} columns of x")


_chosen = launcher(x=read("T", "C"), values=write("T", "K"), indices=write("T", "K", dtypes=INTEGERS))
_backward = launcher(dvalues=read("T", "K"), indices=read("T", "K", dtypes=INTEGERS), dx=write("T", "C"))


@_chosen
def top_k_naive(x: Any, values: Any, indices: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes values and indices (T, K) of x (T, C); one thread per row."""
    check_chosen(values.shape[1], x.shape[1])
    if 0 not in values.shape:
        top_k_naive_kernel[ceil_div(x.shape[0], block), block, stream](x, values, indices)


@_chosen
def top_k_warp(x: Any, values: Any, indices: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes values and indices (T, K) of x (T, C); one warp per row, block / 32 rows per block."""
    check_block(block)
    check_chosen(values.shape[1], x.shape[1])
    if 0 not in values.shape:
        top_k_warp_kernel[ceil_div(x.shape[0], block // WARP), block, stream](x, values, indices)


@_backward
def top_k_backward_naive(dvalues: Any, indices: Any, dx: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes dx (T, C) from dvalues and indices (T, K); one thread per row."""
    check_chosen(dvalues.shape[1], dx.shape[1])
    if 0 not in dx.shape:
        top_k_backward_naive_kernel[ceil_div(dx.shape[0], block), block, stream](dvalues, indices, dx)


@_backward
def top_k_backward_warp(dvalues: Any, indices: Any, dx: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes dx (T, C) from dvalues and indices (T, K); one warp per row, block / 32 rows per block."""
    check_block(block)
    check_chosen(dvalues.shape[1], dx.shape[1])
    if 0 not in dx.shape:
        top_k_backward_warp_kernel[ceil_div(dx.shape[0], block // WARP), block, stream](dvalues, indices, dx)
