"""Sizes of a tensor-core GEMM: the block's tile, the warp's part of it, and the stages of the pipeline."""

from __future__ import annotations

from typing import NamedTuple

from ..launch import check_multiple
from .formats import MmaFormat

WARP = 32


class MmaTiles(NamedTuple):
    """A block makes block_m x block_n elements, a warp warp_m x warp_n; block_k elements of K are staged at a time."""

    block_m: int
    block_n: int
    block_k: int
    warp_m: int
    warp_n: int
    stages: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return (self.block_m // self.warp_m) * (self.block_n // self.warp_n) * WARP

    def check(self, kind: MmaFormat) -> None:
        """Raises ValueError where the sizes do not fit the instruction or one another."""
        check_multiple("block_m", self.block_m, "warp_m", self.warp_m)
        check_multiple("block_n", self.block_n, "warp_n", self.warp_n)
        check_multiple("warp_m", self.warp_m, "the instruction's M", 16)
        check_multiple("warp_n", self.warp_n, "twice the instruction's N", 16)
        check_multiple("block_k", self.block_k, f"twice the instruction's K for {kind.name}", 2 * kind.k)
        for name, size in (("block_m", self.block_m), ("block_n", self.block_n), ("block_k", self.block_k)):
            if size & (size - 1):
                raise ValueError(f"{name}={size} must be a power of two: the swizzle exchanges bits of the address")
        if self.threads > 1024:
            raise ValueError(f"{self} has {self.threads} threads per block, at most 1024")
        if self.stages < 2:
            raise ValueError(f"stages={self.stages} must be at least 2: one is filled while another is read")
        for name, elements in (("block_m", self.block_m), ("block_n", self.block_n)):
            pieces = elements * self.block_k * kind.element_bytes // 16
            if pieces % self.threads and self.threads % pieces:
                raise ValueError(
                    f"{name}={elements} with block_k={self.block_k} makes {pieces} pieces of 16 bytes, which "
                    f"{self.threads} threads cannot share evenly"
                )
