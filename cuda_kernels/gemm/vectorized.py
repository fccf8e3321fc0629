"""The sixth rung: the two-dimensional register tiles with 128-bit loads, from global and from shared memory.

The same bytes move as in the fifth rung, 1 / block_m + 1 / block_n elements per multiplication from global and 1 /
thread_m + 1 / thread_n from shared memory, in a quarter of the instructions (an eighth for 16-bit formats in global
memory). A tile that was read along k is transposed as it is stored, so that the reads from it are along x. Where
strides or the address of an operand forbid it, and at ragged edges, elements are loaded one by one
(`vector_staging.py`).
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias
from .staging import PADDING
from .tiles import Tiles
from .vector_multiply import vector_multiply
from .vector_staging import copier, width_of
from .vectors import BYTES, is_aligned
from .walks import row_by_row


@functools.cache
def vectorized_gemm(epilogue: Any, tiles: Tiles, width_a: int, width_b: int, walk: Any = row_by_row) -> Any:
    """The kernel; grid.x covers the tiles of c in the order of `walk`; width_*: elements per load from memory."""
    block_m, block_n, block_k, thread_m, thread_n = tiles
    threads_n = block_n // thread_n
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    held_a, fetch_a, deposit_a = copier(block_m, block_k, tiles.threads, width_a)
    held_b, fetch_b, deposit_b = copier(block_n, block_k, tiles.threads, width_b)
    multiply_tiles = vector_multiply(block_k, thread_m, thread_n)

    @cuda.jit
    def vectorized_gemm_kernel(a, b, operands, c):
        a_tile = cuda.shared.array((block_k, padded_m), float32, alignment=BYTES)  # (k, row)
        b_tile = cuda.shared.array((block_k, padded_n), float32, alignment=BYTES)  # (k, column)
        a_held, b_held = cuda.local.array(held_a, float32), cuda.local.array(held_b, float32)
        values = cuda.local.array((thread_m, thread_n), float32)
        rows, columns, depth = a.shape[0], b.shape[1], a.shape[1]
        tile_m, tile_n = walk(cuda.blockIdx.x, (rows + block_m - 1) // block_m, (columns + block_n - 1) // block_n)
        first_row, first_column = tile_m * block_m, tile_n * block_n
        my_row = (cuda.threadIdx.x // threads_n) * thread_m
        my_column = (cuda.threadIdx.x % threads_n) * thread_n
        a_along_k, b_along_k = a.strides[1] <= a.strides[0], b.strides[0] < b.strides[1]
        a_aligned, b_aligned = is_aligned(a, a_along_k), is_aligned(b.T, b_along_k)
        for i in range(thread_m):
            for j in range(thread_n):
                values[i, j] = float32(0)

        for first_k in range(0, depth, block_k):
            fetch_a(a, a_held, first_row, first_k, depth, a_along_k, a_aligned)
            fetch_b(b.T, b_held, first_column, first_k, depth, b_along_k, b_aligned)
            deposit_a(a_held, a_tile, a_along_k)
            deposit_b(b_held, b_tile, b_along_k)
            cuda.syncthreads()
            multiply_tiles(a_tile, b_tile, my_row, my_column, values)
            cuda.syncthreads()  # the tiles are overwritten next

        for i in range(thread_m):
            for j in range(thread_n):
                row, column = first_row + my_row + i, first_column + my_column + j
                if row < rows and column < columns:
                    epilogue(c, operands, 0, row, column, values[i, j])

    return vectorized_gemm_kernel


def launch_vectorized_gemm(
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: Tiles,
    bias: Any | None = None,
    stream: Any = 0,
    operands: Any | None = None,
    walk: Any = row_by_row,
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `vectorized_gemm`."""
    tiles.check()
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if blocks:
        width_a = width_of(a.dtype, tiles.block_m, tiles.block_k)
        width_b = width_of(b.dtype, tiles.block_n, tiles.block_k)
        kernel = vectorized_gemm(epilogue, tiles, width_a, width_b, walk)
        kernel[blocks, tiles.threads, stream](a, b, operands_or_bias(operands, bias, b.dtype), c)
