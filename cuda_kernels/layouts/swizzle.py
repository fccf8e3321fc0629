"""Swizzles: a shared tile's 16-byte chunks, permuted by XOR with a key taken from an element's row or column.

The permutation keeps every chunk whole, so that vector accesses stay vector accesses; it is its own inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .fragment import LayoutError

CHUNK_BYTES = 16


@dataclass(frozen=True)
class Swizzle:
    """chunk -> chunk ^ key with key = ((coordinate >> shift) mod 2 ** bits) << lift, of the element's row or column.

    axis: "row" or "column": where the key comes from. It has to vary among the lanes of one store, and to do no harm to
        a load: which axis does so depends on the one along which the tile is filled.
    also: another swizzle, whose key is XORed as well.
    """

    axis: str
    bits: int = 3
    shift: int = 0
    lift: int = 0
    also: Swizzle | None = None

    def __post_init__(self) -> None:
        if self.axis not in ("row", "column"):
            raise LayoutError(f"axis is {self.axis!r}; expected 'row' or 'column'")
        if min(self.bits, self.shift, self.lift) < 0:
            raise LayoutError(f"bits={self.bits}, shift={self.shift}, lift={self.lift}: none may be negative")

    def key(self, row: Any, column: Any) -> Any:
        """What the chunk of element (row, column) is XORed with; integers or arrays."""
        own = (((row if self.axis == "row" else column) >> self.shift) & ((1 << self.bits) - 1)) << self.lift
        return own if self.also is None else own ^ self.also.key(row, column)

    def place(self, chunk: Any, row: Any, column: Any) -> Any:
        """Where the chunk of element (row, column) lies."""
        return chunk ^ self.key(row, column)
