"""The logarithm of softmax over the rows of x (T, C), forward: y_i = (x_i - max x) - log sum_j exp(x_j - max x).

x and y are float32, bfloat16 or float16 and may be the same array; arithmetic is float32. An entry of -inf stays -inf;
a row of nothing but -inf, or with +inf or NaN in it, gives NaN. The backward pass is in `log_softmax_backward.py`.

warp:     one warp per row, passes for the maximum, for the sum and to write; for short rows.
online:   one block per row, maximum and sum in a single pass (`softmax_statistics.py`); for rows of any length.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from .launch import ceil_div, check_block, launcher, read, write
from .primitives.warp import WARP, warp_max, warp_sum
from .softmax_statistics import NO_MAXIMUM, block_joined, extended, log_sum


@cuda.jit
def log_softmax_warp_kernel(x, y):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns = x.shape[1]
    m, s = NO_MAXIMUM, float32(0)
    for column in range(lane, columns, WARP):
        m = max(m, float32(x[row, column]))
    m = warp_max(m)
    for column in range(lane, columns, WARP):
        s += math.exp(float32(x[row, column]) - m)
    log_s = math.log(warp_sum(s))
    for column in range(lane, columns, WARP):
        # The maximum goes first: m + log s would be rounded at the size of m.
        y[row, column] = (float32(x[row, column]) - m) - log_s


@cuda.jit
def log_softmax_online_kernel(x, y):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    m, s = NO_MAXIMUM, float32(0)
    for column in range(thread, columns, threads):
        m, s = extended(m, s, float32(x[row, column]))
    m, s = block_joined(m, s)
    log_s = log_sum(m, s)
    for column in range(thread, columns, threads):
        y[row, column] = (float32(x[row, column]) - m) - log_s


_log_softmax = launcher(x=read("T", "C"), y=write("T", "C"), in_place=("x", "y"))


@_log_softmax
def log_softmax_warp(x: Any, y: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes y (T, C) of x (T, C), one warp per row, block / 32 rows per block."""
    check_block(block)
    if 0 not in x.shape:
        log_softmax_warp_kernel[ceil_div(x.shape[0], block // WARP), block, stream](x, y)


@_log_softmax
def log_softmax_online(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (T, C) of x (T, C), one block per row, two passes over the row."""
    check_block(block)
    if 0 not in x.shape:
        log_softmax_online_kernel[x.shape[0], block, stream](x, y)
