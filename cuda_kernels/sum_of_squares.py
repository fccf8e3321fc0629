"""Sum of squares: total (1,) += sum x^2, over x (M, N) or (N,), in float32; several tensors may add into one total.

x is float32, bfloat16 or float16; total is the caller's float32 buffer.

block:                 one block walks all elements. Deterministic.
atomic:                many blocks, each adds its part to the total; order left to the hardware.
two_stage:             many blocks store their parts, a second kernel adds the parts in order. Deterministic: the number
                       of blocks follows from the size of x alone.
two_stage_vectorised:  the same with 128-bit loads where x is contiguous and begins at a multiple of 16 bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, float32

from .launch import FLOAT32, add_into, ceil_div, check_block, read
from .pointwise import VECTOR_BYTES, as_flat, as_rows, in_vectors, pointwise_launcher
from .primitives.block import block_sum
from .primitives.vector import load4, load8

MAX_BLOCKS = 1024
PER_THREAD = 8  # elements, or vectors, that a thread takes before another block is worth its part


@cuda.jit(device=True)
def store_part(out, total):
    """Stores a block's sum among the parts (blocks,)."""
    out[cuda.blockIdx.x] = total


@cuda.jit(device=True)
def add_part(out, total):
    """Adds the only block's sum to the total (1,)."""
    out[0] += total


@cuda.jit(device=True)
def add_part_atomically(out, total):
    """Adds a block's sum to the total (1,), in any order."""
    cuda.atomic.add(out, 0, total)


@functools.cache
def sum_of_squares_kernel(finish: Callable[..., None]) -> Any:
    """The kernel in which each thread strides over x (M, N), and each block ends with `finish(out, its sum)`."""

    @cuda.jit
    def strided_kernel(x, out):
        total = float32(0)
        for element in range(cuda.grid(1), x.shape[0] * x.shape[1], cuda.gridsize(1)):
            value = float32(x[element // x.shape[1], element % x.shape[1]])
            total += value * value
        total = block_sum(total)
        if cuda.threadIdx.x == 0:
            finish(out, total)

    return strided_kernel


@cuda.jit(device=True)
def squares_of_four(v):
    """The sum of the squares of a tuple of four."""
    return (v[0] * v[0] + v[1] * v[1]) + (v[2] * v[2] + v[3] * v[3])


@cuda.jit(device=True)
def squares_of_eight(v):
    """The sum of the squares of a tuple of eight."""
    return squares_of_four((v[0], v[1], v[2], v[3])) + squares_of_four((v[4], v[5], v[6], v[7]))


@functools.cache
def sum_of_squares_vector_kernel(width: int) -> Any:
    """The kernel in which each thread strides over x (N,) in pieces of 128 bits; each block stores its part."""
    load, squares = (load4, squares_of_four) if width == 4 else (load8, squares_of_eight)

    @cuda.jit
    def vector_kernel(x, parts):
        total = float32(0)
        whole = x.shape[0] // width
        for piece in range(cuda.grid(1), whole, cuda.gridsize(1)):
            total += squares(load(x, piece * width))
        rest = whole * width + cuda.grid(1)
        if rest < x.shape[0]:
            value = float32(x[rest])
            total += value * value
        total = block_sum(total)
        if cuda.threadIdx.x == 0:
            store_part(parts, total)

    return vector_kernel


@cuda.jit(device=True)
def sum_of_parts(parts):
    """The sum of parts (blocks,) in a fixed order, in every thread of a block of whole warps."""
    total = float32(0)
    for part in range(cuda.threadIdx.x, parts.shape[0], cuda.blockDim.x):
        total += parts[part]
    return block_sum(total)


@cuda.jit
def add_parts_kernel(parts, total):
    value = sum_of_parts(parts)
    if cuda.threadIdx.x == 0:
        total[0] += value


def _blocks(items: int, block: int) -> int:
    return min(ceil_div(items, block * PER_THREAD), MAX_BLOCKS)


def launch_parts(x: Any, block: int, stream: Any, vectorised: bool) -> Any:
    """The device array (blocks,) of each block's sum of squares of x; no parts where x has no elements."""
    check_block(block)
    width = VECTOR_BYTES // x.dtype.itemsize
    vectorised = vectorised and in_vectors(x)
    blocks = _blocks(ceil_div(x.size, width) if vectorised else x.size, block)
    parts = cuda.device_array(blocks, FLOAT32, stream=stream)
    if blocks and vectorised:
        sum_of_squares_vector_kernel(width)[blocks, block, stream](as_flat(x), parts)
    elif blocks:
        sum_of_squares_kernel(store_part)[blocks, block, stream](as_rows(x), parts)
    return parts


@pointwise_launcher(x=read, total=add_into(1))
def sum_of_squares_block(x: Any, total: Any, block: int = 1024, *, stream: Any = None) -> None:
    """Adds the sum of x^2, x (M, N) or (N,), to the float32 total (1,); one block."""
    check_block(block)
    if x.size:
        sum_of_squares_kernel(add_part)[1, block, stream](as_rows(x), total)


@pointwise_launcher(x=read, total=add_into(1))
def sum_of_squares_atomic(x: Any, total: Any, block: int = 256, *, stream: Any = None) -> None:
    """Adds the sum of x^2, x (M, N) or (N,), to the float32 total (1,); blocks add their parts in any order."""
    check_block(block)
    if x.size:
        sum_of_squares_kernel(add_part_atomically)[_blocks(x.size, block), block, stream](as_rows(x), total)


@pointwise_launcher(x=read, total=add_into(1))
def sum_of_squares_two_stage(x: Any, total: Any, block: int = 256, *, stream: Any = None) -> None:
    """Adds the sum of x^2, x (M, N) or (N,), to the float32 total (1,), bit for bit repeatable."""
    parts = launch_parts(x, block, stream, vectorised=False)
    if x.size:
        add_parts_kernel[1, block, stream](parts, total)


@pointwise_launcher(x=read, total=add_into(1))
def sum_of_squares_two_stage_vectorised(x: Any, total: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `sum_of_squares_two_stage`, by 128-bit loads where x is laid out for them."""
    parts = launch_parts(x, block, stream, vectorised=True)
    if x.size:
        add_parts_kernel[1, block, stream](parts, total)
