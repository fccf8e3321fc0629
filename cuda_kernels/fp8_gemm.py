"""Block-scaled fp8 matrix product y (T, N) = x w, with x (T, K) in row groups and w (K, N) in square blocks.

xq (T, K) has x_scales (T, ceil(K / group)), wq (K, N) has w_scales (ceil(K / group), ceil(N / group)); group is 128 in
practice, any size works and none has to divide T, K or N. Sums are float32 in two levels (`fp8_blocks.py`).
The operands come from `fp8_quantize`; backward products: `fp8_gemm_backward.py`, experts: `fp8_grouped_gemm.py`.

Operands are float8_e4m3fn or float8_e5m2, or bytes whose format is named; y is float32, bfloat16 or float16. CUDA cores
do the arithmetic; the conversions need compute capability 8.9.

naive:           one thread per element of y.
register_tiled:  decoded tiles in shared memory, thread_m x thread_n elements per thread.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda

from .fp8_blocks import element, register_tiled, store
from .fp8_formats import FP8, Fp8Format, as_bytes, format_of
from .fp8_quantize import check_scales
from .gemm.tiles import Tiles
from .launch import FLOAT32, ceil_div, launcher, read, write

NAIVE_BLOCK = 128


@functools.cache
def fp8_gemm_naive_factory(group: int, a: Fp8Format, b: Fp8Format, finish: Any) -> Any:
    """One thread per element of c; grid.x covers the elements, row by row."""
    scaled_element = element(group, a.decode, b.decode)

    @cuda.jit
    def fp8_gemm_naive_kernel(a, a_scales, b, b_scales, b_columns, c):
        index = cuda.grid(1)
        if index < c.shape[0] * c.shape[1]:
            row, column = index // c.shape[1], index % c.shape[1]
            value = scaled_element(a, a_scales, b, b_scales, b_columns, row, column, 0, a.shape[1])
            finish(c, row, column, value)

    return fp8_gemm_naive_kernel


@functools.cache
def fp8_gemm_register_tiled_factory(tiles: Tiles, group: int, a: Fp8Format, b: Fp8Format, finish: Any) -> Any:
    """One tile of c per block; grid.x covers the tiles, row by row."""
    make_tile = register_tiled(tiles, group, a.decode, b.decode, finish)
    block_m, block_n = tiles.block_m, tiles.block_n

    @cuda.jit
    def fp8_gemm_register_tiled_kernel(a, a_scales, b, b_scales, b_columns, c):
        tiles_n = (c.shape[1] + block_n - 1) // block_n
        first_row = (cuda.blockIdx.x // tiles_n) * block_m
        first_column = (cuda.blockIdx.x % tiles_n) * block_n
        make_tile(a, a_scales, b, b_scales, b_columns, c, first_row, a.shape[0], first_column, 0, a.shape[1])

    return fp8_gemm_register_tiled_kernel


class ScaledOperand:
    """An fp8 operand as a product takes it: bytes, scales and format, both arrays with the axes of the product."""

    def __init__(self, name: str, array: Any, scales: Any, block: tuple[int, int], format: str | None) -> None:
        check_scales(f"{name}_scales", scales, array.shape, *block)
        self.format = format_of(name, array, format)
        self.bytes, self.scales, self.block = as_bytes(array), scales, block


def launch_naive(a: ScaledOperand, b: ScaledOperand, c: Any, group: int, finish: Any, stream: Any) -> None:
    """c = a b, or c += a b, by `fp8_gemm_naive_factory`; b.block[1] columns of b share a scale."""
    if 0 not in c.shape:
        kernel = fp8_gemm_naive_factory(group, a.format, b.format, finish)
        blocks = ceil_div(c.shape[0] * c.shape[1], NAIVE_BLOCK)
        kernel[blocks, NAIVE_BLOCK, stream](a.bytes, a.scales, b.bytes, b.scales, b.block[1], c)


def launch_register_tiled(
    a: ScaledOperand, b: ScaledOperand, c: Any, group: int, tiles: Tiles, finish: Any, stream: Any
) -> None:
    """c = a b, or c += a b, by `fp8_gemm_register_tiled_factory`; b.block[1] columns of b share a scale."""
    tiles.check()
    if 0 not in c.shape:
        kernel = fp8_gemm_register_tiled_factory(tiles, group, a.format, b.format, finish)
        blocks = ceil_div(c.shape[0], tiles.block_m) * ceil_div(c.shape[1], tiles.block_n)
        kernel[blocks, tiles.threads, stream](a.bytes, a.scales, b.bytes, b.scales, b.block[1], c)


_forward = launcher(
    xq=read("T", "K", dtypes=FP8),
    x_scales=read("T", "groups_k", dtypes=FLOAT32),
    wq=read("K", "N", dtypes=FP8),
    w_scales=read("groups_k", "groups_n", dtypes=FLOAT32),
    y=write("T", "N"),
)


@_forward
def fp8_gemm_naive(
    xq: Any,
    x_scales: Any,
    wq: Any,
    w_scales: Any,
    y: Any,
    group: int = 128,
    x_format: str | None = None,
    w_format: str | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, N) = x w from xq (T, K) and wq (K, N) with their scales, one thread per element."""
    x = ScaledOperand("x", xq, x_scales, (1, group), x_format)
    w = ScaledOperand("w", wq, w_scales, (group, group), w_format)
    launch_naive(x, w, y, group, store, stream)


@_forward
def fp8_gemm_register_tiled(
    xq: Any,
    x_scales: Any,
    wq: Any,
    w_scales: Any,
    y: Any,
    group: int = 128,
    x_format: str | None = None,
    w_format: str | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, N) = x w from xq (T, K) and wq (K, N) with their scales, thread_m x thread_n elements per thread."""
    x = ScaledOperand("x", xq, x_scales, (1, group), x_format)
    w = ScaledOperand("w", wq, w_scales, (group, group), w_format)
    launch_register_tiled(x, w, y, group, Tiles(block_m, block_n, block_k, thread_m, thread_n), store, stream)
