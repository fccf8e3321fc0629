"""Tiles of the operands, from global memory into shared memory and from there into registers, one element at a time.

Both operands lie in shared memory the same way, (k, x) with x a row of a or a column of b: what the threads read next
to one another then lies next to one another. One function serves both, since b.T is an (N, K) view as a is (M, K).
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

PADDING = 4
"""Floats added to a row of a shared tile: a store along k meets other banks, and rows stay aligned to 16 bytes."""


@functools.cache
def stage(extent: int, depth: int, threads: int) -> Any:
    """`stage(operand, tile, first_x, first_k, k_end)`: fills tile (depth, extent + PADDING) from operand (X, K).

    tile[kk, x] = operand[first_x + x, first_k + kk], and 0 outside of the operand and from k_end on. All `threads` take
    part (no barrier inside); neighbouring threads read along the axis of the operand that is contiguous.
    """

    @cuda.jit(device=True)
    def stage_elements(operand, tile, first_x, first_k, k_end):
        along_k = operand.strides[1] <= operand.strides[0]
        for item in range(cuda.threadIdx.x, extent * depth, threads):
            x, kk = (item // depth, item % depth) if along_k else (item % extent, item // extent)
            inside = first_x + x < operand.shape[0] and first_k + kk < k_end
            tile[kk, x] = float32(operand[first_x + x, first_k + kk]) if inside else float32(0)

    return stage_elements


@functools.cache
def multiply(depth: int, thread_m: int, thread_n: int) -> Any:
    """`multiply(a_tile, b_tile, my_row, my_column, values)`: values (thread_m, thread_n) += the product of two tiles.

    Per k, thread_m + thread_n elements are read from shared memory for thread_m thread_n multiplications.
    """

    @cuda.jit(device=True)
    def multiply_tiles(a_tile, b_tile, my_row, my_column, values):
        a_column = cuda.local.array(thread_m, float32)
        b_row = cuda.local.array(thread_n, float32)
        for kk in range(depth):
            for i in range(thread_m):
                a_column[i] = a_tile[kk, my_row + i]
            for j in range(thread_n):
                b_row[j] = b_tile[kk, my_column + j]
            for i in range(thread_m):
                for j in range(thread_n):
                    values[i, j] += a_column[i] * b_row[j]

    return multiply_tiles
