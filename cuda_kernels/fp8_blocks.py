"""The inner loop of a matrix product of block-scaled fp8 operands: two levels of sums.

a (M, K) has a scale per row and group of K, b (K, N) one per group of K and b_columns columns. Within a group all
scales are the same for an element of the product, hence

    c[row, column] = sum over groups g of (sum over k in g of a[row, k] b[k, column]) a_scales[row, g] b_scales[g, ...]

The inner sum is over plain fp8 numbers, whose products float32 holds exactly; it is scaled and added to the outer sum
in float32 once per group ("promoted"), as tensor cores need, which keep 13 bits of an fp8 sum.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from .gemm.staging import PADDING, multiply
from .gemm.tiles import Tiles


@cuda.jit(device=True)
def store(c, row, column, value):
    """c = a b."""
    c[row, column] = value


@cuda.jit(device=True)
def accumulate(c, row, column, value):
    """c += a b."""
    c[row, column] = float32(c[row, column]) + value


@functools.cache
def element(group: int, decode_a: Any, decode_b: Any) -> Any:
    """The device function with which one thread makes one element of the product over k_begin to k_end."""

    @cuda.jit(device=True)
    def scaled_element(a, a_scales, b, b_scales, b_columns, row, column, k_begin, k_end):
        total = float32(0)
        for g in range(k_begin // group, (k_end + group - 1) // group):
            inner = float32(0)
            for k in range(max(k_begin, g * group), min(k_end, (g + 1) * group)):
                inner += decode_a(a[row, k]) * decode_b(b[k, column])
            total += inner * a_scales[row, g] * b_scales[g, column // b_columns]
        return total

    return scaled_element


@functools.cache
def stage_decoded(extent: int, depth: int, threads: int, decode: Any) -> Any:
    """`stage(operand, tile, first_x, x_end, first_k, k_end)`: fills tile (depth, extent + PADDING) from operand (X, K).

    tile[kk, x] = operand[first_x + x, first_k + kk] as float32, and 0 from x_end and from k_end on. All `threads` take
    part (no barrier inside); neighbouring threads read along the axis of the operand that is contiguous.
    """

    @cuda.jit(device=True)
    def stage(operand, tile, first_x, x_end, first_k, k_end):
        along_k = operand.strides[1] <= operand.strides[0]
        for item in range(cuda.threadIdx.x, extent * depth, threads):
            x, kk = (item // depth, item % depth) if along_k else (item % extent, item // extent)
            inside = first_x + x < x_end and first_k + kk < k_end
            tile[kk, x] = decode(operand[first_x + x, first_k + kk]) if inside else float32(0)

    return stage


@functools.cache
def register_tiled(tiles: Tiles, group: int, decode_a: Any, decode_b: Any, finish: Any) -> Any:
    """The device function with which a block of threads makes one tile of c over k_begin to k_end.

    All threads of the block call it with the same arguments; rows from row_end on are left alone. `finish` is `store`
    or `accumulate`. A thread keeps its thread_m x thread_n elements twice, as inner and outer sums.
    """
    block_m, block_n, block_k, thread_m, thread_n = tiles
    threads_n = block_n // thread_n
    padded_m, padded_n = block_m + PADDING, block_n + PADDING
    stage_a = stage_decoded(block_m, block_k, tiles.threads, decode_a)
    stage_b = stage_decoded(block_n, block_k, tiles.threads, decode_b)
    multiply_tiles = multiply(block_k, thread_m, thread_n)

    @cuda.jit(device=True)
    def make_tile(a, a_scales, b, b_scales, b_columns, c, first_row, row_end, first_column, k_begin, k_end):
        a_tile = cuda.shared.array((block_k, padded_m), float32)  # (k, row)
        b_tile = cuda.shared.array((block_k, padded_n), float32)  # (k, column)
        inner = cuda.local.array((thread_m, thread_n), float32)
        outer = cuda.local.array((thread_m, thread_n), float32)
        my_row = first_row + (cuda.threadIdx.x // threads_n) * thread_m
        my_column = first_column + (cuda.threadIdx.x % threads_n) * thread_n
        columns = b.shape[1]
        for i in range(thread_m):
            for j in range(thread_n):
                outer[i, j] = float32(0)

        for g in range(k_begin // group, (k_end + group - 1) // group):
            group_end = min(k_end, (g + 1) * group)
            for i in range(thread_m):
                for j in range(thread_n):
                    inner[i, j] = float32(0)
            for first_k in range(max(k_begin, g * group), group_end, block_k):
                stage_a(a, a_tile, first_row, row_end, first_k, group_end)
                stage_b(b.T, b_tile, first_column, columns, first_k, group_end)
                cuda.syncthreads()
                multiply_tiles(a_tile, b_tile, my_row - first_row, my_column - first_column, inner)
                cuda.syncthreads()  # the tiles are overwritten next
            # Beyond the edges the last scale is read, which spares a branch; what it scales is not stored.
            for i in range(thread_m):
                a_scale = a_scales[min(my_row + i, row_end - 1), g]
                for j in range(thread_n):
                    b_scale = b_scales[g, min(my_column + j, columns - 1) // b_columns]
                    outer[i, j] += inner[i, j] * a_scale * b_scale

        for i in range(thread_m):
            for j in range(thread_n):
                if my_row + i < row_end and my_column + j < columns:
                    finish(c, my_row + i, my_column + j, outer[i, j])

    return make_tile
