"""Global to shared memory by `cp.async`: each thread copies pieces of 16 bytes, past the edge filled with zeros.

A tile is copied in parts, so that a kernel can start a few copies between the instructions of each step of K: the
address arithmetic then hides behind the multiplications.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, int32, int64, uint32, uint64

from .. import ptx
from .shared_tiles import PIECE, SharedTile, offset_factory


@functools.cache
def tile_copy(tile: SharedTile, threads: int, element_bytes: int, parts: int, exact: bool) -> Any:
    """The device function that starts the copies of one part of a tile.

    copy(part, shared, source, line_stride, lines_left, elements_left): `shared` is the shared address of the tile,
    `source` the global address of its first element, line_stride in bytes; lines_left and elements_left (of a line)
    count what the matrix still has from there on, and may be negative; with `exact` the tile lies within the matrix and
    they are not looked at. All `threads` threads call, for every part.
    """
    offset = offset_factory(tile)
    pieces, per_piece = tile.pieces, PIECE // element_bytes
    passes = max(1, tile.lines * pieces // threads)
    idle = threads - tile.lines * pieces
    # Powers of two: piece and line of a thread come from bits of its number.
    line_bits, size_bits = pieces.bit_length() - 1, element_bytes.bit_length() - 1
    along_line = max(1, pieces // threads)  # passes that one line takes
    line_step = max(1, threads // pieces)

    @cuda.jit(device=True, forceinline=True)
    def copy(part, shared, source, line_stride, lines_left, elements_left):
        thread = int32(cuda.threadIdx.x)
        if idle > 0 and thread >= threads - idle:
            return
        first_line, first_piece = thread >> line_bits, thread & (pieces - 1)
        begin, end = part * passes // parts, (part + 1) * passes // parts
        mine = source + uint64(int64(first_line) * line_stride + first_piece * PIECE)
        for step in range(begin, end):
            line = int32(first_line + step // along_line * line_step)
            piece = int32(first_piece + step % along_line * threads)
            target = shared + uint64(offset(line, piece))
            origin = mine + uint64(step // along_line * line_step * line_stride + step % along_line * threads * PIECE)
            if exact:
                ptx.cp_async_cg(target, origin)
            else:
                valid = min(max(int32(elements_left - piece * per_piece), int32(0)), int32(per_piece)) << size_bits
                ptx.cp_async_cg_zfill(target, origin, uint32(valid if line < lines_left else 0))

    return copy
