"""Matrix product of strided views, c (M, N) = a (M, K) @ b (K, N), accumulated in float32.

A transposed operand is a view with exchanged strides, so one source serves NN, NT, TN and TT; the tiled kernels look at
the strides and let neighbouring threads load along the axis that is contiguous. What becomes of an element of the
product is the business of a small device function, the epilogue.

naive_gemm:           one thread per element of c; every operand is read from global memory K times.
tiled_gemm:           tile x tile threads share two tiles of the operands in shared memory: 1/tile of the traffic.
register_tiled_gemm:  each thread keeps thread_m x thread_n elements in registers, so that one shared load feeds several
                      multiplications; the K axis may be split over grid.y.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import cuda, float32

from .launch import ceil_div, check_multiple, present_or_empty

NAIVE_BLOCK = 128
PADDING = 4  # floats per row of a shared tile: a store along K then touches 32 different banks


class Tiles(NamedTuple):
    """Sizes of the register-tiled kernel: a block makes block_m x block_n elements, a thread thread_m x thread_n."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int

    @property
    def threads(self) -> int:
        """Threads per block."""
        return (self.block_m // self.thread_m) * (self.block_n // self.thread_n)


# Epilogues: (c, bias, split, row, column, value). An empty bias means none.


@cuda.jit(device=True)
def store(c, bias, split, row, column, value):
    """c = a @ b + bias."""
    if bias.shape[0] > 0:
        value += float32(bias[column])
    c[row, column] = value


@cuda.jit(device=True)
def accumulate(c, bias, split, row, column, value):
    """c += a @ b."""
    c[row, column] += value


@cuda.jit(device=True)
def accumulate_atomically(c, bias, split, row, column, value):
    """c += the partial product of one split; the order of the splits is left to the hardware."""
    cuda.atomic.add(c, (row, column), value)


@cuda.jit(device=True)
def store_partial(c, bias, split, row, column, value):
    """c (split_k, M, N) = the partial product of each split."""
    c[split, row, column] = value


@functools.cache
def naive_gemm(epilogue: Callable[..., None]) -> Any:
    """The kernel with one thread per element; grid.x covers the M N elements, row by row."""

    @cuda.jit
    def naive_gemm_kernel(a, b, bias, c):
        rows, columns = a.shape[0], b.shape[1]
        element = cuda.grid(1)
        if element >= rows * columns:
            return
        row, column = element // columns, element % columns
        value = float32(0)
        for k in range(a.shape[1]):
            value += float32(a[row, k]) * float32(b[k, column])
        epilogue(c, bias, 0, row, column, value)

    return naive_gemm_kernel


@functools.cache
def tiled_gemm(epilogue: Callable[..., None], tile: int) -> Any:
    """The kernel with tile x tile threads and one element per thread; grid.x covers the tiles of c, row by row."""
    padded = tile + 1

    @cuda.jit
    def tiled_gemm_kernel(a, b, bias, c):
        a_tile = cuda.shared.array((tile, padded), float32)  # (row, k)
        b_tile = cuda.shared.array((tile, padded), float32)  # (k, column)
        rows, columns, depth = a.shape[0], b.shape[1], a.shape[1]
        tiles_n = (columns + tile - 1) // tile
        first_row = (cuda.blockIdx.x // tiles_n) * tile
        first_column = (cuda.blockIdx.x % tiles_n) * tile
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        # The x axis of the block follows the contiguous axis of each operand.
        a_row, a_k = (y, x) if a.strides[1] <= a.strides[0] else (x, y)
        b_k, b_column = (y, x) if b.strides[1] <= b.strides[0] else (x, y)

        value = float32(0)
        for first_k in range(0, depth, tile):
            row, k = first_row + a_row, first_k + a_k
            a_tile[a_row, a_k] = float32(a[row, k]) if row < rows and k < depth else float32(0)
            k, column = first_k + b_k, first_column + b_column
            b_tile[b_k, b_column] = float32(b[k, column]) if k < depth and column < columns else float32(0)
            cuda.syncthreads()
            for k in range(tile):
                value += a_tile[y, k] * b_tile[k, x]
            cuda.syncthreads()  # the tiles are overwritten next

        row, column = first_row + y, first_column + x
        if row < rows and column < columns:
            epilogue(c, bias, 0, row, column, value)

    return tiled_gemm_kernel


@functools.cache
def register_tiled_gemm(epilogue: Callable[..., None], tiles: Tiles) -> Any:
    """The kernel with thread_m x thread_n elements per thread; grid.x covers the tiles of c, grid.y the splits of K."""
    block_m, block_n, block_k, thread_m, thread_n = tiles
    threads_n = block_n // thread_n
    threads = tiles.threads
    padded_m, padded_n = block_m + PADDING, block_n + PADDING

    @cuda.jit
    def register_tiled_gemm_kernel(a, b, bias, c):
        a_tile = cuda.shared.array((block_k, padded_m), float32)  # (k, row)
        b_tile = cuda.shared.array((block_k, padded_n), float32)  # (k, column)
        values = cuda.local.array((thread_m, thread_n), float32)
        a_column = cuda.local.array(thread_m, float32)
        b_row = cuda.local.array(thread_n, float32)

        rows, columns = a.shape[0], b.shape[1]
        tiles_n = (columns + block_n - 1) // block_n
        first_row = (cuda.blockIdx.x // tiles_n) * block_m
        first_column = (cuda.blockIdx.x % tiles_n) * block_n
        split = cuda.blockIdx.y
        k_per_split = (a.shape[1] + cuda.gridDim.y - 1) // cuda.gridDim.y
        k_end = min(a.shape[1], (split + 1) * k_per_split)
        thread = cuda.threadIdx.x
        my_row = (thread // threads_n) * thread_m
        my_column = (thread % threads_n) * thread_n
        a_along_k = a.strides[1] <= a.strides[0]
        b_along_k = b.strides[0] < b.strides[1]

        for i in range(thread_m):
            for j in range(thread_n):
                values[i, j] = float32(0)

        for first_k in range(split * k_per_split, k_end, block_k):
            for item in range(thread, block_m * block_k, threads):
                r, kk = (item // block_k, item % block_k) if a_along_k else (item % block_m, item // block_m)
                row, k = first_row + r, first_k + kk
                a_tile[kk, r] = float32(a[row, k]) if row < rows and k < k_end else float32(0)
            for item in range(thread, block_n * block_k, threads):
                s, kk = (item // block_k, item % block_k) if b_along_k else (item % block_n, item // block_n)
                column, k = first_column + s, first_k + kk
                b_tile[kk, s] = float32(b[k, column]) if k < k_end and column < columns else float32(0)
            cuda.syncthreads()
            for kk in range(block_k):
                for i in range(thread_m):
                    a_column[i] = a_tile[kk, my_row + i]
                for j in range(thread_n):
                    b_row[j] = b_tile[kk, my_column + j]
                for i in range(thread_m):
                    for j in range(thread_n):
                        values[i, j] += a_column[i] * b_row[j]
            cuda.syncthreads()  # the tiles are overwritten next

        for i in range(thread_m):
            for j in range(thread_n):
                row, column = first_row + my_row + i, first_column + my_column + j
                if row < rows and column < columns:
                    epilogue(c, bias, split, row, column, values[i, j])

    return register_tiled_gemm_kernel


@cuda.jit
def add_partials_kernel(partials, c):
    """c (M, N) += the sum of partials (split_k, M, N) over its first axis, always in the same order."""
    element = cuda.grid(1)
    if element >= c.shape[0] * c.shape[1]:
        return
    row, column = element // c.shape[1], element % c.shape[1]
    value = float32(0)
    for split in range(partials.shape[0]):
        value += partials[split, row, column]
    c[row, column] += value


def launch_naive_gemm(epilogue: Any, a: Any, b: Any, c: Any, bias: Any | None = None) -> None:
    """c = epilogue(a (M, K) @ b (K, N)) by `naive_gemm`; nothing to do where c is empty."""
    elements = a.shape[0] * b.shape[1]
    if elements:
        blocks = ceil_div(elements, NAIVE_BLOCK)
        naive_gemm(epilogue)[blocks, NAIVE_BLOCK](a, b, present_or_empty(bias, b.dtype), c)


def launch_tiled_gemm(epilogue: Any, a: Any, b: Any, c: Any, tile: int, bias: Any | None = None) -> None:
    """c = epilogue(a (M, K) @ b (K, N)) by `tiled_gemm`; tile <= 32, since a block holds at most 1,024 threads."""
    if not 1 <= tile <= 32:
        raise ValueError(f"tile={tile} must lie between 1 and 32: a block has tile * tile threads, at most 1024")
    blocks = ceil_div(a.shape[0], tile) * ceil_div(b.shape[1], tile)
    if blocks:
        tiled_gemm(epilogue, tile)[blocks, (tile, tile)](a, b, present_or_empty(bias, b.dtype), c)


def launch_register_tiled_gemm(
    epilogue: Any, a: Any, b: Any, c: Any, tiles: Tiles, bias: Any | None = None, split_k: int = 1
) -> None:
    """c = epilogue(a (M, K) @ b (K, N)) by `register_tiled_gemm`, K cut into split_k parts."""
    check_multiple("block_m", tiles.block_m, "thread_m", tiles.thread_m)
    check_multiple("block_n", tiles.block_n, "thread_n", tiles.thread_n)
    if not 1 <= split_k <= 65_535:
        raise ValueError(f"split_k={split_k} must lie between 1 and 65535, the limit of grid.y")
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if blocks:
        kernel = register_tiled_gemm(epilogue, tiles)
        kernel[(blocks, split_k), tiles.threads](a, b, present_or_empty(bias, b.dtype), c)


def launch_add_partials(partials: Any, c: Any) -> None:
    """c (M, N) += the sum of partials (split_k, M, N) over its first axis, in a fixed order."""
    elements = c.shape[0] * c.shape[1]
    if elements:
        add_partials_kernel[ceil_div(elements, NAIVE_BLOCK), NAIVE_BLOCK](partials, c)
