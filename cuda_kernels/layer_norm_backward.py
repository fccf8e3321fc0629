"""Layer normalisation, backward, from the saved mean and rstd (T,): xhat = (x - mean) rstd, dxhat = dy gamma.

    dx (T, C)   = rstd (dxhat - mean_C(dxhat) - xhat mean_C(dxhat xhat)) + dh
    dgamma (C,) += sum_t dy xhat        into the caller's float32 buffer
    dbeta (C,)  += sum_t dy             into the caller's float32 buffer

gamma may be None. dh (T, C) is the gradient that reaches x past the norm, in a residual stream; None without one. In
the residual form x is the stored sum h, and dx, which may take the place of dh, is the gradient of both its terms. dy,
x, gamma, dh and dx are float32, bfloat16 or float16; arithmetic is float32.

dx naive:             one thread per row.
dx warp:              one warp per row; for short rows.
dx block:             one block per row; for long rows.
dgamma_dbeta naive:   one thread per column walks all rows.
dgamma_dbeta atomic:  blocks of columns by rows_per_block rows add their part by atomics; order left to the hardware.
dgamma_dbeta two_stage:  the same blocks write their part to a workspace, a second kernel adds the parts in order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, float32

from .column_parts import add_atomically, part_and_column, store_part, sum_of_parts
from .launch import FLOAT32, add_into, ceil_div, check_block, check_positive, launcher, read, write
from .primitives.block import block_sum
from .primitives.warp import WARP, warp_sum

# ------------------------------------------------------------------------------------------------------------ dx


@cuda.jit(device=True)
def factor(gamma, column):
    """gamma; an empty one means 1."""
    return float32(gamma[column]) if gamma.shape[0] > 0 else float32(1)


@cuda.jit(device=True)
def upstream(dy, gamma, row, column):
    """dxhat = dy gamma."""
    return float32(dy[row, column]) * factor(gamma, column)


@cuda.jit(device=True)
def store_dx(dy, x, gamma, m, r, average, average_xhat, dh, dx, row, column):
    """dx of one element, given mean and rstd of its row and the means of dxhat and dxhat xhat over it.

    Written as fma, so that no compiler chooses which product is rounded: in a row of one column, or where dy is nearly
    constant, all of dx but dh is rounding error, which would change from one compilation to the next.
    """
    past = float32(dh[row, column]) if dh.shape[0] > 0 else float32(0)
    xhat = (float32(x[row, column]) - m) * r
    centred = cuda.fma(float32(dy[row, column]), factor(gamma, column), -average)
    dx[row, column] = cuda.fma(r, cuda.fma(-xhat, average_xhat, centred), past)


@cuda.jit
def layer_norm_dx_naive_kernel(dy, x, gamma, mean, rstd, dh, dx):
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    columns, m, r = x.shape[1], mean[row], rstd[row]
    total, total_xhat = float32(0), float32(0)
    for column in range(columns):
        dxhat = upstream(dy, gamma, row, column)
        total += dxhat
        total_xhat += dxhat * ((float32(x[row, column]) - m) * r)
    average, average_xhat = total / float32(columns), total_xhat / float32(columns)
    for column in range(columns):
        store_dx(dy, x, gamma, m, r, average, average_xhat, dh, dx, row, column)


@cuda.jit
def layer_norm_dx_warp_kernel(dy, x, gamma, mean, rstd, dh, dx):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns, m, r = x.shape[1], mean[row], rstd[row]
    total, total_xhat = float32(0), float32(0)
    for column in range(lane, columns, WARP):
        dxhat = upstream(dy, gamma, row, column)
        total += dxhat
        total_xhat += dxhat * ((float32(x[row, column]) - m) * r)
    average, average_xhat = warp_sum(total) / float32(columns), warp_sum(total_xhat) / float32(columns)
    for column in range(lane, columns, WARP):
        store_dx(dy, x, gamma, m, r, average, average_xhat, dh, dx, row, column)


@cuda.jit
def layer_norm_dx_block_kernel(dy, x, gamma, mean, rstd, dh, dx):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns, m, r = x.shape[1], mean[row], rstd[row]
    total, total_xhat = float32(0), float32(0)
    for column in range(thread, columns, threads):
        dxhat = upstream(dy, gamma, row, column)
        total += dxhat
        total_xhat += dxhat * ((float32(x[row, column]) - m) * r)
    average, average_xhat = block_sum(total) / float32(columns), block_sum(total_xhat) / float32(columns)
    for column in range(thread, columns, threads):
        store_dx(dy, x, gamma, m, r, average, average_xhat, dh, dx, row, column)


# ------------------------------------------------------------------------------------------------- dgamma, dbeta


@cuda.jit
def layer_norm_dgamma_dbeta_naive_kernel(dy, x, mean, rstd, dgamma, dbeta):
    column = cuda.grid(1)
    if column >= x.shape[1]:
        return
    g, b = float32(0), float32(0)
    for row in range(x.shape[0]):
        upstream_value = float32(dy[row, column])
        g += upstream_value * ((float32(x[row, column]) - mean[row]) * rstd[row])
        b += upstream_value
    dgamma[column] += g
    dbeta[column] += b


@functools.cache
def layer_norm_dgamma_dbeta_parts(finish: Callable[..., None]) -> Any:
    """The kernel that sums rows_per_block rows per block, one thread per column; grid.x covers parts x columns."""

    @cuda.jit
    def layer_norm_dgamma_dbeta_parts_kernel(dy, x, mean, rstd, rows_per_block, dgamma, dbeta):
        part, column = part_and_column(x.shape[1])
        if column >= x.shape[1]:
            return
        g, b = float32(0), float32(0)
        for row in range(part * rows_per_block, min((part + 1) * rows_per_block, x.shape[0])):
            upstream_value = float32(dy[row, column])
            g += upstream_value * ((float32(x[row, column]) - mean[row]) * rstd[row])
            b += upstream_value
        finish(dgamma, part, column, g)
        finish(dbeta, part, column, b)

    return layer_norm_dgamma_dbeta_parts_kernel


@cuda.jit
def layer_norm_add_parts_kernel(dgamma_parts, dbeta_parts, dgamma, dbeta):
    column = cuda.grid(1)
    if column < dgamma.shape[0]:
        dgamma[column] += sum_of_parts(dgamma_parts, column)
        dbeta[column] += sum_of_parts(dbeta_parts, column)


# ----------------------------------------------------------------------------------------------------- launchers


_dx = launcher(
    in_place=("dh", "dx"),
    dy=read("T", "C"),
    x=read("T", "C"),
    gamma=read("C", optional=True),
    mean=read("T", dtypes=FLOAT32),
    rstd=read("T", dtypes=FLOAT32),
    dh=read("T", "C", optional=True),
    dx=write("T", "C"),
)
_dgamma_dbeta = launcher(
    dy=read("T", "C"),
    x=read("T", "C"),
    mean=read("T", dtypes=FLOAT32),
    rstd=read("T", dtypes=FLOAT32),
    dgamma=add_into("C"),
    dbeta=add_into("C"),
)


@_dx
def layer_norm_dx_naive(
    dy: Any,
    x: Any,
    gamma: Any | None,
    mean: Any,
    rstd: Any,
    dh: Any | None,
    dx: Any,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, C) from dy and x (T, C), gamma (C,), mean and rstd (T,), dh (T, C); one thread per row."""
    if 0 not in x.shape:
        layer_norm_dx_naive_kernel[ceil_div(x.shape[0], block), block, stream](dy, x, gamma, mean, rstd, dh, dx)


@_dx
def layer_norm_dx_warp(
    dy: Any,
    x: Any,
    gamma: Any | None,
    mean: Any,
    rstd: Any,
    dh: Any | None,
    dx: Any,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, C) from dy and x (T, C), gamma (C,), mean and rstd (T,), dh (T, C); one warp per row."""
    check_block(block)
    if 0 not in x.shape:
        layer_norm_dx_warp_kernel[ceil_div(x.shape[0], block // WARP), block, stream](dy, x, gamma, mean, rstd, dh, dx)


@_dx
def layer_norm_dx_block(
    dy: Any,
    x: Any,
    gamma: Any | None,
    mean: Any,
    rstd: Any,
    dh: Any | None,
    dx: Any,
    block: int = 256,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, C) from dy and x (T, C), gamma (C,), mean and rstd (T,), dh (T, C); one block per row."""
    check_block(block)
    if 0 not in x.shape:
        layer_norm_dx_block_kernel[x.shape[0], block, stream](dy, x, gamma, mean, rstd, dh, dx)


@_dgamma_dbeta
def layer_norm_dgamma_dbeta_naive(
    dy: Any, x: Any, mean: Any, rstd: Any, dgamma: Any, dbeta: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Adds to the float32 buffers dgamma and dbeta (C,) from dy and x (T, C); one thread per column."""
    if 0 not in x.shape:
        blocks = ceil_div(x.shape[1], block)
        layer_norm_dgamma_dbeta_naive_kernel[blocks, block, stream](dy, x, mean, rstd, dgamma, dbeta)


@_dgamma_dbeta
def layer_norm_dgamma_dbeta_atomic(
    dy: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    dgamma: Any,
    dbeta: Any,
    rows_per_block: int = 64,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Adds to the float32 buffers dgamma and dbeta (C,) from dy and x (T, C) by atomics, in any order."""
    check_positive("rows_per_block", rows_per_block)
    if 0 not in x.shape:
        blocks = ceil_div(x.shape[1], block) * ceil_div(x.shape[0], rows_per_block)
        kernel = layer_norm_dgamma_dbeta_parts(add_atomically)
        kernel[blocks, block, stream](dy, x, mean, rstd, rows_per_block, dgamma, dbeta)


@_dgamma_dbeta
def layer_norm_dgamma_dbeta_two_stage(
    dy: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    dgamma: Any,
    dbeta: Any,
    rows_per_block: int = 64,
    block: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Adds to the float32 buffers dgamma and dbeta (C,), bit for bit repeatable.

    The scratch is 2 C floats for every rows_per_block rows.
    """
    check_positive("rows_per_block", rows_per_block)
    if 0 not in x.shape:
        T, C = x.shape
        parts, column_blocks = ceil_div(T, rows_per_block), ceil_div(C, block)
        dgamma_parts, dbeta_parts = (cuda.device_array((parts, C), FLOAT32, stream=stream) for _ in range(2))
        kernel = layer_norm_dgamma_dbeta_parts(store_part)
        kernel[parts * column_blocks, block, stream](dy, x, mean, rstd, rows_per_block, dgamma_parts, dbeta_parts)
        layer_norm_add_parts_kernel[column_blocks, block, stream](dgamma_parts, dbeta_parts, dgamma, dbeta)
