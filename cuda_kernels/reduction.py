"""Sums over a warp and over a block, as `primitives.warp` and `primitives.block` define them."""

from .primitives.block import block_sum
from .primitives.warp import FULL_MASK, WARP, warp_sum

__all__ = ["FULL_MASK", "WARP", "block_sum", "warp_sum"]
