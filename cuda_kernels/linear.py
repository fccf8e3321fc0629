"""Linear layer: y = x w + b, with x (T, K), w (K, N), b (N,) or None, y (T, N).

Backward, with dy (T, N):

    dx (T, K) = dy w^T         contracts over N
    dw (K, N) += x^T dy        contracts over T, into the caller's float32 buffer
    db (N,)   += sum_t dy      into the caller's float32 buffer

x, w, b, y, dy and dx are float32, bfloat16 or float16; every sum is float32. The transposes are views of x and w.

naive:                 one thread per element of the result.
tiled:                 operand tiles in shared memory.
gelu:                  y = gelu(h) and h = x w + b from one kernel of warp tiles: h is not read again to make y.
register_tiled:        several elements per thread; for dw each block walks all T: few blocks work where K N is small.
dw split_k_atomic:     T is split over blocks that add their parts by atomics; the order is left to the hardware.
dw split_k_workspace:  each split writes its part to a workspace, a second kernel adds the parts in order: repeatable.
db_naive:              one thread per column.
db:                    32 columns by block_rows rows of threads, joined in shared memory; rows are read coalesced.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import cuda, float32

from . import gemm
from .gelu import gelu_tanh
from .launch import FLOAT32, add_into, ceil_div, launcher, read, transposed, write

COLUMNS = 32  # columns of dy per block: one warp reads 32 neighbouring elements of a row


class BiasAndInput(NamedTuple):
    """What the epilogue of `linear_gelu` adds, and where it stores what GELU is taken of; empty arrays mean none."""

    bias: Any  # (N,)
    h: Any  # (T, N)


@cuda.jit(device=True)
def store_gelu_and_input(y, operands, part, row, column, value):
    """h = x w + b, y = gelu(h)."""
    if operands.bias.shape[0] > 0:
        value += float32(operands.bias[column])
    if operands.h.shape[0] > 0:
        operands.h[row, column] = value
    y[row, column] = gelu_tanh(value)


@cuda.jit
def linear_db_naive_kernel(dy, db):
    column = cuda.grid(1)
    if column >= dy.shape[1]:
        return
    total = float32(0)
    for row in range(dy.shape[0]):
        total += float32(dy[row, column])
    db[column] += total


@functools.cache
def linear_db_factory(block_rows: int) -> Any:
    """The column reduction with a block of 32 x block_rows threads for every 32 columns."""

    @cuda.jit
    def linear_db_kernel(dy, db):
        totals = cuda.shared.array((block_rows, COLUMNS), float32)
        lane, first_row = cuda.threadIdx.x, cuda.threadIdx.y
        column = cuda.blockIdx.x * COLUMNS + lane
        total = float32(0)
        if column < dy.shape[1]:
            for row in range(first_row, dy.shape[0], block_rows):
                total += float32(dy[row, column])
        totals[first_row, lane] = total
        cuda.syncthreads()
        if first_row == 0 and column < dy.shape[1]:
            for other in range(1, block_rows):
                total += totals[other, lane]
            db[column] += total

    return linear_db_kernel


_forward = launcher(x=read("T", "K"), w=read("K", "N"), b=read("N", optional=True), y=write("T", "N"))
_forward_gelu = launcher(
    x=read("T", "K"),
    w=read("K", "N"),
    b=read("N", optional=True),
    h=write("T", "N", optional=True),
    y=write("T", "N"),
)
_backward_x = launcher(dy=read("T", "N"), w=read("K", "N"), dx=write("T", "K"))
_backward_w = launcher(x=read("T", "K"), dy=read("T", "N"), dw=add_into("K", "N"))
_backward_b = launcher(dy=read("T", "N"), db=add_into("N"))


@_forward
def linear_naive(x: Any, w: Any, b: Any | None, y: Any, *, stream: Any = None) -> None:
    """Writes y (T, N) = x (T, K) w (K, N) + b (N,), one thread per element."""
    gemm.launch_naive_gemm(gemm.store, x, w, y, bias=b, stream=stream)


@_forward
def linear_tiled(x: Any, w: Any, b: Any | None, y: Any, tile: int = 16, *, stream: Any = None) -> None:
    """Writes y (T, N) = x (T, K) w (K, N) + b (N,) through tile x tile pieces in shared memory."""
    gemm.launch_tiled_gemm(gemm.store, x, w, y, tile, bias=b, stream=stream)


@_forward
def linear_register_tiled(
    x: Any,
    w: Any,
    b: Any | None,
    y: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, N) = x (T, K) w (K, N) + b (N,) with thread_m x thread_n elements per thread."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_register_tiled_gemm(gemm.store, x, w, y, tiles, bias=b, stream=stream)


@_forward_gelu
def linear_gelu(
    x: Any,
    w: Any,
    b: Any | None,
    h: Any | None,
    y: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes h (T, N) = x (T, K) w (K, N) + b (N,), unless h is None, and y (T, N) = gelu(h) in the tanh form.

    h is what the backward pass of GELU needs. y is made of h before h is rounded to its format.
    """
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    operands = BiasAndInput(b, h)
    gemm.launch_double_buffered_gemm(store_gelu_and_input, x, w, y, tiles, operands=operands, stream=stream)


@_backward_x
def linear_dx_naive(dy: Any, w: Any, dx: Any, *, stream: Any = None) -> None:
    """Writes dx (T, K) = dy (T, N) w^T, with w (K, N), one thread per element."""
    gemm.launch_naive_gemm(gemm.store, dy, transposed(w), dx, stream=stream)


@_backward_x
def linear_dx_tiled(dy: Any, w: Any, dx: Any, tile: int = 16, *, stream: Any = None) -> None:
    """Writes dx (T, K) = dy (T, N) w^T, with w (K, N), through shared memory."""
    gemm.launch_tiled_gemm(gemm.store, dy, transposed(w), dx, tile, stream=stream)


@_backward_x
def linear_dx_register_tiled(
    dy: Any,
    w: Any,
    dx: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, K) = dy (T, N) w^T, with w (K, N), with thread_m x thread_n elements per thread."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_register_tiled_gemm(gemm.store, dy, transposed(w), dx, tiles, stream=stream)


@_backward_w
def linear_dw_naive(x: Any, dy: Any, dw: Any, *, stream: Any = None) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N), with x (T, K) and dy (T, N), one thread per element."""
    gemm.launch_naive_gemm(gemm.accumulate, transposed(x), dy, dw, stream=stream)


@_backward_w
def linear_dw_tiled(x: Any, dy: Any, dw: Any, tile: int = 16, *, stream: Any = None) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N), through shared memory."""
    gemm.launch_tiled_gemm(gemm.accumulate, transposed(x), dy, dw, tile, stream=stream)


@_backward_w
def linear_dw_register_tiled(
    x: Any,
    dy: Any,
    dw: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N) in one pass over T."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_register_tiled_gemm(gemm.accumulate, transposed(x), dy, dw, tiles, stream=stream)


@_backward_w
def linear_dw_split_k_atomic(
    x: Any,
    dy: Any,
    dw: Any,
    split_k: int | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N); T is cut into split_k parts, added by atomics in any order.

    split_k=None: chosen from T, the tiles of dw and the GPU's multiprocessors (`gemm.choose_split_k`).
    """
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    split_k = gemm.split_k_or_chosen(split_k, transposed(x), dy, tiles)
    gemm.launch_register_tiled_gemm(
        gemm.accumulate_atomically, transposed(x), dy, dw, tiles, split_k=split_k, stream=stream
    )


@_backward_w
def linear_dw_split_k_workspace(
    x: Any,
    dy: Any,
    dw: Any,
    split_k: int | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Adds x^T dy to the float32 buffer dw (K, N), bit for bit repeatable; split_k K N floats of scratch.

    split_k=None: chosen as in the atomic form, so that another GPU may add in another order; a number fixes it.
    """
    if 0 in dw.shape:
        return
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    split_k = gemm.split_k_or_chosen(split_k, transposed(x), dy, tiles)
    gemm.check_split_k(split_k)
    if split_k == 1:
        gemm.launch_register_tiled_gemm(gemm.accumulate, transposed(x), dy, dw, tiles, stream=stream)
        return
    partials = cuda.device_array((split_k, *dw.shape), FLOAT32, stream=stream)
    gemm.launch_register_tiled_gemm(
        gemm.store_partial, transposed(x), dy, partials, tiles, split_k=split_k, stream=stream
    )
    gemm.launch_add_partials(partials, dw, stream=stream)


@_backward_b
def linear_db_naive(dy: Any, db: Any, *, stream: Any = None) -> None:
    """Adds the column sums of dy (T, N) to the float32 buffer db (N,), one thread per column."""
    if db.shape[0]:
        linear_db_naive_kernel[ceil_div(db.shape[0], gemm.NAIVE_BLOCK), gemm.NAIVE_BLOCK, stream](dy, db)


@_backward_b
def linear_db(dy: Any, db: Any, block_rows: int = 8, *, stream: Any = None) -> None:
    """Adds the column sums of dy (T, N) to the float32 buffer db (N,), block_rows (at most 32) rows at a time."""
    if not 1 <= block_rows <= 32:
        raise ValueError(f"block_rows={block_rows} must lie between 1 and 32: a block has 32 * block_rows threads")
    if db.shape[0]:
        linear_db_factory(block_rows)[ceil_div(db.shape[0], COLUMNS), (COLUMNS, block_rows), stream](dy, db)
