"""The fourth rung: each thread makes a column of thread_m elements of c, which it keeps in registers.

Global memory: 1 / block_m + 1 / block_n elements per multiplication, as in every tiled kernel. Shared memory: 1 + 1 /
thread_m, where the plain tiled kernel has 2: an element of b is read once and serves thread_m multiplications, an
element of a still serves one. A warp stands along a row, so that the elements of a are broadcasts.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias
from .staging import PADDING, stage
from .tiles import Tiles
from .walks import row_by_row


@functools.cache
def register_tiled_1d_gemm(epilogue: Any, tiles: Tiles, walk: Any = row_by_row) -> Any:
    """The kernel with thread_m x 1 elements per thread; grid.x covers the tiles of c in the order of `walk`."""
    block_m, block_n, block_k, thread_m, _ = tiles
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    stage_a, stage_b = stage(block_m, block_k, tiles.threads), stage(block_n, block_k, tiles.threads)

    @cuda.jit
    def register_tiled_1d_gemm_kernel(a, b, operands, c):
        a_tile = cuda.shared.array((block_k, padded_m), float32)  # (k, row)
        b_tile = cuda.shared.array((block_k, padded_n), float32)  # (k, column)
        values = cuda.local.array(thread_m, float32)
        tiles_m = (a.shape[0] + block_m - 1) // block_m
        tiles_n = (b.shape[1] + block_n - 1) // block_n
        tile_m, tile_n = walk(cuda.blockIdx.x, tiles_m, tiles_n)
        first_row, first_column = tile_m * block_m, tile_n * block_n
        my_row, my_column = (cuda.threadIdx.x // block_n) * thread_m, cuda.threadIdx.x % block_n
        for i in range(thread_m):
            values[i] = float32(0)

        for first_k in range(0, a.shape[1], block_k):
            stage_a(a, a_tile, first_row, first_k, a.shape[1])
            stage_b(b.T, b_tile, first_column, first_k, a.shape[1])
            cuda.syncthreads()
            for kk in range(block_k):
                b_value = b_tile[kk, my_column]
                for i in range(thread_m):
                    values[i] += a_tile[kk, my_row + i] * b_value
            cuda.syncthreads()  # the tiles are overwritten next

        column = first_column + my_column
        for i in range(thread_m):
            row = first_row + my_row + i
            if row < a.shape[0] and column < b.shape[1]:
                epilogue(c, operands, 0, row, column, values[i])

    return register_tiled_1d_gemm_kernel


def launch_register_tiled_1d_gemm(
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
    """c = epilogue(a (M, K) b (K, N)) by `register_tiled_1d_gemm`; `tiles` has thread_n = 1."""
    tiles.check()
    if tiles.thread_n != 1:
        raise ValueError(f"thread_n={tiles.thread_n}, expected 1: this kernel gives each thread one column")
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if blocks:
        operands = operands_or_bias(operands, bias, b.dtype)
        register_tiled_1d_gemm(epilogue, tiles, walk)[blocks, tiles.threads, stream](a, b, operands, c)
