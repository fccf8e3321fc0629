"""Root-mean-square normalisation, backward, from the saved rstd (T,): xhat = x rstd, dxhat = dy gamma.

    dx (T, C)   = rstd (dxhat - xhat mean_C(dxhat xhat)) + dh
    dgamma (C,) += sum_t dy xhat        into the caller's float32 buffer

gamma (C,) may be None. dh (T, C) is the gradient that reaches x past the norm, in a residual stream; None without one.
In the residual form x is the stored sum h, and dx, which may take the place of dh, is the gradient of both its terms.
dy, x, gamma, dh and dx are float32, bfloat16 or float16; arithmetic is float32.

dx warp:           one warp per row; for short rows.
dx block:          one block per row; for long rows.
dgamma atomic:     blocks of columns by rows_per_block rows add their part by atomics; order left to the hardware.
dgamma two_stage:  the same blocks write their part to a workspace, a second kernel adds the parts in order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, float32

from .column_parts import add_atomically, add_parts_kernel, part_and_column, store_part
from .launch import FLOAT32, add_into, ceil_div, check_block, check_positive, launcher, read, write
from .primitives.block import block_sum
from .primitives.warp import WARP, warp_sum


@cuda.jit(device=True)
def upstream(dy, gamma, row, column):
    """dxhat = dy gamma; an empty gamma means none."""
    scale = float32(gamma[column]) if gamma.shape[0] > 0 else float32(1)
    return float32(dy[row, column]) * scale


@cuda.jit(device=True)
def store_dx(dy, x, gamma, scale, average, dh, dx, row, column):
    """dx of one element, given rstd of its row and the mean of dxhat xhat over it; an empty dh means none."""
    past = float32(dh[row, column]) if dh.shape[0] > 0 else float32(0)
    xhat = float32(x[row, column]) * scale
    dx[row, column] = scale * (upstream(dy, gamma, row, column) - xhat * average) + past


@cuda.jit
def rms_norm_dx_warp_kernel(dy, x, gamma, rstd, dh, dx):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= x.shape[0]:
        return  # the whole warp leaves: its lanes share the row
    columns, scale = x.shape[1], rstd[row]
    total = float32(0)
    for column in range(lane, columns, WARP):
        total += upstream(dy, gamma, row, column) * (float32(x[row, column]) * scale)
    average = warp_sum(total) / float32(columns)
    for column in range(lane, columns, WARP):
        store_dx(dy, x, gamma, scale, average, dh, dx, row, column)


@cuda.jit
def rms_norm_dx_block_kernel(dy, x, gamma, rstd, dh, dx):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns, scale = x.shape[1], rstd[row]
    total = float32(0)
    for column in range(thread, columns, threads):
        total += upstream(dy, gamma, row, column) * (float32(x[row, column]) * scale)
    average = block_sum(total) / float32(columns)
    for column in range(thread, columns, threads):
        store_dx(dy, x, gamma, scale, average, dh, dx, row, column)


@functools.cache
def rms_norm_dgamma_parts(finish: Callable[..., None]) -> Any:
    """The kernel that sums rows_per_block rows per block, one thread per column; grid.x covers parts x columns."""

    @cuda.jit
    def rms_norm_dgamma_parts_kernel(dy, x, rstd, rows_per_block, dgamma):
        part, column = part_and_column(x.shape[1])
        if column >= x.shape[1]:
            return
        total = float32(0)
        for row in range(part * rows_per_block, min((part + 1) * rows_per_block, x.shape[0])):
            total += float32(dy[row, column]) * (float32(x[row, column]) * rstd[row])
        finish(dgamma, part, column, total)

    return rms_norm_dgamma_parts_kernel


ROW = read("T", "C")
GAMMA = read("C", optional=True)
STATISTIC = read("T", dtypes=FLOAT32)
PAST_THE_NORM = read("T", "C", optional=True)


@launcher(in_place=("dh", "dx"), dy=ROW, x=ROW, gamma=GAMMA, rstd=STATISTIC, dh=PAST_THE_NORM, dx=write("T", "C"))
def rms_norm_dx_warp(
    dy: Any, x: Any, gamma: Any | None, rstd: Any, dh: Any | None, dx: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes dx (T, C) from dy and x (T, C), gamma (C,), rstd (T,) and dh (T, C); one warp per row."""
    check_block(block)
    if 0 not in x.shape:
        blocks = ceil_div(x.shape[0], block // WARP)
        rms_norm_dx_warp_kernel[blocks, block, stream](dy, x, gamma, rstd, dh, dx)


@launcher(in_place=("dh", "dx"), dy=ROW, x=ROW, gamma=GAMMA, rstd=STATISTIC, dh=PAST_THE_NORM, dx=write("T", "C"))
def rms_norm_dx_block(
    dy: Any, x: Any, gamma: Any | None, rstd: Any, dh: Any | None, dx: Any, block: int = 256, *, stream: Any = None
) -> None:
    """Writes dx (T, C) from dy and x (T, C), gamma (C,), rstd (T,) and dh (T, C); one block per row."""
    check_block(block)
    if 0 not in x.shape:
        rms_norm_dx_block_kernel[x.shape[0], block, stream](dy, x, gamma, rstd, dh, dx)


@launcher(dy=ROW, x=ROW, rstd=STATISTIC, dgamma=add_into("C"))
def rms_norm_dgamma_atomic(
    dy: Any, x: Any, rstd: Any, dgamma: Any, rows_per_block: int = 64, block: int = 128, *, stream: Any = None
) -> None:
    """Adds to the float32 buffer dgamma (C,) from dy and x (T, C) and rstd (T,), by atomics in any order."""
    check_positive("rows_per_block", rows_per_block)
    if 0 not in x.shape:
        blocks = ceil_div(x.shape[1], block) * ceil_div(x.shape[0], rows_per_block)
        rms_norm_dgamma_parts(add_atomically)[blocks, block, stream](dy, x, rstd, rows_per_block, dgamma)


@launcher(dy=ROW, x=ROW, rstd=STATISTIC, dgamma=add_into("C"))
def rms_norm_dgamma_two_stage(
    dy: Any, x: Any, rstd: Any, dgamma: Any, rows_per_block: int = 64, block: int = 128, *, stream: Any = None
) -> None:
    """Adds to the float32 buffer dgamma (C,) from dy and x (T, C) and rstd (T,), bit for bit repeatable.

    The scratch is C floats for every rows_per_block rows.
    """
    check_positive("rows_per_block", rows_per_block)
    if 0 not in x.shape:
        T, C = x.shape
        count, column_blocks = ceil_div(T, rows_per_block), ceil_div(C, block)
        parts = cuda.device_array((count, C), FLOAT32, stream=stream)
        kernel = rms_norm_dgamma_parts(store_part)
        kernel[count * column_blocks, block, stream](dy, x, rstd, rows_per_block, parts)
        add_parts_kernel[column_blocks, block, stream](parts, dgamma)
