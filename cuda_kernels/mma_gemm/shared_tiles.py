"""Where a byte of an operand tile lies in shared memory: lines of the contiguous axis, swizzled in pieces of 16 bytes.

A line runs along the axis that is contiguous in global memory: K for an operand stored along K, M (or N) otherwise.
A fragment load touches the same piece of eight neighbouring lines; without a swizzle those are eight times the same
four banks. Piece p of line l is therefore stored in place of piece p ^ key(l), with a key that takes eight (or as many
as there are) different values over the lines that share the banks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from numba import cuda, int32

PIECE = 16  # bytes of one cp.async and of one row of an 8 x 8 matrix of ldmatrix
BANKS = 128  # bytes across all 32 banks


@dataclass(frozen=True)
class SharedTile:
    """A tile of `lines` lines of `line_bytes` bytes. `paired` spreads pairs of pieces: loads of 32-bit elements that
    walk along a line cover two neighbouring pieces in each of four lines."""

    lines: int
    line_bytes: int
    paired: bool = False

    @property
    def pieces(self) -> int:
        """Pieces of 16 bytes per line."""
        return self.line_bytes // PIECE

    @property
    def bytes(self) -> int:
        """Size of the tile."""
        return self.lines * self.line_bytes

    def offset(self, line: int, piece: int) -> int:
        """Byte offset of a piece; the same arithmetic on host and device."""
        return int(offset_factory(self).py_func(line, piece))


@functools.cache
def offset_factory(tile: SharedTile) -> Any:
    """The device function (line, piece) -> byte offset within the tile."""
    line_bytes = tile.line_bytes
    keys = min(tile.pieces, BANKS // PIECE)
    spread = 2 if tile.paired and keys > 2 else 1
    # Powers of two, so that the device shifts and masks in 32 bits instead of dividing in 64.
    skip = _log2(max(1, BANKS // line_bytes))
    mask, shift = keys // spread - 1, _log2(spread)

    @cuda.jit(device=True)
    def offset(line, piece):
        key = ((line >> skip) & mask) << shift
        return int32(line * line_bytes + (piece ^ key) * PIECE)

    return offset


def _log2(power: int) -> int:
    if power <= 0 or power & (power - 1):
        raise ValueError(f"{power} must be a power of two: the swizzle exchanges bits of the address")
    return power.bit_length() - 1
