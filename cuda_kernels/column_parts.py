"""Sums over the rows of a matrix, cut in parts: what the parameter gradients of bias and the norms share.

A block sums some columns over the rows of one part, one thread per column. Its sum goes to the result by an atomic
(`add_atomically`; order left to the hardware), or to a workspace (parts, N) (`store_part`), whose rows a second kernel
adds in order (`add_parts_kernel`; bit for bit repeatable).
"""

from __future__ import annotations

from numba import cuda, float32


@cuda.jit(device=True)
def part_and_column(columns):
    """The part and the column of the calling thread in a grid of parts x blocks of columns along x.

    columns: how many there are; the column may lie past the last one.
    """
    column_blocks = (columns + cuda.blockDim.x - 1) // cuda.blockDim.x
    part, column_block = cuda.blockIdx.x // column_blocks, cuda.blockIdx.x % column_blocks
    return part, column_block * cuda.blockDim.x + cuda.threadIdx.x


@cuda.jit(device=True)
def add_atomically(sums, part, column, value):
    """Adds one part of a column's sum to sums (N,)."""
    cuda.atomic.add(sums, column, value)


@cuda.jit(device=True)
def store_part(parts, part, column, value):
    """Stores one part of a column's sum in a workspace (parts, N)."""
    parts[part, column] = value


@cuda.jit(device=True)
def sum_of_parts(parts, column):
    """The sum of one column of a workspace (parts, N), in the order of the parts."""
    total = float32(0)
    for part in range(parts.shape[0]):
        total += parts[part, column]
    return total


@cuda.jit
def add_parts_kernel(parts, sums):
    """sums (N,) += the columns' sums of parts (parts, N); one thread per column."""
    column = cuda.grid(1)
    if column < sums.shape[0]:
        sums[column] += sum_of_parts(parts, column)
