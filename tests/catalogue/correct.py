"""Correct kernels of real style within a block: what a sanitizer must say nothing about."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numba import cuda, float32, int32, uint8

from . import Unset, correct_kernel

RNG = np.random.default_rng(0)
A = RNG.integers(-4, 5, (20, 24)).astype(np.float32)
B = RNG.integers(-4, 5, (24, 12)).astype(np.float32)
VALUES = RNG.integers(0, 1000, 128).astype(np.int32)


@correct_kernel(grid=(2, 3), block=(8, 8), inputs=[A, B], outputs=[Unset((20, 12))], expected=lambda a, b: a @ b)
def tiled_matmul():
    """Tiles of both factors in shared memory, two barriers per tile, sizes that are no multiple of the tile."""

    @cuda.jit
    def matmul(a, b, c):
        tile_a = cuda.shared.array((8, 8), float32)
        tile_b = cuda.shared.array((8, 8), float32)
        column, row = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0)
        for first in range(0, a.shape[1], 8):
            tile_a[ty, tx] = 0
            tile_b[ty, tx] = 0
            if row < a.shape[0] and first + tx < a.shape[1]:
                tile_a[ty, tx] = a[row, first + tx]
            if first + ty < b.shape[0] and column < b.shape[1]:
                tile_b[ty, tx] = b[first + ty, column]
            cuda.syncthreads()
            for k in range(8):
                total += tile_a[ty, k] * tile_b[k, tx]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    return matmul


@correct_kernel(grid=(2, 3), block=(8, 8), inputs=[A, B], outputs=[Unset((20, 12))], expected=lambda a, b: a @ b)
def double_buffered_matmul():
    """Two stages of each tile, and one barrier per turn."""

    @cuda.jit
    def matmul(a, b, c):
        tile_a = cuda.shared.array((2, 8, 8), float32)
        tile_b = cuda.shared.array((2, 8, 8), float32)
        column, row = cuda.grid(2)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tiles = (a.shape[1] + 7) // 8
        total = float32(0)
        for turn in range(tiles + 1):
            if turn < tiles:
                k = 8 * turn
                stage = turn % 2
                tile_a[stage, ty, tx] = a[row, k + tx] if row < a.shape[0] and k + tx < a.shape[1] else 0
                tile_b[stage, ty, tx] = b[k + ty, column] if k + ty < b.shape[0] and column < b.shape[1] else 0
            if turn > 0:
                stage = (turn - 1) % 2
                for k in range(8):
                    total += tile_a[stage, ty, k] * tile_b[stage, k, tx]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    return matmul


@correct_kernel(block=128, inputs=[VALUES], outputs=[Unset(128, np.int32)], expected=np.sort)
def bitonic_sort():
    """A bitonic sort in shared memory: each pair is exchanged by its lower thread, with a barrier per step."""

    @cuda.jit
    def sort(x, y):
        tile = cuda.shared.array(128, int32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        size = 2
        while size <= 128:
            step = size // 2
            while step > 0:
                partner = i ^ step
                if partner > i:
                    low, high = tile[i], tile[partner]
                    if (low > high) == (i & size == 0):
                        tile[i] = high
                        tile[partner] = low
                cuda.syncthreads()
                step //= 2
            size *= 2
        y[i] = tile[i]

    return sort


@correct_kernel(
    grid=4,
    block=32,
    inputs=[VALUES],
    outputs=[Unset(128, np.int32)],
    expected=lambda x: np.convolve(x, [1, 2, 1], "same"),
)
def stencil_with_halo():
    """A tile with a halo cell at each end, filled by the first and the last thread."""

    @cuda.jit
    def blur(x, y):
        tile = cuda.shared.array(34, int32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        tile[t + 1] = x[i]
        if t == 0:
            tile[0] = x[i - 1] if i > 0 else 0
        if t == 31:
            tile[33] = x[i + 1] if i + 1 < x.size else 0
        cuda.syncthreads()
        y[i] = tile[t] + 2 * tile[t + 1] + tile[t + 2]

    return blur


@correct_kernel(
    grid=2,
    block=64,
    inputs=[VALUES % 10],
    outputs=[np.zeros(10, np.int32)],
    expected=lambda x: np.bincount(x, minlength=10),
)
def histogram_with_shared_atomics():
    """A histogram per block in shared memory, added to the global one by atomics."""

    @cuda.jit
    def histogram(x, y):
        counts = cuda.shared.array(10, int32)
        t = cuda.threadIdx.x
        if t < 10:
            counts[t] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            cuda.atomic.add(counts, x[i], 1)
        cuda.syncthreads()
        if t < 10:
            cuda.atomic.add(y, t, counts[t])

    return histogram


@correct_kernel(grid=(2, 2), block=(16, 4), inputs=[A], outputs=[Unset((24, 20))], expected=lambda a: a.T)
def transpose_through_a_padded_tile():
    """A 16 by 16 tile with a padding column; each thread moves four rows; the padding is never read."""

    @cuda.jit
    def transpose(x, y):
        tile = cuda.shared.array((16, 17), float32)
        first_column, first_row = 16 * cuda.blockIdx.x, 16 * cuda.blockIdx.y
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        for k in range(ty, 16, 4):
            if first_row + k < x.shape[0] and first_column + tx < x.shape[1]:
                tile[k, tx] = x[first_row + k, first_column + tx]
        cuda.syncthreads()
        for k in range(ty, 16, 4):
            if first_column + k < x.shape[1] and first_row + tx < x.shape[0]:
                y[first_column + k, first_row + tx] = tile[tx, k]

    return transpose


@correct_kernel(
    block=64,
    inputs=[VALUES[:64]],
    outputs=[Unset(64, np.uint8)],
    expected=lambda x: np.roll(x % 251, -1).astype(np.uint8),
)
def disjoint_bytes_of_one_word():
    """Neighbouring threads write neighbouring bytes, in shared and in global memory."""

    @cuda.jit
    def remainders(x, y):
        small = cuda.shared.array(64, uint8)
        i = cuda.threadIdx.x
        small[i] = x[i] % 251
        cuda.syncthreads()
        y[i] = small[(i + 1) % 64]

    return remainders


@correct_kernel(
    block=32,
    inputs=[np.arange(32).astype(ml_dtypes.bfloat16)],
    outputs=[np.zeros(32, ml_dtypes.bfloat16)],
    expected=lambda x: (x[::-1].astype(np.float32) * 2).astype(ml_dtypes.bfloat16),
    cuda=False,
)
def bfloat16_elements():
    """Two-byte elements, two to a word, each written by another thread."""

    @cuda.jit
    def reversed_double(x, y):
        i = cuda.threadIdx.x
        y[31 - i] = x[i] + x[i]

    return reversed_double


@correct_kernel(grid=2, block=64, inputs=[VALUES[:100]], outputs=[Unset(100, np.int32)], expected=lambda x: x + 1)
def early_exit_without_barriers():
    """Threads past the end return; nobody waits for them."""

    @cuda.jit
    def add_one(x, y):
        i = cuda.grid(1)
        if i >= x.size:
            return
        y[i] = x[i] + 1

    return add_one


@correct_kernel(block=64, inputs=[VALUES[:64]], outputs=[Unset(64, np.int32)], expected=lambda x: np.full(64, 5))
def loop_until_the_block_agrees():
    """A loop that all threads leave in the same turn, decided by a vote at the barrier."""

    @cuda.jit
    def turns(x, y):
        i = cuda.threadIdx.x
        mine = x[i] % 5 if i else 4
        turn = 0
        while cuda.syncthreads_or(1 if turn <= mine else 0):
            turn += 1
        y[i] = turn

    return turns


@correct_kernel(
    block=(4, 4, 4),
    inputs=[VALUES[:64].reshape(4, 4, 4)],
    outputs=[Unset((4, 4, 4), np.int32)],
    expected=lambda x: x.transpose(2, 1, 0),
)
def three_dimensional_block():
    """A block in three dimensions and a tile whose axes are exchanged."""

    @cuda.jit
    def exchange_axes(x, y):
        tile = cuda.shared.array((4, 4, 4), int32)
        i, j, k = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        tile[k, j, i] = x[k, j, i]
        cuda.syncthreads()
        y[k, j, i] = tile[i, j, k]

    return exchange_axes


@correct_kernel(block=8, inputs=[A[:8]], outputs=[Unset((8, 3))], expected=lambda x: x.reshape(8, 8, 3).sum(axis=1))
def register_tile_in_a_local_array():
    """Accumulators in a local array, zeroed before they are added to."""

    @cuda.jit
    def strided_sums(x, y):
        sums = cuda.local.array(3, float32)
        row = cuda.threadIdx.x
        for k in range(3):
            sums[k] = 0
        for column in range(x.shape[1]):
            sums[column % 3] += x[row, column]
        for k in range(3):
            y[row, k] = sums[k]

    return strided_sums
