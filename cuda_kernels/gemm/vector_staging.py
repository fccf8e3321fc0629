"""Tiles of the operands into shared memory 16 bytes at a time, in two halves: fetch into registers, then deposit.

The halves are apart so that other work can lie between them: a fetch is only waited for where its values are needed. A
chunk is `width` elements along the operand's contiguous axis: 4 of float32, 8 of a 16-bit format. Whether its 16 bytes
are read at once is decided inside the kernel: by the block for all chunks, from strides and the address of the operand;
by the thread for its chunk, since a chunk that reaches over the edge is read element by element.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import cuda, float32

from ..launch import ceil_div
from .vectors import BYTES, load_16_bytes, spread_1, spread_4, spread_8, store_16_bytes

SPREAD = {1: spread_1, 4: spread_4, 8: spread_8}


class Copier(NamedTuple):
    """How a block copies tiles of one operand."""

    held: int
    """Elements that a thread holds between the halves: the size of the local array `held`."""
    fetch: Any
    """`fetch(operand, held, first_x, first_k, k_end, along_k, aligned)`: global memory -> registers."""
    deposit: Any
    """`deposit(held, tile, along_k)`: registers -> tile (depth, extent + PADDING), as `staging.stage` fills it."""


def width_of(dtype: Any, extent: int, depth: int) -> int:
    """Elements per chunk for tiles of extent x depth: 16 bytes, or one element where that does not divide the tile."""
    width = BYTES // dtype.itemsize
    return width if width in SPREAD and extent % width == 0 and depth % width == 0 else 1


@functools.cache
def copier(extent: int, depth: int, threads: int, width: int) -> Copier:
    """The halves for an operand (X, K) whose tiles are extent x depth, copied by `threads` threads."""
    chunks = extent * depth // width
    rounds = ceil_div(chunks, threads)
    chunks_per_row, chunks_per_column = depth // width, extent // width
    spread = SPREAD[width]

    @cuda.jit(device=True)
    def place(chunk, along_k):
        """Where a chunk begins within the tile: (x, k). Neighbouring threads take neighbouring chunks."""
        if along_k:
            return chunk // chunks_per_row, (chunk % chunks_per_row) * width
        return (chunk % chunks_per_column) * width, chunk // chunks_per_column

    @cuda.jit(device=True)
    def fetch(operand, held, first_x, first_k, k_end, along_k, aligned):
        x_end = operand.shape[0]
        for turn in range(rounds):
            chunk = turn * threads + cuda.threadIdx.x
            if chunk < chunks:
                x, k = place(chunk, along_k)
                x, k = first_x + x, first_k + k
                last_x, last_k = (x, k + width - 1) if along_k else (x + width - 1, k)
                if aligned and last_x < x_end and last_k < k_end:
                    spread(load_16_bytes(operand, (x, k)), held, turn * width)
                else:
                    for i in range(width):
                        inside = x < x_end and k < k_end
                        held[turn * width + i] = float32(operand[x, k]) if inside else float32(0)
                        x, k = (x, k + 1) if along_k else (x + 1, k)

    @cuda.jit(device=True)
    def deposit(held, tile, along_k):
        for turn in range(rounds):
            chunk = turn * threads + cuda.threadIdx.x
            if chunk < chunks:
                x, k = place(chunk, along_k)
                if along_k or width == 1:
                    for i in range(width):
                        tile[k + i, x] = held[turn * width + i]
                else:
                    for i in range(0, width, 4):
                        j = turn * width + i
                        store_16_bytes(tile, (k, x + i), (held[j], held[j + 1], held[j + 2], held[j + 3]))

    return Copier(rounds * width, fetch, deposit)
