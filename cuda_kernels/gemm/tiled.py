"""The third rung: tile x tile threads share one tile of a and one of b in shared memory, a thread makes one element.

Each element of a and b is read from global memory once per block instead of once per thread: 2 / tile elements per
multiplication. From shared memory it is still 2 elements per multiplication, and that is now the limit. The threads of
a warp stand side by side, so that they read one element of the tile of a (a broadcast) and 32 neighbours of that of b.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias


@functools.cache
def tiled_gemm(epilogue: Any, tile: int) -> Any:
    """The kernel with tile x tile threads and one element per thread; grid.x covers the tiles of c, row by row."""
    padded = tile + 1  # a store down a column then touches different banks

    @cuda.jit
    def tiled_gemm_kernel(a, b, operands, c):
        a_tile = cuda.shared.array((tile, padded), float32)  # (row, k)
        b_tile = cuda.shared.array((tile, padded), float32)  # (k, column)
        rows, columns, depth = a.shape[0], b.shape[1], a.shape[1]
        tiles_n = (columns + tile - 1) // tile
        first_row = (cuda.blockIdx.x // tiles_n) * tile
        first_column = (cuda.blockIdx.x % tiles_n) * tile
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        # The x axis of the block follows the contiguous axis of each operand.
        a_row, a_k = (y, x) if a.strides[1] <= a.strides[0] else (x, y)
        b_k, b_column = (y, x) if b.strides[1] <= b.strides[0] else (x, y)

        value = float32(0)
        for first_k in range(0, depth, tile):
            row, k = first_row + a_row, first_k + a_k
            a_tile[a_row, a_k] = float32(a[row, k]) if row < rows and k < depth else float32(0)
            k, column = first_k + b_k, first_column + b_column
            b_tile[b_k, b_column] = float32(b[k, column]) if k < depth and column < columns else float32(0)
            cuda.syncthreads()
            for k in range(tile):
                value += a_tile[y, k] * b_tile[k, x]
            cuda.syncthreads()  # the tiles are overwritten next

        row, column = first_row + y, first_column + x
        if row < rows and column < columns:
            epilogue(c, operands, 0, row, column, value)

    return tiled_gemm_kernel


def launch_tiled_gemm(
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tile: int,
    bias: Any | None = None,
    stream: Any = 0,
    operands: Any | None = None,
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `tiled_gemm`; tile <= 32, since a block holds at most 1,024 threads."""
    if not 1 <= tile <= 32:
        raise ValueError(f"tile={tile} must lie between 1 and 32: a block has tile * tile threads, at most 1024")
    blocks = ceil_div(a.shape[0], tile) * ceil_div(b.shape[1], tile)
    if blocks:
        operands = operands_or_bias(operands, bias, b.dtype)
        tiled_gemm(epilogue, tile)[blocks, (tile, tile), stream](a, b, operands, c)
