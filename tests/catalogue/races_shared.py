"""Races in shared memory that a block barrier or an atomic mends."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, uint8

from . import Unset, pair

RAMP = np.arange(64, dtype=np.float32)
ROWS = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
BINS = (np.arange(64) * 7 % 5).astype(np.int32)


@pair("race", "read-write", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x[::-1])
def barrier_missing_after_write(fixed):
    """A tile is read before the threads that fill it have been waited for."""

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]  # other
        if fixed:
            cuda.syncthreads()
        y[i] = tile[63 - i]  # fault

    return reverse


@pair("race", "read-write", block=64, inputs=[ROWS], outputs=[Unset(64)], expected=lambda x: x.sum(axis=0)[::-1])
def barrier_missing_before_overwrite(fixed):
    """The next tile is stored while other threads still read the one before."""

    @cuda.jit
    def reversed_sums(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        total = float32(0)
        for row in range(x.shape[0]):
            tile[i] = x[row, i]  # fault
            cuda.syncthreads()
            total += tile[63 - i]  # other
            if fixed:
                cuda.syncthreads()
        y[i] = total

    return reversed_sums


@pair("race", "read-write", block=64, inputs=[ROWS], outputs=[Unset(64)], expected=lambda x: x.sum(axis=0)[::-1])
def double_buffer_one_barrier_short(fixed):
    """Two buffers need one barrier per turn; this loop has one before it and none inside."""

    @cuda.jit
    def reversed_sums(x, y):
        tile = cuda.shared.array((2, 64), float32)
        i = cuda.threadIdx.x
        total = float32(0)
        tile[0, i] = x[0, i]
        cuda.syncthreads()
        for row in range(x.shape[0]):
            if row + 1 < x.shape[0]:
                tile[(row + 1) % 2, i] = x[row + 1, i]  # other
            total += tile[row % 2, 63 - i]  # fault
            if fixed:
                cuda.syncthreads()
        y[i] = total

    return reversed_sums


@pair("race", "write-write", block=64, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x[:1])
def two_writers_of_one_cell(fixed):
    """The first thread of every warp stores its value into the same cell."""
    leaders = 64 if fixed else 32

    @cuda.jit
    def first_value(x, y):
        cell = cuda.shared.array(1, float32)
        i = cuda.threadIdx.x
        if i % leaders == 0:
            cell[0] = x[i]  # fault
        cuda.syncthreads()
        if i == 0:
            y[0] = cell[0]

    return first_value


@pair(
    "race",
    "read-write",
    block=64,
    inputs=[ROWS],
    outputs=[Unset((4, 64))],
    expected=lambda x: x - x[:, :1],
)
def broadcast_slot_reused(fixed):
    """c07: a block handles several rows and stores the next row's value while other threads read this row's."""

    @cuda.jit
    def subtract_first(x, y):
        first = cuda.shared.array(1, float32)
        i = cuda.threadIdx.x
        for row in range(x.shape[0]):
            if i == 0:
                first[0] = x[row, 0]  # fault
            cuda.syncthreads()
            y[row, i] = x[row, i] - first[0]  # other
            if fixed:
                cuda.syncthreads()

    return subtract_first


@pair("race", "atomic-plain", block=64, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x.sum(keepdims=True))
def zeroed_while_others_add(fixed):
    """c08: one thread zeroes the shared sum while other warps already add to it."""

    @cuda.jit
    def block_sum(x, y):
        total = cuda.shared.array(1, float32)
        i = cuda.threadIdx.x
        if i == 0:
            total[0] = 0  # other
        if fixed:
            cuda.syncthreads()
        cuda.atomic.add(total, 0, x[i])  # fault
        cuda.syncthreads()
        if i == 0:
            y[0] = total[0]

    return block_sum


@pair(
    "race",
    "read-write",
    block=64,
    inputs=[RAMP**2],
    outputs=[Unset(64)],
    expected=lambda x: np.concatenate([x[:1], x[:-2] + x[2:], x[-1:]]),
)
def stencil_in_place(fixed):
    """A stencil that writes back into the tile which its neighbours are still reading."""

    @cuda.jit
    def neighbours(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        value = tile[i]
        if i > 0 and i < 63:
            value = tile[i - 1] + tile[i + 1]  # other
        if fixed:
            cuda.syncthreads()
        tile[i] = value  # fault
        y[i] = tile[i]

    return neighbours


@pair(
    "race",
    "read-write",
    block=64,
    inputs=[BINS],
    outputs=[Unset(5, np.int32)],
    expected=lambda x: np.bincount(x, minlength=5),
)
def histogram_without_atomics(fixed):
    """c18: `+=` on a shared cell that other threads count in as well."""

    @cuda.jit
    def histogram(x, y):
        counts = cuda.shared.array(5, int32)
        i = cuda.threadIdx.x
        if i < 5:
            counts[i] = 0
        cuda.syncthreads()
        if fixed:
            cuda.atomic.add(counts, x[i], 1)
        else:
            counts[x[i]] += 1  # fault
        cuda.syncthreads()
        if i < 5:
            y[i] = counts[i]

    return histogram


@pair(
    "race",
    "atomic-plain",
    block=64,
    inputs=[BINS],
    outputs=[Unset(64, np.int32)],
    expected=lambda x: np.full(64, x.sum()),
)
def total_read_while_others_add(fixed):
    """The sum is read plainly as soon as this thread has added, not when all have."""

    @cuda.jit
    def block_sum(x, y):
        total = cuda.shared.array(1, int32)
        i = cuda.threadIdx.x
        if i == 0:
            total[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(total, 0, x[i])  # other
        if fixed:
            cuda.syncthreads()
        y[i] = total[0]  # fault

    return block_sum


@pair("race", "read-write", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=np.cumsum)
def scan_step_in_place(fixed):
    """An inclusive scan that adds into the tile before the neighbours have read it."""

    @cuda.jit
    def scan(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        step = 1
        while step < 64:
            before = float32(0)
            if i >= step:
                before = tile[i - step]  # other
            if fixed:
                cuda.syncthreads()
            tile[i] += before  # fault
            cuda.syncthreads()
            step *= 2
        y[i] = tile[i]

    return scan


@pair(
    "race",
    "read-write",
    block=96,
    inputs=[np.arange(96, dtype=np.int32)],
    outputs=[Unset(1, np.int32)],
    expected=lambda x: x[::32].sum(keepdims=True),
)
def warp_results_read_too_early(fixed):
    """The first warp collects what every warp has stored, without waiting for the others."""

    @cuda.jit
    def sum_of_firsts(x, y):
        partial = cuda.shared.array(3, int32)
        i = cuda.threadIdx.x
        if i % 32 == 0:
            partial[i // 32] = x[i]  # other
        if fixed:
            cuda.syncthreads()
        if i == 0:
            y[0] = partial[0] + partial[1] + partial[2]  # fault

    return sum_of_firsts


@pair("race", "read-write", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x[::-1])
def warp_barrier_between_warps(fixed):
    """`syncwarp` orders the lanes of one warp; the value read belongs to another."""

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]  # other
        if fixed:
            cuda.syncthreads()
        else:
            cuda.syncwarp()
        y[i] = tile[63 - i]  # fault

    return reverse


@pair(
    "race",
    "write-write",
    block=64,
    inputs=[BINS],
    outputs=[Unset(64, np.uint8)],
    expected=lambda x: (x % 3).astype(np.uint8),
)
def two_flags_in_one_byte(fixed):
    """Each thread has a byte of its own, as in the twin; here two threads share one."""
    per_cell = 1 if fixed else 2

    @cuda.jit
    def remainders(x, y):
        flags = cuda.shared.array(64, uint8)
        i = cuda.threadIdx.x
        flags[i // per_cell] = x[i] % 3  # fault
        cuda.syncthreads()
        y[i] = flags[i // per_cell]

    return remainders


@pair(
    "race",
    "read-write",
    block=(16, 4),
    inputs=[np.arange(64, dtype=np.float32).reshape(4, 16)],
    outputs=[Unset((16, 4))],
    expected=lambda x: x.T,
)
def transpose_without_barrier(fixed):
    """A transposed tile: every element is read by another thread than wrote it."""

    @cuda.jit
    def transpose(x, y):
        tile = cuda.shared.array((4, 17), float32)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        tile[row, column] = x[row, column]  # other
        if fixed:
            cuda.syncthreads()
        flat = row * 16 + column
        y[flat // 4, flat % 4] = tile[flat % 4, flat // 4]  # fault

    return transpose
