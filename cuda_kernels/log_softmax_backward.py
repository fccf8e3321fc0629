"""The logarithm of softmax, backward, from its output y (T, C): dx = dy - exp(y) sum_j dy_j.

dy, y and dx are float32, bfloat16 or float16; dx may be the array of dy.

warp:     one warp per row; for short rows.
block:    one block per row; for rows of any length.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from .launch import ceil_div, check_block, launcher, read, write
from .primitives.block import block_sum
from .primitives.warp import WARP, warp_sum


@cuda.jit
def log_softmax_dx_warp_kernel(dy, y, dx):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= y.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns = y.shape[1]
    total = float32(0)
    for column in range(lane, columns, WARP):
        total += float32(dy[row, column])
    total = warp_sum(total)
    for column in range(lane, columns, WARP):
        dx[row, column] = float32(dy[row, column]) - math.exp(float32(y[row, column])) * total


@cuda.jit
def log_softmax_dx_block_kernel(dy, y, dx):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = y.shape[1]
    total = float32(0)
    for column in range(thread, columns, threads):
        total += float32(dy[row, column])
    total = block_sum(total)
    for column in range(thread, columns, threads):
        dx[row, column] = float32(dy[row, column]) - math.exp(float32(y[row, column])) * total


_log_softmax_dx = launcher(dy=read("T", "C"), y=read("T", "C"), dx=write("T", "C"), in_place=("dy", "dx"))


@_log_softmax_dx
def log_softmax_dx_warp(dy: Any, y: Any, dx: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes dx (T, C) from dy and y (T, C), one warp per row, block / 32 rows per block."""
    check_block(block)
    if 0 not in y.shape:
        log_softmax_dx_warp_kernel[ceil_div(y.shape[0], block // WARP), block, stream](dy, y, dx)


@_log_softmax_dx
def log_softmax_dx_block(dy: Any, y: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx (T, C) from dy and y (T, C), one block per row."""
    check_block(block)
    if 0 not in y.shape:
        log_softmax_dx_block_kernel[y.shape[0], block, stream](dy, y, dx)
