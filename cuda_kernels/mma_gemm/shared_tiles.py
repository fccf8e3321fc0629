"""Where a byte of an operand tile lies in shared memory: lines of the contiguous axis, swizzled in pieces of 16 bytes.

A line runs along the axis that is contiguous in global memory: K for an operand stored along K, M (or N) otherwise.
Two kinds of loads follow, and each has its own cure for bank conflicts:

swizzled:  a fragment load touches the same piece of eight neighbouring lines, without a swizzle eight times the same
           four banks. Piece p of line l is stored in place of piece p ^ key(l), with a key that takes eight (or as many
           as there are) different values over the lines that share the banks.
padded:    32-bit elements whose lines run along M or N are loaded one by one, from 8 places in each of 4 lines. A line
           is 32 bytes longer than its elements: the four lines then start 8 banks apart, and every load of a warp is
           one address and a constant.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from numba import cuda, int32

PIECE = 16  # bytes of one cp.async and of one row of an 8 x 8 matrix of ldmatrix
BANKS = 128  # bytes across all 32 banks
PADDING = 32  # bytes


@dataclass(frozen=True)
class SharedTile:
    """A tile of `lines` lines of `line_bytes` bytes, swizzled or padded."""

    lines: int
    line_bytes: int
    padded: bool = False

    @property
    def pieces(self) -> int:
        """Pieces of 16 bytes per line."""
        return self.line_bytes // PIECE

    @property
    def bytes(self) -> int:
        """Size of the tile."""
        return self.lines * (self.line_bytes + (PADDING if self.padded else 0))

    def offset(self, line: int, piece: int) -> int:
        """Byte offset of a piece; the same arithmetic on host and device."""
        return int(offset_factory(self).py_func(line, piece))


@functools.cache
def offset_factory(tile: SharedTile) -> Any:
    """The device function (line, piece) -> byte offset within the tile."""
    line_bytes = tile.line_bytes
    if tile.padded:
        stride = line_bytes + PADDING

        @cuda.jit(device=True)
        def padded_offset(line, piece):
            return int32(line * stride + piece * PIECE)

        return padded_offset
    # Powers of two, so that the device shifts and masks in 32 bits instead of dividing in 64.
    skip = _log2(max(1, BANKS // line_bytes))
    mask = min(tile.pieces, BANKS // PIECE) - 1

    @cuda.jit(device=True)
    def swizzled_offset(line, piece):
        return int32(line * line_bytes + (piece ^ ((line >> skip) & mask)) * PIECE)

    return swizzled_offset


def _log2(power: int) -> int:
    if power <= 0 or power & (power - 1):
        raise ValueError(f"{power} must be a power of two: the swizzle exchanges bits of the address")
    return power.bit_length() - 1
