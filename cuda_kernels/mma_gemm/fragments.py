"""Shared memory to registers: the A and B fragments of a warp for one instruction's worth of K.

by_ldmatrix:  four 8 x 8 matrices of 16-bit elements at a time, transposed on the way where the tile's lines run along
              M or N. Elements of other sizes cannot be transposed so, their lines must run along K.
by_words:     ordinary loads: a register is one 32-bit word where lines run along K, else it is put together from its
              elements, which lie in neighbouring lines.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, int32, int64, uint8, uint16, uint32, uint64

from .. import ptx
from .formats import FRAGMENT_BYTES, MmaFormat
from .shared_tiles import PIECE, SharedTile, offset_factory

ELEMENTS = {1: uint8, 2: uint16, 4: uint32}


def ldmatrix_serves(kind: MmaFormat, along_k: bool) -> bool:
    """Whether `ldmatrix` can load an operand of this format whose lines run along K (or not)."""
    return along_k or kind.element_bytes == 2


def a_loader(kind: MmaFormat, tile: SharedTile, along_k: bool, ldmatrix: bool) -> Any:
    """load(shared, tile_offset, row, step) -> 4 registers of the 16 rows from `row` on; see `_ldmatrix_factory`."""
    if ldmatrix and ldmatrix_serves(kind, along_k):
        return _ldmatrix_factory(tile, along_k, first_register_along_k=False)
    return _words_factory(kind, tile, along_k, False)


def b_loader(kind: MmaFormat, tile: SharedTile, along_k: bool, ldmatrix: bool) -> Any:
    """load(shared, tile_offset, column, step) -> 4 registers: two of 8 columns from `column` on, two of the next 8."""
    if ldmatrix and ldmatrix_serves(kind, along_k):
        return _ldmatrix_factory(tile, along_k, first_register_along_k=True)
    return _words_factory(kind, tile, along_k, True)


@functools.cache
def _ldmatrix_factory(tile: SharedTile, along_k: bool, first_register_along_k: bool) -> Any:
    """load(shared, tile_offset, across, step): 16 rows (columns) from `across` on, bytes 32 step to 32 step + 31 of K.

    `shared` is the address of all shared memory, `tile_offset` the tile's place in it. Of the four matrices the second
    is the next along K where first_register_along_k (B), the next 8 rows otherwise (A). All 32 lanes call.
    """
    offset = offset_factory(tile)
    b_order = first_register_along_k

    @cuda.jit(device=True)
    def load_along_k(shared, tile_offset, across, step):
        lane = int32(cuda.threadIdx.x) & 31
        low, high = (lane >> 3) & 1, lane >> 4
        next_across, next_k = (high, low) if b_order else (low, high)
        at = offset(int32(across + (lane & 7) + 8 * next_across), int32(2 * step + next_k))
        return ptx.ldmatrix_x4(shared + uint64(tile_offset + at))

    @cuda.jit(device=True)
    def load_across_k(shared, tile_offset, across, step):
        lane = int32(cuda.threadIdx.x) & 31
        low, high = (lane >> 3) & 1, lane >> 4
        next_across, next_k = (high, low) if b_order else (low, high)
        at = offset(int32(16 * step + (lane & 7) + 8 * next_k), int32((across >> 3) + next_across))
        return ptx.ldmatrix_x4_trans(shared + uint64(tile_offset + at))

    return load_along_k if along_k else load_across_k


@functools.cache
def _words_factory(kind: MmaFormat, tile: SharedTile, along_k: bool, b_order: bool) -> Any:
    """As `_ldmatrix_factory`, by ordinary loads, for every format."""
    offset = offset_factory(tile)
    size = kind.element_bytes
    element = ELEMENTS[size]
    per_register = 4 // size
    piece_mask = PIECE // size - 1
    size_bits, piece_bits = size.bit_length() - 1, piece_mask.bit_length()
    k_per_step = FRAGMENT_BYTES // size
    padded_words = tile.bytes // tile.lines // 4

    @cuda.jit(device=True)
    def word(tile_offset, across, k):
        words = cuda.shared.array(0, uint32)
        at = int32(k * size)
        return words[int32(tile_offset + offset(int32(across), at >> 4) + (at & 15)) >> 2]

    @cuda.jit(device=True)
    def gathered(tile_offset, across, k):
        elements = cuda.shared.array(0, element)
        register = uint32(0)
        for e in range(per_register):
            at = int32(tile_offset + offset(int32(k + e), int32(across) >> piece_bits)) >> size_bits
            register |= uint32(elements[at + (across & piece_mask)]) << uint32(8 * size * e)
        return register

    @cuda.jit(device=True)
    def padded(tile_offset, across, k):
        # A sum of 64-bit terms, unsigned as an index: what is constant in it becomes part of the load instruction.
        words = cuda.shared.array(0, uint32)
        return words[uint64((tile_offset >> 2) + int64(k) * padded_words + across)]

    one = word if along_k else padded if tile.padded else gathered

    @cuda.jit(device=True)
    def load(shared, tile_offset, across, step):
        lane = int32(cuda.threadIdx.x) & 31
        row, row_beyond = across + (lane >> 2), across + (lane >> 2) + 8
        k = step * k_per_step + (lane & 3) * per_register
        k_along = k + k_per_step // 2
        first, along = one(tile_offset, row, k), one(tile_offset, row, k_along)
        beyond, both = one(tile_offset, row_beyond, k), one(tile_offset, row_beyond, k_along)
        return (first, along, beyond, both) if b_order else (first, beyond, along, both)

    return load
