"""Root-mean-square normalisation over the rows of x (T, C), forward: rstd = 1 / sqrt(mean(x^2) + eps).

    y (T, C) = x rstd gamma              gamma (C,) may be None; rstd (T,) float32 is saved
    h (T, C) = x + r, y = h rstd gamma   the residual form: h is the residual stream, and rstd is that of h

x, r, gamma, h and y are float32, bfloat16 or float16; arithmetic is float32. In a 16-bit format the norm is of the sum
x + r before it is rounded to be stored. Rows of no columns get NaN for rstd. Backward: `rms_norm_backward.py`.

naive:           one thread per row.
warp:            one warp per row, the sum by shuffles; for short rows.
block:           one block per row, the sum by shuffles and shared memory; for long rows.
residual_warp:   as warp, with x + r added, stored and normed in one launch.
residual_block:  as block, likewise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, ceil_div, check_block, launcher, read, write
from .primitives.block import block_sum
from .primitives.warp import WARP, warp_sum


@cuda.jit(device=True)
def scaled(xhat, gamma, column):
    """xhat gamma; an empty gamma means none."""
    return xhat * float32(gamma[column]) if gamma.shape[0] > 0 else xhat


@cuda.jit(device=True)
def reciprocal_rms(squares, columns, eps):
    """rstd from the sum of the squares of a row, float32."""
    return float32(1) / math.sqrt(squares / float32(columns) + eps)


@cuda.jit
def rms_norm_naive_kernel(x, gamma, eps, y, rstd):
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    columns = x.shape[1]
    squares = float32(0)
    for column in range(columns):
        value = float32(x[row, column])
        squares += value * value
    scale = reciprocal_rms(squares, columns, eps)
    for column in range(columns):
        y[row, column] = scaled(float32(x[row, column]) * scale, gamma, column)
    rstd[row] = scale


@cuda.jit
def rms_norm_warp_kernel(x, gamma, eps, y, rstd):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns = x.shape[1]
    squares = float32(0)
    for column in range(lane, columns, WARP):
        value = float32(x[row, column])
        squares += value * value
    scale = reciprocal_rms(warp_sum(squares), columns, eps)
    for column in range(lane, columns, WARP):
        y[row, column] = scaled(float32(x[row, column]) * scale, gamma, column)
    if lane == 0:
        rstd[row] = scale


@cuda.jit
def rms_norm_block_kernel(x, gamma, eps, y, rstd):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    squares = float32(0)
    for column in range(thread, columns, threads):
        value = float32(x[row, column])
        squares += value * value
    scale = reciprocal_rms(block_sum(squares), columns, eps)
    for column in range(thread, columns, threads):
        y[row, column] = scaled(float32(x[row, column]) * scale, gamma, column)
    if thread == 0:
        rstd[row] = scale


@cuda.jit
def rms_norm_residual_warp_kernel(x, r, gamma, eps, h, y, rstd):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return
    columns = x.shape[1]
    squares = float32(0)
    for column in range(lane, columns, WARP):
        value = float32(x[row, column]) + float32(r[row, column])
        h[row, column] = value
        squares += value * value
    scale = reciprocal_rms(warp_sum(squares), columns, eps)
    for column in range(lane, columns, WARP):
        value = float32(x[row, column]) + float32(r[row, column])  # h may have rounded it
        y[row, column] = scaled(value * scale, gamma, column)
    if lane == 0:
        rstd[row] = scale


@cuda.jit
def rms_norm_residual_block_kernel(x, r, gamma, eps, h, y, rstd):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    squares = float32(0)
    for column in range(thread, columns, threads):
        value = float32(x[row, column]) + float32(r[row, column])
        h[row, column] = value
        squares += value * value
    scale = reciprocal_rms(block_sum(squares), columns, eps)
    for column in range(thread, columns, threads):
        value = float32(x[row, column]) + float32(r[row, column])  # h may have rounded it
        y[row, column] = scaled(value * scale, gamma, column)
    if thread == 0:
        rstd[row] = scale


ROW = read("T", "C")
GAMMA = read("C", optional=True)
STATISTIC = write("T", dtypes=FLOAT32)


@launcher(x=ROW, gamma=GAMMA, y=write("T", "C"), rstd=STATISTIC)
def rms_norm_naive(
    x: Any, gamma: Any | None, eps: float, y: Any, rstd: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes y (T, C) and rstd (T,) of x (T, C); one thread per row."""
    if x.shape[0]:
        blocks = ceil_div(x.shape[0], block)
        rms_norm_naive_kernel[blocks, block, stream](x, gamma, np.float32(eps), y, rstd)


@launcher(x=ROW, gamma=GAMMA, y=write("T", "C"), rstd=STATISTIC)
def rms_norm_warp(
    x: Any, gamma: Any | None, eps: float, y: Any, rstd: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes y (T, C) and rstd (T,) of x (T, C); one warp per row, block / 32 rows per block."""
    check_block(block)
    if x.shape[0]:
        blocks = ceil_div(x.shape[0], block // WARP)
        rms_norm_warp_kernel[blocks, block, stream](x, gamma, np.float32(eps), y, rstd)


@launcher(x=ROW, gamma=GAMMA, y=write("T", "C"), rstd=STATISTIC)
def rms_norm_block(
    x: Any, gamma: Any | None, eps: float, y: Any, rstd: Any, block: int = 256, *, stream: Any = None
) -> None:
    """Writes y (T, C) and rstd (T,) of x (T, C); one block per row."""
    check_block(block)
    if x.shape[0]:
        rms_norm_block_kernel[x.shape[0], block, stream](x, gamma, np.float32(eps), y, rstd)


@launcher(x=ROW, r=ROW, gamma=GAMMA, h=write("T", "C"), y=write("T", "C"), rstd=STATISTIC)
def rms_norm_residual_warp(
    x: Any, r: Any, gamma: Any | None, eps: float, h: Any, y: Any, rstd: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes h = x + r (T, C), and y (T, C) and rstd (T,) of h; one warp per row."""
    check_block(block)
    if x.shape[0]:
        blocks = ceil_div(x.shape[0], block // WARP)
        rms_norm_residual_warp_kernel[blocks, block, stream](x, r, gamma, np.float32(eps), h, y, rstd)


@launcher(x=ROW, r=ROW, gamma=GAMMA, h=write("T", "C"), y=write("T", "C"), rstd=STATISTIC)
def rms_norm_residual_block(
    x: Any, r: Any, gamma: Any | None, eps: float, h: Any, y: Any, rstd: Any, block: int = 256, *, stream: Any = None
) -> None:
    """Writes h = x + r (T, C), and y (T, C) and rstd (T,) of h; one block per row."""
    check_block(block)
    if x.shape[0]:
        rms_norm_residual_block_kernel[x.shape[0], block, stream](x, r, gamma, np.float32(eps), h, y, rstd)
