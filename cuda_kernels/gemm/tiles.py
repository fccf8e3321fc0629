"""Sizes of the pieces that blocks, warps and threads of a matrix product work on."""

from __future__ import annotations

from typing import NamedTuple

from ..launch import check_multiple

WARP = 32
LANES_M, LANES_N = 4, 8
"""How the lanes of a warp stand over a piece of c: 4 rows of 8."""
MOST_THREADS = 1024


class Tiles(NamedTuple):
    """A block makes block_m x block_n elements of c from slices of block_k, a thread thread_m x thread_n of them."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return (self.block_m // self.thread_m) * (self.block_n // self.thread_n)

    def check(self) -> None:
        """Raises ValueError where the sizes are not positive, do not divide one another or need too many threads."""
        check_multiple("block_m", self.block_m, "thread_m", self.thread_m)
        check_multiple("block_n", self.block_n, "thread_n", self.thread_n)
        check_multiple("block_k", self.block_k, "one element", 1)
        check_threads(self.threads)


class WarpTiles(NamedTuple):
    """As `Tiles`, with a level between: a warp makes warp_m x warp_n elements of its block's.

    The lanes of a warp stand in 4 rows of 8 and each makes thread_m x thread_n neighbouring elements, so that one pass
    covers 4 thread_m x 8 thread_n; a warp makes as many passes as its piece needs.
    """

    block_m: int
    block_n: int
    block_k: int
    warp_m: int
    warp_n: int
    thread_m: int
    thread_n: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return (self.block_m // self.warp_m) * (self.block_n // self.warp_n) * WARP

    @property
    def passes_m(self) -> int:
        """Passes of a warp along the rows of its piece."""
        return self.warp_m // (LANES_M * self.thread_m)

    @property
    def passes_n(self) -> int:
        """Passes of a warp along the columns of its piece."""
        return self.warp_n // (LANES_N * self.thread_n)

    def check(self) -> None:
        """Raises ValueError where the sizes are not positive, do not divide one another or need too many threads."""
        check_multiple("block_m", self.block_m, "warp_m", self.warp_m)
        check_multiple("block_n", self.block_n, "warp_n", self.warp_n)
        check_multiple("warp_m", self.warp_m, f"{LANES_M} thread_m", LANES_M * self.thread_m)
        check_multiple("warp_n", self.warp_n, f"{LANES_N} thread_n", LANES_N * self.thread_n)
        check_multiple("block_k", self.block_k, "one element", 1)
        check_threads(self.threads)


def check_threads(threads: int) -> None:
    """Raises ValueError where a block would have more threads than a GPU gives one."""
    if threads > MOST_THREADS:
        raise ValueError(f"these tiles need blocks of {threads} threads, more than {MOST_THREADS}")
