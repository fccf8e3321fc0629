"""Bias: y = x + b, with x and y (T, N), b (N,). Backward, dx is dy itself, and db (N,) += sum_t dy (T, N).

x, b, y and dy are float32, bfloat16 or float16; db is the caller's float32 buffer; arithmetic is float32. y may be x.

forward:              one thread per element, any strides.
forward_vectorised:   128 bits per thread where x, b and y are contiguous, of one dtype, and N is a multiple of 4 or 8;
                      other arrays go to `forward`, which gives the same bits.
backward_naive:       one thread per column walks all rows.
backward:             32 columns per block, rows shared among its warps; rows are read coalesced. Deterministic.
backward_atomic:      the rows are cut in parts besides, which add theirs to db by atomics; order left to the hardware.
backward_two_stage:   each part goes to a workspace, and a second kernel adds the parts in order. Deterministic.

With few columns and many rows only the last two fill a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, float32

from .column_parts import add_atomically, add_parts_kernel, part_and_column, store_part
from .launch import FLOAT32, add_into, ceil_div, check_positive, launcher, read, write
from .linear import linear_db, linear_db_naive
from .pointwise import VECTOR_BYTES, as_flat, in_vectors
from .primitives.vector import load4, load8, store4, store8

# --------------------------------------------------------------------------------------------------------- forward


@cuda.jit
def bias_kernel(x, b, y):
    element = cuda.grid(1)
    if element < y.shape[0] * y.shape[1]:
        row, column = element // y.shape[1], element % y.shape[1]
        y[row, column] = float32(x[row, column]) + float32(b[column])


@cuda.jit
def bias_four_kernel(x, b, y):
    first = 4 * cuda.grid(1)
    if first < y.shape[0]:
        v, w = load4(x, first), load4(b, first % b.shape[0])
        store4(y, first, (v[0] + w[0], v[1] + w[1], v[2] + w[2], v[3] + w[3]))


@cuda.jit
def bias_eight_kernel(x, b, y):
    first = 8 * cuda.grid(1)
    if first < y.shape[0]:
        v, w = load8(x, first), load8(b, first % b.shape[0])
        low = (v[0] + w[0], v[1] + w[1], v[2] + w[2], v[3] + w[3])
        high = (v[4] + w[4], v[5] + w[5], v[6] + w[6], v[7] + w[7])
        store8(y, first, low + high)


@launcher(x=read("T", "N"), b=read("N"), y=write("T", "N"), in_place=("x", "y"))
def bias_forward(x: Any, b: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (T, N) = x (T, N) + b (N,), one thread per element."""
    if y.size:
        bias_kernel[ceil_div(y.size, block), block, stream](x, b, y)


@launcher(x=read("T", "N"), b=read("N"), y=write("T", "N"), in_place=("x", "y"))
def bias_forward_vectorised(x: Any, b: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `bias_forward`, 128 bits per thread where the arrays are laid out for it and N is a multiple of 4 or 8."""
    if not y.size:
        return
    width = VECTOR_BYTES // y.dtype.itemsize
    if b.shape[0] % width or not x.dtype == b.dtype == y.dtype or not in_vectors(x, b, y):
        bias_kernel[ceil_div(y.size, block), block, stream](x, b, y)
        return
    kernel = bias_four_kernel if width == 4 else bias_eight_kernel
    kernel[ceil_div(y.size // width, block), block, stream](as_flat(x), b, as_flat(y))


# -------------------------------------------------------------------------------------------------------- backward


@functools.cache
def bias_parts_kernel(finish: Callable[..., None]) -> Any:
    """The kernel that sums rows_per_part rows per block, one thread per column; grid.x covers parts x columns."""

    @cuda.jit
    def parts_kernel(dy, rows_per_part, out):
        part, column = part_and_column(dy.shape[1])
        if column >= dy.shape[1]:
            return
        total = float32(0)
        for row in range(part * rows_per_part, min((part + 1) * rows_per_part, dy.shape[0])):
            total += float32(dy[row, column])
        finish(out, part, column, total)

    return parts_kernel


def _parts(dy: Any, rows_per_part: int) -> int:
    check_positive("rows_per_part", rows_per_part)
    return ceil_div(dy.shape[0], rows_per_part)


bias_backward_naive = linear_db_naive
bias_backward = linear_db


@launcher(dy=read("T", "N"), db=add_into("N"))
def bias_backward_atomic(dy: Any, db: Any, rows_per_part: int = 256, block: int = 128, *, stream: Any = None) -> None:
    """Adds the column sums of dy (T, N) to the float32 buffer db (N,); parts of the rows are added in any order."""
    parts = _parts(dy, rows_per_part)
    if dy.size:
        kernel = bias_parts_kernel(add_atomically)
        kernel[parts * ceil_div(db.shape[0], block), block, stream](dy, rows_per_part, db)


@launcher(dy=read("T", "N"), db=add_into("N"))
def bias_backward_two_stage(
    dy: Any, db: Any, rows_per_part: int = 256, block: int = 128, *, stream: Any = None
) -> None:
    """Adds the column sums of dy (T, N) to the float32 buffer db (N,), bit for bit repeatable.

    The scratch is N floats for every rows_per_part rows.
    """
    parts = _parts(dy, rows_per_part)
    if not dy.size:
        return
    workspace = cuda.device_array((parts, db.shape[0]), FLOAT32, stream=stream)
    blocks = ceil_div(db.shape[0], block)
    bias_parts_kernel(store_part)[parts * blocks, block, stream](dy, rows_per_part, workspace)
    add_parts_kernel[blocks, block, stream](workspace, db)
