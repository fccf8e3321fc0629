"""Layer normalisation over the rows of x (T, C), forward: xhat = (x - mean) rstd, rstd = 1 / sqrt(var + eps).

    y (T, C) = xhat gamma + beta        gamma, beta (C,), each may be None; mean, rstd (T,) float32 are saved

x, gamma, beta and y are float32, bfloat16 or float16; arithmetic is float32. The variance is the mean of
(x - mean)^2, never E[x^2] - E[x]^2, which loses everything once the mean is large. Rows of no columns get NaN for mean
and rstd. The backward pass is in `layer_norm_backward.py`, the residual form in `layer_norm_residual.py`.

naive:    one thread per row, two passes over the row for the statistics.
warp:     one warp per row, two passes, sums by shuffles; for short rows.
block:    one block per row, two passes, sums by shuffles and shared memory; for long rows.
welford:  one block per row, one pass: each thread keeps a running mean and sum of squares (Welford 1962), which are
          joined pairwise (Chan, Golub and LeVeque 1979); x is read once for the statistics. The row's first element
          is taken off beforehand: joined means differ by rounding errors of the size of the mean, so that a mean of
          1,000 standard deviations would cost three digits of the variance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, ceil_div, check_block, launcher, read, write
from .primitives.block import block_moments, block_sum
from .primitives.warp import WARP, warp_sum


@cuda.jit(device=True)
def scale_and_shift(xhat, gamma, beta, column):
    """xhat gamma + beta; an empty gamma or beta means none."""
    if gamma.shape[0] > 0:
        xhat *= float32(gamma[column])
    if beta.shape[0] > 0:
        xhat += float32(beta[column])
    return xhat


@cuda.jit
def layer_norm_naive_kernel(x, gamma, beta, eps, y, mean, rstd):
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    columns = x.shape[1]
    total = float32(0)
    for column in range(columns):
        total += float32(x[row, column])
    m = total / float32(columns)
    squares = float32(0)
    for column in range(columns):
        centred = float32(x[row, column]) - m
        squares += centred * centred
    r = float32(1) / math.sqrt(squares / float32(columns) + eps)
    for column in range(columns):
        y[row, column] = scale_and_shift((float32(x[row, column]) - m) * r, gamma, beta, column)
    mean[row] = m
    rstd[row] = r


@cuda.jit
def layer_norm_warp_kernel(x, gamma, beta, eps, y, mean, rstd):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns = x.shape[1]
    total = float32(0)
    for column in range(lane, columns, WARP):
        total += float32(x[row, column])
    m = warp_sum(total) / float32(columns)
    squares = float32(0)
    for column in range(lane, columns, WARP):
        centred = float32(x[row, column]) - m
        squares += centred * centred
    r = float32(1) / math.sqrt(warp_sum(squares) / float32(columns) + eps)
    for column in range(lane, columns, WARP):
        y[row, column] = scale_and_shift((float32(x[row, column]) - m) * r, gamma, beta, column)
    if lane == 0:
        mean[row] = m
        rstd[row] = r


@cuda.jit
def layer_norm_block_kernel(x, gamma, beta, eps, y, mean, rstd):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    total = float32(0)
    for column in range(thread, columns, threads):
        total += float32(x[row, column])
    m = block_sum(total) / float32(columns)
    squares = float32(0)
    for column in range(thread, columns, threads):
        centred = float32(x[row, column]) - m
        squares += centred * centred
    r = float32(1) / math.sqrt(block_sum(squares) / float32(columns) + eps)
    for column in range(thread, columns, threads):
        y[row, column] = scale_and_shift((float32(x[row, column]) - m) * r, gamma, beta, column)
    if thread == 0:
        mean[row] = m
        rstd[row] = r


@cuda.jit
def layer_norm_welford_kernel(x, gamma, beta, eps, y, mean, rstd):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = x.shape[1]
    count, m, squares = float32(0), float32(0), float32(0)
    pivot = float32(x[row, 0]) if columns > 0 else float32(math.nan)
    for column in range(thread, columns, threads):
        value = float32(x[row, column]) - pivot
        count += float32(1)
        delta = value - m
        m += delta / count
        squares += delta * (value - m)
    count, m, squares = block_moments(count, m, squares)
    r = float32(1) / math.sqrt(squares / float32(columns) + eps)
    for column in range(thread, columns, threads):
        y[row, column] = scale_and_shift((float32(x[row, column]) - pivot - m) * r, gamma, beta, column)
    if thread == 0:
        mean[row] = pivot + m
        rstd[row] = r


_arrays = launcher(
    x=read("T", "C"),
    gamma=read("C", optional=True),
    beta=read("C", optional=True),
    y=write("T", "C"),
    mean=write("T", dtypes=FLOAT32),
    rstd=write("T", dtypes=FLOAT32),
)


@_arrays
def layer_norm_naive(
    x: Any,
    gamma: Any | None,
    beta: Any | None,
    eps: float,
    y: Any,
    mean: Any,
    rstd: Any,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, C), mean and rstd (T,) of x (T, C); one thread per row."""
    if x.shape[0]:
        layer_norm_naive_kernel[ceil_div(x.shape[0], block), block, stream](
            x, gamma, beta, np.float32(eps), y, mean, rstd
        )


@_arrays
def layer_norm_warp(
    x: Any,
    gamma: Any | None,
    beta: Any | None,
    eps: float,
    y: Any,
    mean: Any,
    rstd: Any,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, C), mean and rstd (T,) of x (T, C); one warp per row, block / 32 rows per block."""
    check_block(block)
    if x.shape[0]:
        layer_norm_warp_kernel[ceil_div(x.shape[0], block // WARP), block, stream](
            x, gamma, beta, np.float32(eps), y, mean, rstd
        )


@_arrays
def layer_norm_block(
    x: Any,
    gamma: Any | None,
    beta: Any | None,
    eps: float,
    y: Any,
    mean: Any,
    rstd: Any,
    block: int = 256,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, C), mean and rstd (T,) of x (T, C); one block per row, two passes for the statistics."""
    check_block(block)
    if x.shape[0]:
        layer_norm_block_kernel[x.shape[0], block, stream](x, gamma, beta, np.float32(eps), y, mean, rstd)


@_arrays
def layer_norm_welford(
    x: Any,
    gamma: Any | None,
    beta: Any | None,
    eps: float,
    y: Any,
    mean: Any,
    rstd: Any,
    block: int = 256,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, C), mean and rstd (T,) of x (T, C); one block per row, one pass for the statistics."""
    check_block(block)
    if x.shape[0]:
        layer_norm_welford_kernel[x.shape[0], block, stream](x, gamma, beta, np.float32(eps), y, mean, rstd)
