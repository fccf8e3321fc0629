"""Accesses outside an array: past an end, past an axis, below zero, misaligned."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint8

from . import Unset, pair

RAMP = np.arange(100, dtype=np.float32)
TABLE = np.arange(60, dtype=np.float32).reshape(6, 10)
SQUARE = np.arange(64, dtype=np.float32).reshape(8, 8)


@pair("memory", "out-of-bounds", block=128, inputs=[RAMP], outputs=[Unset(100)], expected=lambda x: 2 * x)
def global_past_the_end(fixed):
    """More threads than elements, and no bounds test."""

    @cuda.jit
    def double(x, y):
        i = cuda.grid(1)
        if i < x.size or not fixed:
            y[i] = 2 * x[i]  # fault

    return double


@pair("memory", "out-of-bounds", block=32, inputs=[TABLE], outputs=[Unset(10)], expected=lambda x: x.sum(axis=0))
def loop_one_turn_too_many(fixed):
    """The loop over the rows runs to the count of rows inclusive."""
    extra = 0 if fixed else 1

    @cuda.jit
    def column_sums(x, y):
        column = cuda.threadIdx.x
        if column < x.shape[1]:
            total = float32(0)
            for row in range(x.shape[0] + extra):
                total += x[row, column]  # fault
            y[column] = total

    return column_sums


@pair(
    "memory",
    "out-of-bounds",
    grid=5,
    block=10,
    inputs=[TABLE],
    outputs=[Unset((5, 10))],
    expected=lambda x: np.diff(x[:5], axis=1, append=x[:5, -1:]),
)
def row_overrun_inside_the_buffer(fixed):
    """The last column's right neighbour is the next row's first element: inside the buffer, outside the row."""

    @cuda.jit
    def differences(x, y):
        row, column = cuda.blockIdx.x, cuda.threadIdx.x
        right = column + 1
        if fixed:
            right = min(right, x.shape[1] - 1)
        y[row, column] = x[row, right] - x[row, column]  # fault

    return differences


@pair(
    "memory",
    "out-of-bounds",
    grid=6,
    block=10,
    inputs=[TABLE],
    outputs=[Unset((6, 10))],
    expected=lambda x: np.diff(x, axis=0, append=x[-1:]),
)
def first_axis_past_the_end(fixed):
    """The last row has no row below it."""

    @cuda.jit
    def differences(x, y):
        row, column = cuda.blockIdx.x, cuda.threadIdx.x
        below = row + 1
        if fixed:
            below = min(below, x.shape[0] - 1)
        y[row, column] = x[below, column] - x[row, column]  # fault

    return differences


@pair(
    "memory",
    "out-of-bounds",
    grid=10,
    block=6,
    inputs=[np.arange(60, dtype=np.float32)],
    outputs=[np.zeros(60, np.float32)],
    expected=lambda x: x + 1,
)
def wrong_row_stride(fixed):
    """A flat matrix of 10 rows and 6 columns, addressed with the count of rows as the stride."""

    @cuda.jit
    def add_one(x, y):
        row, column = cuda.blockIdx.x, cuda.threadIdx.x
        stride = cuda.blockDim.x if fixed else cuda.gridDim.x
        y[row * stride + column] = x[row * stride + column] + 1  # fault

    return add_one


@pair("memory", "out-of-bounds", block=(10, 6), inputs=[TABLE], outputs=[Unset((6, 10))], expected=lambda x: x)
def transposed_index(fixed):
    """Row and column exchanged: harmless on square matrices only."""

    @cuda.jit
    def copy(x, y):
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        if fixed:
            y[row, column] = x[row, column]
        else:
            y[row, column] = x[column, row]  # fault

    return copy


@pair(
    "memory",
    "negative-index",
    block=100,
    inputs=[RAMP],
    outputs=[Unset(100)],
    expected=lambda x: np.diff(x, prepend=x[:1]),
)
def negative_index_wraps(fixed):
    """The first element's left neighbour is index -1, which Numba takes for the last element."""

    @cuda.jit
    def differences(x, y):
        i = cuda.threadIdx.x
        left = i - 1
        if fixed:
            left = max(left, 0)
        y[i] = x[i] - x[left]  # fault

    return differences


@pair(
    "memory",
    "negative-index",
    block=64,
    inputs=[RAMP[:64]],
    outputs=[Unset(64)],
    expected=lambda x: x + np.concatenate([[0], x[:-1]]),
)
def negative_index_in_shared(fixed):
    """A stencil in shared memory that has no halo on its left."""

    @cuda.jit
    def stencil(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        if fixed and i == 0:
            y[i] = tile[i]
        else:
            y[i] = tile[i] + tile[i - 1]  # fault

    return stencil


@pair("memory", "out-of-bounds", block=96, inputs=[RAMP[:96]], outputs=[Unset(96)], expected=lambda x: x[::-1])
def shared_past_the_end(fixed):
    """A tile of 64 elements, in a block of 96 threads."""
    size = 96 if fixed else 64

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(size, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]  # fault
        cuda.syncthreads()
        y[i] = tile[95 - i]

    return reverse


@pair(
    "memory",
    "out-of-bounds",
    block=(8, 8),
    inputs=[SQUARE],
    outputs=[Unset((8, 8))],
    expected=lambda x: np.roll(x, -1, 1),
)
def shared_last_axis(fixed):
    """The right neighbour in a two-dimensional tile: the row ends, the tile does not."""

    @cuda.jit
    def rotate(x, y):
        tile = cuda.shared.array((9, 8), float32)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        tile[row, column] = x[row, column]
        if row == 0:
            tile[8, column] = 0
        cuda.syncthreads()
        right = column + 1
        if fixed:
            right %= 8
        y[row, column] = tile[row, right]  # fault

    return rotate


@pair("memory", "out-of-bounds", block=8, inputs=[SQUARE], outputs=[Unset(8)], expected=lambda x: x[:, :4].sum(axis=1))
def local_past_the_end(fixed):
    """A thread's own array of 4 elements is filled with 5."""
    count = 4 if fixed else 5

    @cuda.jit
    def sums(x, y):
        row = cuda.threadIdx.x
        values = cuda.local.array(4, float32)
        for k in range(min(count, x.shape[1])):
            values[k] = x[row, k]  # fault
        total = float32(0)
        for k in range(4):
            total += values[k]
        y[row] = total

    return sums


@pair("memory", "out-of-bounds", block=8, inputs=[SQUARE], outputs=[Unset(8)], expected=lambda x: x[:, :6].sum(axis=1))
def local_first_axis(fixed):
    """A register tile of 2 rows and 3 columns, walked with the two extents exchanged."""
    rows, columns = (2, 3) if fixed else (3, 2)

    @cuda.jit
    def sums(x, y):
        row = cuda.threadIdx.x
        values = cuda.local.array((2, 3), float32)
        total = float32(0)
        for i in range(min(rows, x.shape[1])):
            for j in range(columns):
                values[i, j] = x[row, i * columns + j]  # fault
                total += values[i, j]
        y[row] = total

    return sums


@pair(
    "memory",
    "out-of-bounds",
    grid=6,
    block=10,
    inputs=[TABLE],
    scratch=[Unset(40)],
    outputs=[Unset((6, 10))],
    expected=lambda x: x,
)
def scratch_too_small(fixed):
    """c19: scratch with room for 4 rows, used by 6 blocks."""
    slots = 4

    @cuda.jit
    def through_scratch(x, scratch, y):
        row, column = cuda.blockIdx.x, cuda.threadIdx.x
        if fixed and row >= slots:
            y[row, column] = x[row, column]
        else:
            scratch[row * 10 + column] = x[row, column]  # fault
            y[row, column] = scratch[row * 10 + column]

    return through_scratch


@pair(
    "memory",
    "out-of-bounds",
    grid=6,
    block=4,
    inputs=[TABLE],
    outputs=[np.zeros(6, np.float32)],
    expected=lambda x: x.sum(axis=1),
)
def four_wide_reads_past_the_row(fixed):
    """c02: each lane takes 4 elements, and the row is not a multiple of 4 long."""

    @cuda.jit
    def row_sums(x, y):
        row = cuda.blockIdx.x
        first = 4 * cuda.threadIdx.x
        if first < x.shape[1]:
            total = float32(0)
            for k in range(4):
                if first + k < x.shape[1] or not fixed:
                    total += x[row, first + k]  # fault
            cuda.atomic.add(y, row, total)

    return row_sums


@pair(
    "memory",
    "out-of-bounds",
    block=5,
    inputs=[np.arange(3, dtype=np.float32), np.array([2, 0, 3, 1, -100], np.int64)],
    outputs=[Unset(5)],
    expected=lambda x, label: np.where((label >= 0) & (label < 3), x[np.clip(label, 0, 2)], 0),
)
def label_out_of_range(fixed):
    """c17: a label that is no class picks whatever lies there."""

    @cuda.jit
    def pick(x, label, y):
        i = cuda.threadIdx.x
        y[i] = 0
        if label[i] >= 0 and (label[i] < x.size or not fixed):
            y[i] = x[label[i]]  # fault

    return pick


@pair(
    "memory", "misaligned", block=8, inputs=[np.arange(8, dtype=np.float32)], outputs=[Unset(8)], expected=lambda x: x
)
def misaligned_view_of_shared(fixed):
    """c36: a float32 stage that starts at an odd byte of a shared buffer."""
    start = 4 if fixed else 5

    @cuda.jit
    def through_bytes(x, y):
        buffer = cuda.shared.array(64, uint8)
        stage = buffer[start : start + 32].view(np.float32)
        i = cuda.threadIdx.x
        stage[i] = x[i]  # fault
        cuda.syncthreads()
        y[i] = stage[i]

    return through_bytes


@pair(
    "memory",
    "out-of-bounds",
    block=64,
    inputs=[RAMP[:64]],
    outputs=[Unset(64)],
    expected=lambda x: np.roll(x, -1),
    dynamic_shared_bytes=256,
)
def dynamic_shared_past_the_end(fixed):
    """The right neighbour of the last element, in dynamic shared memory of just the block's size."""

    @cuda.jit
    def rotate(x, y):
        tile = cuda.shared.array(0, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        right = i + 1
        if fixed:
            right %= 64
        y[i] = tile[right]  # fault

    return rotate
