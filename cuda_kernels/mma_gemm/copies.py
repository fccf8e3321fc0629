"""Global to shared memory by `cp.async`: each thread copies pieces of 16 bytes, past the edge filled with zeros."""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, int32, int64, uint32, uint64

from .. import ptx
from .shared_tiles import PIECE, SharedTile, offset_factory


@functools.cache
def tile_copy(tile: SharedTile, threads: int, element_bytes: int) -> Any:
    """The device function that starts the copy of one tile.

    copy(shared, source, line_stride, lines_left, elements_left): `shared` is the shared address of the tile, `source`
    the global address of its first element, line_stride in bytes; lines_left and elements_left (of a line) count what
    the matrix still has from there on, and may be negative. All `threads` threads call.
    """
    offset = offset_factory(tile)
    pieces, per_piece = tile.pieces, PIECE // element_bytes
    passes = max(1, tile.lines * pieces // threads)
    idle = threads - tile.lines * pieces
    # Powers of two: piece and line of a thread come from bits of its number.
    line_bits, size_bits = pieces.bit_length() - 1, element_bytes.bit_length() - 1

    @cuda.jit(device=True)
    def copy(shared, source, line_stride, lines_left, elements_left):
        thread = int32(cuda.threadIdx.x)
        if idle > 0 and thread >= threads - idle:
            return
        for step in range(passes):
            item = int32(thread + step * threads)
            line, piece = item >> line_bits, item & (pieces - 1)
            valid = min(max(int32(elements_left - piece * per_piece), int32(0)), int32(per_piece)) << size_bits
            if line >= lines_left:
                valid = int32(0)
            ptx.cp_async_cg_zfill(
                shared + uint64(offset(int32(line), int32(piece))),
                source + uint64(int64(line) * line_stride + piece * PIECE),
                uint32(valid),
            )

    return copy
