"""Block-scaled quantisation of x (M, N) to fp8: the elements of a block share one float32 scale.

    scale = max(amax / largest, 2^-126),    q = x / scale rounded to nearest even,    largest = 448 (e4m3), 57344 (e5m2)

A block is block_rows x block_columns elements, fewer at the lower and right edge; scales is (ceil(M / block_rows),
ceil(N / block_columns)). Activations take 1 x 128, weights 128 x 128, operands contracted along their rows 128 x 1.
power_of_two rounds each scale up to a power of two. A NaN makes its block's scale NaN, an infinity infinite.

x is float32, bfloat16 or float16; q float8_e4m3fn, float8_e5m2, or bytes whose format is named (`fp8_formats.py`).

naive:       one thread per block of any shape, its elements read twice.
tiles:       one block of threads per block of any shape; coalesced where blocks are wide.
columns:     column groups (block_columns = 1) by 32 columns x threads_y: rows of 32 neighbours are read at once.
dequantize:  x = q scale, one thread per element.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32, uint32

from .fp8_formats import FP8, Fp8Format, as_bytes, format_of
from .launch import FLOAT32, ceil_div, check_block, check_shape, launcher, read, write
from .primitives.block import block_max
from .primitives.convert import bits_to_float32, float32_to_bits

SMALLEST_SCALE = 2.0**-126
COLUMNS = 32  # columns per block of the `columns` kernel: one warp reads 32 neighbouring elements of a row
NAIVE_BLOCK = 128


@cuda.jit(device=True)
def larger_magnitude(amax, value):
    """The larger of amax and |value|; NaN wins."""
    magnitude = abs(value)
    return magnitude if magnitude > amax or magnitude != magnitude else amax


@functools.cache
def scale_of(format: Fp8Format, power_of_two: bool) -> Any:
    """The device function amax -> scale (float32)."""
    largest, smallest = format.largest, SMALLEST_SCALE

    @cuda.jit(device=True)
    def scale(amax):
        value = amax / float32(largest)
        if value < float32(smallest):
            value = float32(smallest)
        if power_of_two:
            bits = float32_to_bits(value)
            if bits < uint32(0x7F800000):  # neither NaN nor an infinity
                # Any fraction bit carries into the exponent; none leaves it.
                value = bits_to_float32((bits + uint32(0x007FFFFF)) & uint32(0x7F800000))
        return value

    return scale


@functools.cache
def fp8_quantize_naive_factory(format: Fp8Format, power_of_two: bool) -> Any:
    """One thread per block; grid.x covers the blocks, neighbouring threads on neighbouring columns."""
    scale_for, encode = scale_of(format, power_of_two), format.encode

    @cuda.jit
    def fp8_quantize_naive_kernel(x, q, scales, block_rows, block_columns):
        block = cuda.grid(1)
        if block >= scales.shape[0] * scales.shape[1]:
            return
        block_m, block_n = block // scales.shape[1], block % scales.shape[1]
        rows = range(block_m * block_rows, min((block_m + 1) * block_rows, x.shape[0]))
        columns = range(block_n * block_columns, min((block_n + 1) * block_columns, x.shape[1]))
        amax = float32(0)
        for row in rows:
            for column in columns:
                amax = larger_magnitude(amax, float32(x[row, column]))
        scale = scale_for(amax)
        scales[block_m, block_n] = scale
        for row in rows:
            for column in columns:
                q[row, column] = encode(float32(x[row, column]) / scale)

    return fp8_quantize_naive_kernel


@functools.cache
def fp8_quantize_tiles_factory(format: Fp8Format, power_of_two: bool) -> Any:
    """One block of threads per block of elements; grid.x covers the blocks, row by row."""
    scale_for, encode = scale_of(format, power_of_two), format.encode

    @cuda.jit
    def fp8_quantize_tiles_kernel(x, q, scales, block_rows, block_columns):
        block_m, block_n = cuda.blockIdx.x // scales.shape[1], cuda.blockIdx.x % scales.shape[1]
        first_row, first_column = block_m * block_rows, block_n * block_columns
        rows = min(block_rows, x.shape[0] - first_row)
        columns = min(block_columns, x.shape[1] - first_column)
        amax = float32(0)
        for item in range(cuda.threadIdx.x, rows * columns, cuda.blockDim.x):
            row, column = first_row + item // columns, first_column + item % columns
            amax = larger_magnitude(amax, float32(x[row, column]))
        scale = scale_for(block_max(amax))
        if cuda.threadIdx.x == 0:
            scales[block_m, block_n] = scale
        for item in range(cuda.threadIdx.x, rows * columns, cuda.blockDim.x):
            row, column = first_row + item // columns, first_column + item % columns
            q[row, column] = encode(float32(x[row, column]) / scale)

    return fp8_quantize_tiles_kernel


@functools.cache
def fp8_quantize_columns_factory(format: Fp8Format, power_of_two: bool, threads_y: int) -> Any:
    """32 columns x threads_y threads per 32 column groups; grid.x covers the pieces of scales, row by row."""
    scale_for, encode = scale_of(format, power_of_two), format.encode

    @cuda.jit
    def fp8_quantize_columns_kernel(x, q, scales, group):
        largest = cuda.shared.array((threads_y, COLUMNS), float32)
        lane, y = cuda.threadIdx.x, cuda.threadIdx.y
        pieces = (x.shape[1] + COLUMNS - 1) // COLUMNS
        block_m, column = cuda.blockIdx.x // pieces, (cuda.blockIdx.x % pieces) * COLUMNS + lane
        row_end = min((block_m + 1) * group, x.shape[0])
        amax = float32(0)
        if column < x.shape[1]:
            for row in range(block_m * group + y, row_end, threads_y):
                amax = larger_magnitude(amax, float32(x[row, column]))
        largest[y, lane] = amax
        cuda.syncthreads()
        if column >= x.shape[1]:
            return
        for other in range(threads_y):
            amax = larger_magnitude(amax, largest[other, lane])
        scale = scale_for(amax)
        if y == 0:
            scales[block_m, column] = scale
        for row in range(block_m * group + y, row_end, threads_y):
            q[row, column] = encode(float32(x[row, column]) / scale)

    return fp8_quantize_columns_kernel


@functools.cache
def fp8_dequantize_factory(format: Fp8Format) -> Any:
    """One thread per element; grid.x covers the elements, row by row."""
    decode = format.decode

    @cuda.jit
    def fp8_dequantize_kernel(q, scales, x, block_rows, block_columns):
        element = cuda.grid(1)
        if element < x.shape[0] * x.shape[1]:
            row, column = element // x.shape[1], element % x.shape[1]
            x[row, column] = decode(q[row, column]) * scales[row // block_rows, column // block_columns]

    return fp8_dequantize_kernel


_quantize = launcher(
    x=read("M", "N"), q=write("M", "N", dtypes=FP8), scales=write("blocks_m", "blocks_n", dtypes=FLOAT32)
)


def check_scales(name: str, scales: Any, shape: tuple[int, int], block_rows: int, block_columns: int) -> None:
    """Raises ValueError unless `scales` has one element for each block of an array of this shape."""
    for size_name, size in (("rows", block_rows), ("columns", block_columns)):
        if size < 1:
            raise ValueError(f"{name}: a block has {size} {size_name}, expected at least 1")
    check_shape(name, scales, (ceil_div(shape[0], block_rows), ceil_div(shape[1], block_columns)))


@_quantize
def fp8_quantize_naive(
    x: Any,
    q: Any,
    scales: Any,
    block_rows: int = 1,
    block_columns: int = 128,
    power_of_two: bool = False,
    format: str | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes q (M, N) and scales (one per block) from x (M, N); one thread per block."""
    check_scales("scales", scales, x.shape, block_rows, block_columns)
    if 0 not in scales.shape:
        kernel = fp8_quantize_naive_factory(format_of("q", q, format), power_of_two)
        blocks = ceil_div(scales.shape[0] * scales.shape[1], NAIVE_BLOCK)
        kernel[blocks, NAIVE_BLOCK, stream](x, as_bytes(q), scales, block_rows, block_columns)


@_quantize
def fp8_quantize_tiles(
    x: Any,
    q: Any,
    scales: Any,
    block_rows: int = 1,
    block_columns: int = 128,
    power_of_two: bool = False,
    format: str | None = None,
    threads: int = 128,
    *,
    stream: Any = None,
) -> None:
    """Writes q (M, N) and scales (one per block) from x (M, N); `threads` threads per block."""
    check_block(threads)
    check_scales("scales", scales, x.shape, block_rows, block_columns)
    if 0 not in scales.shape:
        kernel = fp8_quantize_tiles_factory(format_of("q", q, format), power_of_two)
        blocks = scales.shape[0] * scales.shape[1]
        kernel[blocks, threads, stream](x, as_bytes(q), scales, block_rows, block_columns)


@_quantize
def fp8_quantize_columns(
    x: Any,
    q: Any,
    scales: Any,
    group: int = 128,
    power_of_two: bool = False,
    format: str | None = None,
    threads_y: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes q (M, N) and scales (ceil(M / group), N) from x (M, N): blocks of group x 1 elements."""
    check_threads_y(threads_y)
    check_scales("scales", scales, x.shape, group, 1)
    if 0 not in scales.shape:
        kernel = fp8_quantize_columns_factory(format_of("q", q, format), power_of_two, threads_y)
        blocks = scales.shape[0] * ceil_div(x.shape[1], COLUMNS)
        kernel[blocks, (COLUMNS, threads_y), stream](x, as_bytes(q), scales, group)


def check_threads_y(threads_y: int) -> None:
    """Raises ValueError unless a block of 32 x threads_y threads is possible."""
    if not 1 <= threads_y <= 32:
        raise ValueError(f"threads_y={threads_y} must lie between 1 and 32: a block has 32 * threads_y threads")


@launcher(q=read("M", "N", dtypes=FP8), scales=read("blocks_m", "blocks_n", dtypes=FLOAT32), x=write("M", "N"))
def fp8_dequantize(
    q: Any,
    scales: Any,
    x: Any,
    block_rows: int = 1,
    block_columns: int = 128,
    format: str | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes x (M, N) = q (M, N) times the scale of each element's block."""
    check_scales("scales", scales, q.shape, block_rows, block_columns)
    if 0 not in q.shape:
        kernel = fp8_dequantize_factory(format_of("q", q, format))
        blocks = ceil_div(q.shape[0] * q.shape[1], NAIVE_BLOCK)
        kernel[blocks, NAIVE_BLOCK, stream](as_bytes(q), scales, x, block_rows, block_columns)
