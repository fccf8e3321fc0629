"""Layer normalisation of a residual stream, forward, fused with the addition that feeds it.

    h (T, C) = x + r        y (T, C) = (h - mean) rstd gamma + beta        mean, rstd (T,) float32 are those of h

x, r, gamma, beta, h and y are float32, bfloat16 or float16; gamma and beta (C,) may be None; arithmetic is float32. In
a 16-bit format the norm is of the sum before it is rounded to be stored. Backward: the dx kernels of
`layer_norm_backward.py` with h as x, and with dh, the gradient that reaches h past the norm; their dx is then the
gradient of x and of r alike.

warp:   one warp per row, two passes for the statistics, sums by shuffles; for short rows.
block:  one block per row, two passes, sums by shuffles and shared memory; for long rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, ceil_div, check_block, launcher, read, write
from .layer_norm import scale_and_shift
from .primitives.block import block_sum
from .primitives.warp import WARP, warp_sum


@cuda.jit(device=True)
def added(x, r, row, column):
    """One element of x + r, float32; h may round it."""
    return float32(x[row, column]) + float32(r[row, column])


@cuda.jit
def layer_norm_residual_warp_kernel(x, r, gamma, beta, eps, h, y, mean, rstd):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns = x.shape[1]
    total = float32(0)
    for column in range(lane, columns, WARP):
        value = added(x, r, row, column)
        h[row, column] = value
        total += value
    m = warp_sum(total) / float32(columns)
    squares = float32(0)
    for column in range(lane, columns, WARP):
        centred = added(x, r, row, column) - m
        squares += centred * centred
    scale = float32(1) / math.sqrt(warp_sum(squares) / float32(columns) + eps)
    for column in range(lane, columns, WARP):
        y[row, column] = scale_and_shift((added(x, r, row, column) - m) * scale, gamma, beta, column)
    if lane == 0:
        mean[row] = m
        rstd[row] = scale


@cuda.jit
def layer_norm_residual_block_kernel(x, r, gamma, beta, eps, h, y, mean, rstd):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    total = float32(0)
    for column in range(thread, columns, threads):
        value = added(x, r, row, column)
        h[row, column] = value
        total += value
    m = block_sum(total) / float32(columns)
    squares = float32(0)
    for column in range(thread, columns, threads):
        centred = added(x, r, row, column) - m
        squares += centred * centred
    scale = float32(1) / math.sqrt(block_sum(squares) / float32(columns) + eps)
    for column in range(thread, columns, threads):
        y[row, column] = scale_and_shift((added(x, r, row, column) - m) * scale, gamma, beta, column)
    if thread == 0:
        mean[row] = m
        rstd[row] = scale


_arrays = launcher(
    x=read("T", "C"),
    r=read("T", "C"),
    gamma=read("C", optional=True),
    beta=read("C", optional=True),
    h=write("T", "C"),
    y=write("T", "C"),
    mean=write("T", dtypes=FLOAT32),
    rstd=write("T", dtypes=FLOAT32),
)


@_arrays
def layer_norm_residual_warp(
    x: Any,
    r: Any,
    gamma: Any | None,
    beta: Any | None,
    eps: float,
    h: Any,
    y: Any,
    mean: Any,
    rstd: Any,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Writes h = x + r (T, C), and y (T, C), mean and rstd (T,) of h; one warp per row."""
    check_block(block)
    if x.shape[0]:
        layer_norm_residual_warp_kernel[ceil_div(x.shape[0], block // WARP), block, stream](
            x, r, gamma, beta, np.float32(eps), h, y, mean, rstd
        )


@_arrays
def layer_norm_residual_block(
    x: Any,
    r: Any,
    gamma: Any | None,
    beta: Any | None,
    eps: float,
    h: Any,
    y: Any,
    mean: Any,
    rstd: Any,
    block: int = 256,
    *,
    stream: Any = None,
) -> None:
    """Writes h = x + r (T, C), and y (T, C), mean and rstd (T,) of h; one block per row."""
    check_block(block)
    if x.shape[0]:
        layer_norm_residual_block_kernel[x.shape[0], block, stream](
            x, r, gamma, beta, np.float32(eps), h, y, mean, rstd
        )
