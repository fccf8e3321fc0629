"""Layouts as data: who holds what in a warp's or warpgroup's fragments, where a tile's elements lie, what that costs.

Every layout is frozen and checks itself when it is made. `LAYOUTS` has one for each intrinsic of `cuda_kernels.ptx`
that moves or multiplies fragments, by the name that probes use (`mma.m16n8k8.tf32`, `ldmatrix.x4.trans`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .access import Staging, fragment_load, loaded_by_matrices, matrix_load, staging_store
from .banks import Access, access
from .fragment import LANES, WARPGROUP_THREADS, Fragment, LayoutError, Place, from_arrays, from_bits, from_text
from .mma import MMA_LAYOUTS, TYPE_BITS, MmaLayout
from .moves import LANE_MOVES, MATRIX_MOVES, LaneMove, MatrixMove
from .shared_matrix import SharedMatrix, shared_matrix
from .staging import StagedOperand, chunk_fragment, lane_major_swizzle, staged_operand, wrongly_keyed
from .swizzle import Swizzle
from .tiles import LaneMajorTile, StridedTile, Tile
from .wgmma import REGISTER_A, WGMMA_LAYOUTS, WgmmaLayout, accumulator, wgmma_layout

Layout = MmaLayout | WgmmaLayout | MatrixMove | LaneMove

_ALL: tuple[Layout, ...] = (*MMA_LAYOUTS, *WGMMA_LAYOUTS, *MATRIX_MOVES, *LANE_MOVES)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({each.name: each for each in _ALL})

__all__ = [
    "LANES",
    "LANE_MOVES",
    "LAYOUTS",
    "MATRIX_MOVES",
    "MMA_LAYOUTS",
    "REGISTER_A",
    "TYPE_BITS",
    "WARPGROUP_THREADS",
    "WGMMA_LAYOUTS",
    "Access",
    "Fragment",
    "LaneMajorTile",
    "LaneMove",
    "Layout",
    "LayoutError",
    "MatrixMove",
    "MmaLayout",
    "Place",
    "SharedMatrix",
    "StagedOperand",
    "Staging",
    "StridedTile",
    "Swizzle",
    "Tile",
    "WgmmaLayout",
    "access",
    "accumulator",
    "chunk_fragment",
    "fragment_load",
    "from_arrays",
    "from_bits",
    "from_text",
    "lane_major_swizzle",
    "loaded_by_matrices",
    "matrix_load",
    "shared_matrix",
    "staged_operand",
    "staging_store",
    "wgmma_layout",
    "wrongly_keyed",
]
