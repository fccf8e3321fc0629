"""Softmax over the rows of x (T, C), forward: y_i = exp(x_i - max x) / sum_j exp(x_j - max x).

x and y are float32, bfloat16 or float16 and may be the same array; arithmetic is float32. An entry of -inf gives 0; a
row of nothing but -inf, or with +inf or NaN in it, gives NaN. The backward pass needs y alone: `softmax_backward.py`.

naive:    one thread per row: a pass for the maximum, one for the sum, one to write.
warp:     one warp per row, the same three passes by shuffles; for short rows.
block:    one block per row, the same three passes; for rows of any length.
online:   one block per row, maximum and sum in a single pass (`softmax_statistics.py`): x is read twice, not three
          times, and every thread joins the others once, not twice.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from .launch import ceil_div, check_block, launcher, read, write
from .primitives.block import block_max, block_sum
from .primitives.warp import WARP, warp_max, warp_sum
from .softmax_statistics import NO_MAXIMUM, block_joined, extended, normaliser


@cuda.jit
def softmax_naive_kernel(x, y):
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    columns = x.shape[1]
    m, s = NO_MAXIMUM, float32(0)
    for column in range(columns):
        m = max(m, float32(x[row, column]))
    for column in range(columns):
        s += math.exp(float32(x[row, column]) - m)
    for column in range(columns):
        y[row, column] = math.exp(float32(x[row, column]) - m) / s


@cuda.jit
def softmax_warp_kernel(x, y):
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
    scale = float32(1) / warp_sum(s)
    for column in range(lane, columns, WARP):
        y[row, column] = math.exp(float32(x[row, column]) - m) * scale


@cuda.jit
def softmax_block_kernel(x, y):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    m, s = NO_MAXIMUM, float32(0)
    for column in range(thread, columns, threads):
        m = max(m, float32(x[row, column]))
    m = block_max(m)
    for column in range(thread, columns, threads):
        s += math.exp(float32(x[row, column]) - m)
    scale = float32(1) / block_sum(s)
    for column in range(thread, columns, threads):
        y[row, column] = math.exp(float32(x[row, column]) - m) * scale


@cuda.jit
def softmax_online_kernel(x, y):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    m, s = NO_MAXIMUM, float32(0)
    for column in range(thread, columns, threads):
        m, s = extended(m, s, float32(x[row, column]))
    m, s = block_joined(m, s)
    scale = normaliser(m, s)
    for column in range(thread, columns, threads):
        y[row, column] = math.exp(float32(x[row, column]) - m) * scale


_softmax = launcher(x=read("T", "C"), y=write("T", "C"), in_place=("x", "y"))


@_softmax
def softmax_naive(x: Any, y: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes y (T, C) of x (T, C), one thread per row."""
    if 0 not in x.shape:
        softmax_naive_kernel[ceil_div(x.shape[0], block), block, stream](x, y)


@_softmax
def softmax_warp(x: Any, y: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes y (T, C) of x (T, C), one warp per row, block / 32 rows per block."""
    check_block(block)
    if 0 not in x.shape:
        softmax_warp_kernel[ceil_div(x.shape[0], block // WARP), block, stream](x, y)


@_softmax
def softmax_block(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (T, C) of x (T, C), one block per row, three passes over the row."""
    check_block(block)
    if 0 not in x.shape:
        softmax_block_kernel[x.shape[0], block, stream](x, y)


@_softmax
def softmax_online(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (T, C) of x (T, C), one block per row, two passes over the row."""
    check_block(block)
    if 0 not in x.shape:
        softmax_online_kernel[x.shape[0], block, stream](x, y)
