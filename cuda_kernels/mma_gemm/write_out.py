"""Sums from registers to c: by way of shared memory, so that a warp writes neighbouring elements of a row.

A fragment holds two neighbouring columns of eight rows; written from there, a store would touch eight rows. The stages
of the pipeline are free by then and serve as the block's tile of sums.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32, int32, uint32

from ..primitives.unroll import unrolled
from .tiles import MmaTiles

PADDING = 8  # floats per row of sums: the eight rows of a fragment then start eight banks apart


def sums_bytes(tiles: MmaTiles) -> int:
    """Shared memory that `write_out` needs."""
    return tiles.block_m * (tiles.block_n + PADDING) * 4


@functools.cache
def write_out(epilogue: Any, tiles: MmaTiles) -> Any:
    """The device function write(sums, c, operands, part, first_row, first_column, rows, columns).

    sums: local array (warp_m / 16, warp_n / 8, 4); rows, columns: the size of c. All threads of the block call, past a
    barrier; shared memory from its start on is overwritten.
    """
    block_m, block_n, warp_m, warp_n = tiles.block_m, tiles.block_n, tiles.warp_m, tiles.warp_n
    fragments_n, warps_n = warp_n // 8, block_n // warp_n
    stride = block_n + PADDING
    columns_at_once = min(block_n, tiles.threads)
    rows_at_once = tiles.threads // columns_at_once
    column_bits = columns_at_once.bit_length() - 1

    @cuda.jit(device=True, forceinline=True)
    def keep(i, sums, warp_row, warp_column):
        tile = cuda.shared.array(0, float32)
        lane = int32(cuda.threadIdx.x) & 31
        at = int32((warp_row + i * 16 + (lane >> 2)) * stride + warp_column + (lane & 3) * 2)
        for j in range(fragments_n):
            upper, lower = uint32(at + j * 8), uint32(at + j * 8 + 8 * stride)
            tile[upper], tile[uint32(upper + 1)] = sums[i, j, 0], sums[i, j, 1]
            tile[lower], tile[uint32(lower + 1)] = sums[i, j, 2], sums[i, j, 3]

    keep_all = unrolled(keep, warp_m // 16)

    @cuda.jit(device=True, forceinline=True)
    def write(sums, c, operands, part, first_row, first_column, rows, columns):
        tile = cuda.shared.array(0, float32)
        thread = int32(cuda.threadIdx.x)
        warp = thread >> 5
        keep_all(sums, int32(warp // warps_n * warp_m), int32(warp % warps_n * warp_n))
        cuda.syncthreads()
        for j in range(thread & (columns_at_once - 1), block_n, columns_at_once):
            # Unsigned, since a signed index is tested for being negative at every access.
            column = uint32(first_column + j)
            if column < uint32(columns):
                last = min(int32(rows - first_row), int32(block_m))
                for i in range(thread >> column_bits, last, rows_at_once):
                    epilogue(c, operands, part, uint32(first_row + i), column, tile[uint32(i * stride + j)])

    return write
