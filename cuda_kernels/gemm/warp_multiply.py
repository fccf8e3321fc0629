"""How a warp multiplies its piece of two tiles in shared memory, and where its elements of c are.

The lanes of a warp stand in 4 rows of 8 (`tiles.py`). Per k and pass a lane reads thread_m neighbours from the tile of
a and thread_n from that of b; lanes of a row read the same elements of a and lanes of a column the same of b, which
shared memory broadcasts. Per multiplication a lane reads 1 / (passes_m thread_m) + 1 / (passes_n thread_n) elements.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import cuda, float32

from .tiles import LANES_M, LANES_N, WARP, WarpTiles
from .vector_multiply import outer_product, read_row


class WarpProduct(NamedTuple):
    """The steps of a block whose warps have a piece each."""

    shape: tuple[int, int]
    """Elements of c per thread: the shape of the local array `values`."""
    clear: Any
    """`clear(values)`: sets the sums to 0."""
    multiply: Any
    """`multiply(a_tile, b_tile, values)`: adds the product of two tiles (block_k, block_m) and (block_k, block_n)."""
    finish: Any
    """`finish(values, epilogue_arguments...)`: hands each element that lies within c to the epilogue."""


@functools.cache
def warp_product(epilogue: Any, tiles: WarpTiles) -> WarpProduct:
    """The steps for these tiles, as device functions that all threads of the block call."""
    _, block_n, block_k, warp_m, warp_n, thread_m, thread_n = tiles
    passes_m, passes_n = tiles.passes_m, tiles.passes_n
    pass_m, pass_n = LANES_M * thread_m, LANES_N * thread_n
    mine_m, mine_n = passes_m * thread_m, passes_n * thread_n
    warps_n = block_n // warp_n
    read_a, read_b, add_products = read_row(thread_m), read_row(thread_n), outer_product(mine_m, mine_n)

    @cuda.jit(device=True)
    def my_corner():
        """Row and column, within the block's tile, of this thread's first element."""
        warp, lane = cuda.threadIdx.x // WARP, cuda.threadIdx.x % WARP
        row = (warp // warps_n) * warp_m + (lane // LANES_N) * thread_m
        return row, (warp % warps_n) * warp_n + (lane % LANES_N) * thread_n

    @cuda.jit(device=True)
    def clear(values):
        for i in range(mine_m):
            for j in range(mine_n):
                values[i, j] = float32(0)

    @cuda.jit(device=True)
    def multiply(a_tile, b_tile, values):
        a_column, b_row = cuda.local.array(mine_m, float32), cuda.local.array(mine_n, float32)
        my_row, my_column = my_corner()
        for kk in range(block_k):
            for p in range(passes_m):
                read_a(a_tile, kk, my_row + p * pass_m, a_column, p * thread_m)
            for p in range(passes_n):
                read_b(b_tile, kk, my_column + p * pass_n, b_row, p * thread_n)
            add_products(a_column, b_row, values)

    @cuda.jit(device=True)
    def finish(values, operands, c, part, first_row, first_column, rows, columns):
        my_row, my_column = my_corner()
        for i in range(mine_m):
            row = first_row + my_row + (i // thread_m) * pass_m + i % thread_m
            for j in range(mine_n):
                column = first_column + my_column + (j // thread_n) * pass_n + j % thread_n
                if row < rows and column < columns:
                    epilogue(c, operands, part, row, column, values[i, j])

    return WarpProduct((mine_m, mine_n), clear, multiply, finish)
