"""The eighth rung: the warp tiles with two buffers, so that a slice of K is fetched while the one before is multiplied.

In the rungs before, every slice costs the whole latency of global memory: load, barrier, multiply, barrier. Here a
thread first starts its loads of the next slice into registers, then multiplies the current one, and only then needs
what it has loaded, to store it into the other buffer. That buffer was last read before the previous barrier, so one
barrier per slice is enough. Traffic per multiplication is that of the seventh rung; shared memory per block is twice as
much, and the loads under way cost registers. K may be split over grid.y.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias
from .split_k import check_split_k, split_of_k
from .staging import PADDING
from .tiles import WarpTiles
from .vector_staging import copier, width_of
from .vectors import BYTES, is_aligned
from .walks import row_by_row
from .warp_multiply import warp_product


@functools.cache
def double_buffered_gemm(epilogue: Any, tiles: WarpTiles, width_a: int, width_b: int, walk: Any = row_by_row) -> Any:
    """The kernel; grid.x covers the tiles of c in the order of `walk`, grid.y the splits of K."""
    block_m, block_n, block_k = tiles[:3]
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    held_a, fetch_a, deposit_a = copier(block_m, block_k, tiles.threads, width_a)
    held_b, fetch_b, deposit_b = copier(block_n, block_k, tiles.threads, width_b)
    shape, clear, multiply, finish = warp_product(epilogue, tiles)

    @cuda.jit
    def double_buffered_gemm_kernel(a, b, operands, c):
        a_tiles = cuda.shared.array((2, block_k, padded_m), float32, alignment=BYTES)  # (buffer, k, row)
        b_tiles = cuda.shared.array((2, block_k, padded_n), float32, alignment=BYTES)  # (buffer, k, column)
        a_held, b_held = cuda.local.array(held_a, float32), cuda.local.array(held_b, float32)
        values = cuda.local.array(shape, float32)
        rows, columns = a.shape[0], b.shape[1]
        tile_m, tile_n = walk(cuda.blockIdx.x, (rows + block_m - 1) // block_m, (columns + block_n - 1) // block_n)
        first_row, first_column = tile_m * block_m, tile_n * block_n
        k_begin, k_end = split_of_k(a.shape[1], block_k)
        a_along_k, b_along_k = a.strides[1] <= a.strides[0], b.strides[0] < b.strides[1]
        a_aligned, b_aligned = is_aligned(a, a_along_k), is_aligned(b.T, b_along_k)

        clear(values)
        if k_begin < k_end:
            fetch_a(a, a_held, first_row, k_begin, k_end, a_along_k, a_aligned)
            fetch_b(b.T, b_held, first_column, k_begin, k_end, b_along_k, b_aligned)
            deposit_a(a_held, a_tiles[0], a_along_k)
            deposit_b(b_held, b_tiles[0], b_along_k)
        cuda.syncthreads()
        buffer = 0
        for first_k in range(k_begin, k_end, block_k):
            next_k = first_k + block_k
            if next_k < k_end:
                fetch_a(a, a_held, first_row, next_k, k_end, a_along_k, a_aligned)
                fetch_b(b.T, b_held, first_column, next_k, k_end, b_along_k, b_aligned)
            multiply(a_tiles[buffer], b_tiles[buffer], values)
            buffer = 1 - buffer
            if next_k < k_end:
                deposit_a(a_held, a_tiles[buffer], a_along_k)
                deposit_b(b_held, b_tiles[buffer], b_along_k)
            cuda.syncthreads()
        finish(values, operands, c, cuda.blockIdx.y, first_row, first_column, rows, columns)

    return double_buffered_gemm_kernel


def launch_double_buffered_gemm(
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: WarpTiles,
    bias: Any | None = None,
    split_k: int = 1,
    stream: Any = 0,
    operands: Any | None = None,
    walk: Any = row_by_row,
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `double_buffered_gemm`, K cut into split_k parts (`split_k.split_of_k`)."""
    tiles.check()
    check_split_k(split_k)
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if blocks:
        width_a = width_of(a.dtype, tiles.block_m, tiles.block_k)
        width_b = width_of(b.dtype, tiles.block_n, tiles.block_k)
        kernel = double_buffered_gemm(epilogue, tiles, width_a, width_b, walk)
        kernel[(blocks, split_k), tiles.threads, stream](a, b, operands_or_bias(operands, bias, b.dtype), c)
