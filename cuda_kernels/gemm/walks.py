"""Which tile of c a block makes: device functions `walk(block, tiles_m, tiles_n) -> (tile_m, tile_n)`.

Blocks start in the order of their number, so the walk says which tiles are made at the same time, and with that which
pieces of a and b are read from the level-2 cache instead of from memory.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda


@cuda.jit(device=True)
def row_by_row(block, tiles_m, tiles_n):
    """Left to right, then down: blocks at work together share a few rows of a and read all of b."""
    return block // tiles_n, block % tiles_n


@functools.cache
def in_groups(group_m: int) -> Any:
    """The walk down `group_m` tiles, then right: blocks at work together make a piece of c that is nearly square.

    A wave of W blocks then reads about 2 sqrt(W) panels of a and b instead of W / tiles_n + tiles_n.
    """

    @cuda.jit(device=True)
    def walk_in_groups(block, tiles_m, tiles_n):
        per_group = group_m * tiles_n
        first_m = (block // per_group) * group_m
        height = min(group_m, tiles_m - first_m)
        place = block % per_group
        return first_m + place % height, place // height

    return walk_in_groups
