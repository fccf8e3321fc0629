"""The seventh rung: between the block and the thread a level for the warp, whose piece of c is nearly square.

In the sixth rung the 32 threads of a warp stand in two rows of 16, so that its piece is flat: per k it reads 16 rows
and 128 columns with 8 x 8 elements a thread. A warp with a piece of 64 x 64 reads 64 and 64 for twice the work: fewer
bytes from shared memory per multiplication, and more of them broadcasts. Global memory: 1 / block_m + 1 / block_n
elements per multiplication; shared memory: 1 / (passes_m thread_m) + 1 / (passes_n thread_n), see `warp_multiply.py`.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias
from .staging import PADDING
from .tiles import WarpTiles
from .vector_staging import copier, width_of
from .vectors import BYTES, is_aligned
from .walks import row_by_row
from .warp_multiply import warp_product


@functools.cache
def warp_tiled_gemm(epilogue: Any, tiles: WarpTiles, width_a: int, width_b: int, walk: Any = row_by_row) -> Any:
    """The kernel; grid.x covers the tiles of c in the order of `walk`; width_*: elements per load from memory."""
    block_m, block_n, block_k = tiles[:3]
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    held_a, fetch_a, deposit_a = copier(block_m, block_k, tiles.threads, width_a)
    held_b, fetch_b, deposit_b = copier(block_n, block_k, tiles.threads, width_b)
    shape, clear, multiply, finish = warp_product(epilogue, tiles)

    @cuda.jit
    def warp_tiled_gemm_kernel(a, b, operands, c):
        a_tile = cuda.shared.array((block_k, padded_m), float32, alignment=BYTES)  # (k, row)
        b_tile = cuda.shared.array((block_k, padded_n), float32, alignment=BYTES)  # (k, column)
        a_held, b_held = cuda.local.array(held_a, float32), cuda.local.array(held_b, float32)
        values = cuda.local.array(shape, float32)
        rows, columns, depth = a.shape[0], b.shape[1], a.shape[1]
        tile_m, tile_n = walk(cuda.blockIdx.x, (rows + block_m - 1) // block_m, (columns + block_n - 1) // block_n)
        first_row, first_column = tile_m * block_m, tile_n * block_n
        a_along_k, b_along_k = a.strides[1] <= a.strides[0], b.strides[0] < b.strides[1]
        a_aligned, b_aligned = is_aligned(a, a_along_k), is_aligned(b.T, b_along_k)

        clear(values)
        for first_k in range(0, depth, block_k):
            fetch_a(a, a_held, first_row, first_k, depth, a_along_k, a_aligned)
            fetch_b(b.T, b_held, first_column, first_k, depth, b_along_k, b_aligned)
            deposit_a(a_held, a_tile, a_along_k)
            deposit_b(b_held, b_tile, b_along_k)
            cuda.syncthreads()
            multiply(a_tile, b_tile, values)
            cuda.syncthreads()  # the tiles are overwritten next
        finish(values, operands, c, 0, first_row, first_column, rows, columns)

    return warp_tiled_gemm_kernel


def launch_warp_tiled_gemm(
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: WarpTiles,
    bias: Any | None = None,
    stream: Any = 0,
    operands: Any | None = None,
    walk: Any = row_by_row,
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `warp_tiled_gemm`."""
    tiles.check()
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if blocks:
        width_a = width_of(a.dtype, tiles.block_m, tiles.block_k)
        width_b = width_of(b.dtype, tiles.block_n, tiles.block_k)
        kernel = warp_tiled_gemm(epilogue, tiles, width_a, width_b, walk)
        kernel[blocks, tiles.threads, stream](a, b, operands_or_bias(operands, bias, b.dtype), c)
