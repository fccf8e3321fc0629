"""The fifth rung: each thread makes thread_m x thread_n elements of c, which it keeps in registers.

Global memory: 1 / block_m + 1 / block_n elements per multiplication. Shared memory: 1 / thread_m + 1 / thread_n, since
per k the thread_m elements of a and the thread_n of b that a thread reads serve thread_m thread_n multiplications: 16
loads for 64 of them with 8 x 8. K may be split over grid.y; a batch of products may follow one another along grid.x.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias
from .split_k import check_split_k, split_of_k
from .staging import PADDING, multiply, stage
from .tiles import Tiles
from .walks import row_by_row


@functools.cache
def register_tiled_block(epilogue: Any, tiles: Tiles) -> Any:
    """The device function with which a block makes one tile of c: all its threads call it, with the same arguments."""
    block_m, block_n, block_k, thread_m, thread_n = tiles
    threads_n = block_n // thread_n
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    stage_a, stage_b = stage(block_m, block_k, tiles.threads), stage(block_n, block_k, tiles.threads)
    multiply_tiles = multiply(block_k, thread_m, thread_n)

    @cuda.jit(device=True)
    def register_tiled_block(a, b, operands, c, part, first_row, first_column, k_begin, k_end):
        a_tile = cuda.shared.array((block_k, padded_m), float32)  # (k, row)
        b_tile = cuda.shared.array((block_k, padded_n), float32)  # (k, column)
        values = cuda.local.array((thread_m, thread_n), float32)
        my_row = (cuda.threadIdx.x // threads_n) * thread_m
        my_column = (cuda.threadIdx.x % threads_n) * thread_n
        for i in range(thread_m):
            for j in range(thread_n):
                values[i, j] = float32(0)

        for first_k in range(k_begin, k_end, block_k):
            stage_a(a, a_tile, first_row, first_k, k_end)
            stage_b(b.T, b_tile, first_column, first_k, k_end)
            cuda.syncthreads()
            multiply_tiles(a_tile, b_tile, my_row, my_column, values)
            cuda.syncthreads()  # the tiles are overwritten next

        for i in range(thread_m):
            for j in range(thread_n):
                row, column = first_row + my_row + i, first_column + my_column + j
                if row < a.shape[0] and column < b.shape[1]:
                    epilogue(c, operands, part, row, column, values[i, j])

    return register_tiled_block


@functools.cache
def register_tiled_gemm(epilogue: Any, tiles: Tiles, walk: Any = row_by_row) -> Any:
    """The kernel of one product; grid.x covers the tiles of c in the order of `walk`, grid.y the splits of K."""
    block_m, block_n, block_k = tiles[:3]
    make_block = register_tiled_block(epilogue, tiles)

    @cuda.jit
    def register_tiled_gemm_kernel(a, b, operands, c):
        tiles_m = (a.shape[0] + block_m - 1) // block_m
        tiles_n = (b.shape[1] + block_n - 1) // block_n
        tile_m, tile_n = walk(cuda.blockIdx.x, tiles_m, tiles_n)
        k_begin, k_end = split_of_k(a.shape[1], block_k)
        make_block(a, b, operands, c, cuda.blockIdx.y, tile_m * block_m, tile_n * block_n, k_begin, k_end)

    return register_tiled_gemm_kernel


def launch_register_tiled_gemm(
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: Tiles,
    bias: Any | None = None,
    split_k: int = 1,
    stream: Any = 0,
    operands: Any | None = None,
    walk: Any = row_by_row,
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `register_tiled_gemm`, K cut into split_k parts (`split_k.split_of_k`)."""
    tiles.check()
    check_split_k(split_k)
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if blocks:
        kernel = register_tiled_gemm(epilogue, tiles, walk)
        operands = operands_or_bias(operands, bias, b.dtype)
        kernel[(blocks, split_k), tiles.threads, stream](a, b, operands, c)
