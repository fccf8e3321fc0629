"""Local arrays that go through device functions: filled there, read there, chosen between, taken anew in each call."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from . import Unset, correct_kernel, pair

TABLE = np.arange(60, dtype=np.float32).reshape(6, 10)


@pair("uninitialized", "local", block=6, inputs=[TABLE], outputs=[Unset(6)], expected=lambda x: x[:, :8].sum(axis=1))
def window_that_a_device_function_fills(fixed):
    """A device function fills its caller's window of 8 values, and leaves the last one out."""
    filled = 8 if fixed else 7

    @cuda.jit(device=True)
    def fill(window, x, row):
        for k in range(filled):
            window[k] = x[row, k]

    @cuda.jit
    def window_sums(x, y):
        window = cuda.local.array(8, float32)
        row = cuda.threadIdx.x
        fill(window, x, row)
        total = float32(0)
        for k in range(y.size + 2):
            total += window[k]  # fault
        y[row] = total

    return window_sums


@pair("uninitialized", "local", block=6, inputs=[TABLE], outputs=[Unset(6)], expected=lambda x: x[:, :8].max(axis=1))
def rows_of_a_tile_two_calls_deep(fixed):
    """Rows of a local tile are filled two calls down, and read in another device function; one element is missing."""

    @cuda.jit(device=True)
    def fill_row(values, x, row, first, count):
        for k in range(count):
            values[k] = x[row, first + k]

    @cuda.jit(device=True)
    def fill(tile, x, row):
        fill_row(tile[0], x, row, 0, 4)
        fill_row(tile[1], x, row, 4, 4 if fixed else x.shape[0] - 3)

    @cuda.jit(device=True)
    def largest(tile, rows):
        best = tile[0, 0]
        for r in range(rows):
            for k in range(4):
                best = max(best, tile[r, k])  # fault
        return best

    @cuda.jit
    def window_maxima(x, y):
        tile = cuda.local.array((2, 4), float32)
        fill(tile, x, cuda.threadIdx.x)
        y[cuda.threadIdx.x] = largest(tile, y.size // 3)

    return window_maxima


@pair("uninitialized", "local", block=6, inputs=[TABLE], outputs=[Unset(6)], expected=lambda x: x[:, 3] + x[:, 9])
def scratch_of_an_earlier_call(fixed):
    """A device function's own array is new in each call: what an earlier call wrote there does not count."""

    @cuda.jit(device=True)
    def add_fourth(sums, x, row, first, count):
        window = cuda.local.array(4, float32)
        for k in range(count):
            window[k] = x[row, first + k]
        sums[first % 2] += window[3]  # fault

    @cuda.jit
    def pair_sums(x, y):
        sums = cuda.local.array(2, float32)
        row = cuda.threadIdx.x
        sums[0] = 0
        for turn in range(2):
            add_fourth(sums, x, row, 6 * turn, 4 if fixed else 4 - turn)
        y[row] = sums[0]

    return pair_sums


@correct_kernel(block=6, inputs=[TABLE], outputs=[Unset(6)], expected=lambda x: x[:, 4:8].sum(axis=1))
def one_of_two_local_arrays():
    """Which of two arrays a device function fills is known only when the kernel runs."""

    @cuda.jit(device=True)
    def fill(window, x, row, first):
        for k in range(4):
            window[k] = x[row, first + k]

    @cuda.jit
    def sums(x, y):
        lower, upper = cuda.local.array(4, float32), cuda.local.array(4, float32)
        row = cuda.threadIdx.x
        for turn in range(2):
            chosen = lower if turn == 0 else upper
            fill(chosen, x, row, 4 * turn)
        total = float32(0)
        for k in range(y.size - 2):
            total += upper[k]
        y[row] = total

    return sums
