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
    """The device function write(sums, warp_row, warp_column, c, operands, part, first_row, ...).

    sums: local array (warp_m / 16, warp_n / 8, 4); rows, columns: the size of c. All threads of the block call, and
    shared memory from its start on is overwritten.
    """
    block_m, block_n, threads = tiles.block_m, tiles.block_n, tiles.threads
    fragments_n = tiles.warp_n // 8
    stride, column_bits = block_n + PADDING, block_n.bit_length() - 1

    @cuda.jit(device=True, forceinline=True)
    def keep(i, sums, warp_row, warp_column):
        tile = cuda.shared.array(0, float32)
        lane = int32(cuda.threadIdx.x) & 31
        at = int32((warp_row + i * 16 + (lane >> 2)) * stride + warp_column + (lane & 3) * 2)
        for j in range(fragments_n):
            upper, lower = uint32(at + j * 8), uint32(at + j * 8 + 8 * stride)
            tile[upper], tile[upper + uint32(1)] = sums[i, j, 0], sums[i, j, 1]
            tile[lower], tile[lower + uint32(1)] = sums[i, j, 2], sums[i, j, 3]

    keep_all = unrolled(keep, tiles.warp_m // 16)

    @cuda.jit(device=True, forceinline=True)
    def write(sums, warp_row, warp_column, c, operands, part, first_row, first_column, rows, columns):
        tile = cuda.shared.array(0, float32)
        cuda.syncthreads()  # the stages are read no more
        keep_all(sums, warp_row, warp_column)
        cuda.syncthreads()
        for element in range(int32(cuda.threadIdx.x), block_m * block_n, threads):
            i, j = int32(element) >> column_bits, int32(element) & (block_n - 1)
            # Unsigned, since a signed index is tested for being negative at every access.
            row, column = uint32(first_row + i), uint32(first_column + j)
            if row < uint32(rows) and column < uint32(columns):
                epilogue(c, operands, part, row, column, tile[uint32(i * stride + j)])

    return write
