"""Block-scaled fp8 matrix products of the backward pass of y = x w, and what they need of the forward operands.

    dx (T, K) = dy w^T        dyq (T, N) in row groups; wq (K, N) in square blocks, as in the forward pass
    dw (K, N) += x^T dy       contracts over T: both operands in groups along the tokens, into a float32 buffer

A group must lie along the axis that is contracted, so that its scale can be applied after the inner sum. The square
blocks of w lie along both of its axes; the row groups of x and dy do not lie along T. They are therefore dequantised,
transposed, and quantised anew: xq (T, K) becomes xq_t (K, T) with scales (K, ceil(T / group)). T need not be a
multiple of the group. Only fp8 is kept for the backward pass, at the price of a second rounding.

dx, dw naive:           one thread per element.
dx, dw register_tiled:  decoded tiles in shared memory; transposes of w, dyq_t and scales are views.
requantize unfused:     the dequantised operand goes through memory as float32 (T, K).
requantize fused:       group x 32 elements are dequantised into shared memory and leave it transposed, as fp8.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from .fp8_blocks import accumulate, store
from .fp8_formats import FP8, Fp8Format, as_bytes, format_of
from .fp8_gemm import ScaledOperand, launch_naive, launch_register_tiled
from .fp8_quantize import (
    COLUMNS,
    NAIVE_BLOCK,
    check_scales,
    check_threads_y,
    fp8_dequantize_factory,
    fp8_quantize_tiles_factory,
    larger_magnitude,
    scale_of,
)
from .gemm.tiles import Tiles
from .launch import FLOAT32, add_into, ceil_div, launcher, read, transposed, write

# ------------------------------------------------------------------------------------------------- re-quantisation


@functools.cache
def fp8_requantize_fused_factory(
    group: int, source: Fp8Format, target: Fp8Format, power_of_two: bool, threads_y: int
) -> Any:
    """32 x threads_y threads per group x 32 elements of q; grid.x covers token groups x pieces of 32 columns."""
    scale_for, encode, decode = scale_of(target, power_of_two), target.encode, source.decode
    threads = COLUMNS * threads_y
    padded = COLUMNS + 1

    @cuda.jit
    def fp8_requantize_fused_kernel(q, scales, q_t, scales_t):
        values = cuda.shared.array((group, padded), float32)  # (token, column)
        largest = cuda.shared.array((threads_y, COLUMNS), float32)
        lane, y = cuda.threadIdx.x, cuda.threadIdx.y
        pieces = (q.shape[1] + COLUMNS - 1) // COLUMNS
        token_group, first_column = cuda.blockIdx.x // pieces, (cuda.blockIdx.x % pieces) * COLUMNS
        first_token, column = token_group * group, first_column + lane
        tokens = min(group, q.shape[0] - first_token)
        columns = min(COLUMNS, q.shape[1] - first_column)

        amax = float32(0)
        if lane < columns:
            for token in range(y, tokens, threads_y):
                row = first_token + token
                value = decode(q[row, column]) * scales[row, column // group]
                values[token, lane] = value
                amax = larger_magnitude(amax, value)
        largest[y, lane] = amax
        cuda.syncthreads()
        if y == 0 and lane < columns:
            for other in range(1, threads_y):
                amax = larger_magnitude(amax, largest[other, lane])
            scale = scale_for(amax)
            largest[0, lane] = scale
            scales_t[column, token_group] = scale
        cuda.syncthreads()
        # Neighbouring threads now follow the tokens, the contiguous axis of the transposed result.
        for item in range(y * COLUMNS + lane, columns * tokens, threads):
            place, token = item // tokens, item % tokens
            q_t[first_column + place, first_token + token] = encode(values[token, place] / largest[0, place])

    return fp8_requantize_fused_kernel


_requantize = launcher(
    q=read("T", "K", dtypes=FP8),
    scales=read("T", "groups_k", dtypes=FLOAT32),
    q_t=write("K", "T", dtypes=FP8),
    scales_t=write("K", "groups_t", dtypes=FLOAT32),
)


def _check_groups(q: Any, scales: Any, q_t: Any, scales_t: Any, group: int) -> None:
    check_scales("scales", scales, q.shape, 1, group)
    check_scales("scales_t", scales_t, q_t.shape, 1, group)


@_requantize
def fp8_requantize_transposed_unfused(
    q: Any,
    scales: Any,
    q_t: Any,
    scales_t: Any,
    group: int = 128,
    power_of_two: bool = False,
    format: str | None = None,
    format_t: str | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes q_t (K, T) and scales_t (K, ceil(T / group)) from q (T, K) and scales (T, ceil(K / group)).

    Two kernels, and 4 T K bytes of scratch between them.
    """
    _check_groups(q, scales, q_t, scales_t, group)
    source, target = format_of("q", q, format), format_of("q_t", q_t, format_t)
    if 0 in q.shape:
        return
    x = cuda.device_array(q.shape, FLOAT32, stream=stream)
    blocks = ceil_div(q.shape[0] * q.shape[1], NAIVE_BLOCK)
    fp8_dequantize_factory(source)[blocks, NAIVE_BLOCK, stream](as_bytes(q), scales, x, 1, group)
    kernel = fp8_quantize_tiles_factory(target, power_of_two)
    blocks = scales_t.shape[0] * scales_t.shape[1]
    kernel[blocks, NAIVE_BLOCK, stream](transposed(x), as_bytes(q_t), scales_t, 1, group)


@_requantize
def fp8_requantize_transposed_fused(
    q: Any,
    scales: Any,
    q_t: Any,
    scales_t: Any,
    group: int = 128,
    power_of_two: bool = False,
    format: str | None = None,
    format_t: str | None = None,
    threads_y: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes q_t (K, T) and scales_t (K, ceil(T / group)) from q (T, K) and scales (T, ceil(K / group)); one kernel."""
    check_threads_y(threads_y)
    _check_groups(q, scales, q_t, scales_t, group)
    source, target = format_of("q", q, format), format_of("q_t", q_t, format_t)
    if 0 in q.shape:
        return
    kernel = fp8_requantize_fused_factory(group, source, target, power_of_two, threads_y)
    blocks = scales_t.shape[1] * ceil_div(q.shape[1], COLUMNS)
    kernel[blocks, (COLUMNS, threads_y), stream](as_bytes(q), scales, as_bytes(q_t), scales_t)


# -------------------------------------------------------------------------------------------------------- products

_dx = launcher(
    dyq=read("T", "N", dtypes=FP8),
    dy_scales=read("T", "groups_n", dtypes=FLOAT32),
    wq=read("K", "N", dtypes=FP8),
    w_scales=read("groups_k", "groups_n", dtypes=FLOAT32),
    dx=write("T", "K"),
)
_dw = launcher(
    xq_t=read("K", "T", dtypes=FP8),
    x_scales_t=read("K", "groups_t", dtypes=FLOAT32),
    dyq_t=read("N", "T", dtypes=FP8),
    dy_scales_t=read("N", "groups_t", dtypes=FLOAT32),
    dw=add_into("K", "N"),
)


def _dx_operands(
    dyq: Any, dy_scales: Any, wq: Any, w_scales: Any, group: int, dy_format: str | None, w_format: str | None
) -> tuple[ScaledOperand, ScaledOperand]:
    dy = ScaledOperand("dy", dyq, dy_scales, (1, group), dy_format)
    return dy, ScaledOperand("w", transposed(wq), transposed(w_scales), (group, group), w_format)


def _dw_operands(
    xq_t: Any, x_scales_t: Any, dyq_t: Any, dy_scales_t: Any, group: int, x_format: str | None, dy_format: str | None
) -> tuple[ScaledOperand, ScaledOperand]:
    x_t = ScaledOperand("x_t", xq_t, x_scales_t, (1, group), x_format)
    return x_t, ScaledOperand("dy_t", transposed(dyq_t), transposed(dy_scales_t), (group, 1), dy_format)


@_dx
def fp8_gemm_dx_naive(
    dyq: Any,
    dy_scales: Any,
    wq: Any,
    w_scales: Any,
    dx: Any,
    group: int = 128,
    dy_format: str | None = None,
    w_format: str | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, K) = dy w^T from dyq (T, N) and wq (K, N) with their scales, one thread per element."""
    dy, w_t = _dx_operands(dyq, dy_scales, wq, w_scales, group, dy_format, w_format)
    launch_naive(dy, w_t, dx, group, store, stream)


@_dx
def fp8_gemm_dx_register_tiled(
    dyq: Any,
    dy_scales: Any,
    wq: Any,
    w_scales: Any,
    dx: Any,
    group: int = 128,
    dy_format: str | None = None,
    w_format: str | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, K) = dy w^T from dyq (T, N) and wq (K, N), thread_m x thread_n elements per thread."""
    dy, w_t = _dx_operands(dyq, dy_scales, wq, w_scales, group, dy_format, w_format)
    launch_register_tiled(dy, w_t, dx, group, Tiles(block_m, block_n, block_k, thread_m, thread_n), store, stream)


@_dw
def fp8_gemm_dw_naive(
    xq_t: Any,
    x_scales_t: Any,
    dyq_t: Any,
    dy_scales_t: Any,
    dw: Any,
    group: int = 128,
    x_format: str | None = None,
    dy_format: str | None = None,
    *,
    stream: Any = None,
) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N) from xq_t (K, T) and dyq_t (N, T), one thread per element."""
    x_t, dy = _dw_operands(xq_t, x_scales_t, dyq_t, dy_scales_t, group, x_format, dy_format)
    launch_naive(x_t, dy, dw, group, accumulate, stream)


@_dw
def fp8_gemm_dw_register_tiled(
    xq_t: Any,
    x_scales_t: Any,
    dyq_t: Any,
    dy_scales_t: Any,
    dw: Any,
    group: int = 128,
    x_format: str | None = None,
    dy_format: str | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N) from xq_t (K, T) and dyq_t (N, T) in one pass over T."""
    x_t, dy = _dw_operands(xq_t, x_scales_t, dyq_t, dy_scales_t, group, x_format, dy_format)
    launch_register_tiled(x_t, dy, dw, group, Tiles(block_m, block_n, block_k, thread_m, thread_n), accumulate, stream)
