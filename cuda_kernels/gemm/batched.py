"""Many products at once: c[i] (M, N) = a[i] (M, K) b[i] (K, N), any strides; a batch stride of 0 repeats an operand.

The block that makes a tile is that of `register_tiled.py`: the same traffic. The products follow one another along
grid.x, which has room for 2^31 - 1 blocks, so that a batch may have any size.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda

from ..launch import ceil_div
from .epilogues import operands_or_bias
from .register_tiled import register_tiled_block
from .tiles import Tiles
from .walks import row_by_row


@functools.cache
def batched_gemm(epilogue: Any, tiles: Tiles, walk: Any = row_by_row) -> Any:
    """The kernel; grid.x covers the tiles of c[0] in the order of `walk`, then those of c[1], and so on."""
    block_m, block_n = tiles.block_m, tiles.block_n
    make_block = register_tiled_block(epilogue, tiles)

    @cuda.jit
    def batched_gemm_kernel(a, b, operands, c):
        tiles_m = (a.shape[1] + block_m - 1) // block_m
        tiles_n = (b.shape[2] + block_n - 1) // block_n
        batch = cuda.blockIdx.x // (tiles_m * tiles_n)
        tile_m, tile_n = walk(cuda.blockIdx.x % (tiles_m * tiles_n), tiles_m, tiles_n)
        first_row, first_column = tile_m * block_m, tile_n * block_n
        make_block(a[batch], b[batch], operands, c[batch], batch, first_row, first_column, 0, a.shape[2])

    return batched_gemm_kernel


def launch_batched_gemm(
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: Tiles,
    bias: Any | None = None,
    stream: Any = 0,
    operands: Any | None = None,
    walk: Any = row_by_row,
) -> None:
    """c (B, M, N) = epilogue(a (B, M, K) b (B, K, N)), matrix by matrix; the epilogue's `part` is the matrix.

    A bias (N,) is the same for every matrix. Shapes are the caller's to check.
    """
    tiles.check()
    blocks = c.shape[0] * ceil_div(a.shape[1], tiles.block_m) * ceil_div(b.shape[2], tiles.block_n)
    if blocks:
        operands = operands_or_bias(operands, bias, b.dtype)
        batched_gemm(epilogue, tiles, walk)[blocks, tiles.threads, stream](a, b, operands, c)
