"""Reads of memory that nothing wrote: global, shared and local."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, uint16

from . import Unset, pair

RAMP = np.arange(64, dtype=np.float32)
TABLE = np.arange(60, dtype=np.float32).reshape(6, 10)
SQUARE = np.arange(64, dtype=np.float32).reshape(8, 8)


@pair(
    "uninitialized",
    "global",
    block=64,
    inputs=[RAMP],
    scratch=[Unset(64)],
    outputs=[Unset(64)],
    expected=lambda x: np.where(x % 2, 0, x),
)
def scratch_half_written(fixed):
    """Only the even elements of the scratch are stored, and all are read."""

    @cuda.jit
    def keep_even(x, scratch, y):
        i = cuda.threadIdx.x
        if i % 2 == 0:
            scratch[i] = x[i]
        elif fixed:
            scratch[i] = 0
        y[i] = scratch[i]  # fault

    return keep_even


@pair("uninitialized", "global", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: 2 * x)
def added_to_an_unset_output(fixed):
    """`+=` into an output that nobody has zeroed."""

    @cuda.jit
    def double(x, y):
        i = cuda.threadIdx.x
        if fixed:
            y[i] = 2 * x[i]
        else:
            y[i] += 2 * x[i]  # fault

    return double


@pair("uninitialized", "global", block=64, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x.sum(keepdims=True))
def atomic_sum_into_unset_output(fixed):
    """Atomics add to a sum that nobody has zeroed."""

    @cuda.jit
    def total(x, y):
        i = cuda.threadIdx.x
        if fixed and i == 0:
            y[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(y, 0, x[i])  # fault

    return total


@pair(
    "uninitialized",
    "global",
    block=32,
    inputs=[TABLE],
    scratch=[Unset((6, 10))],
    outputs=[Unset(6)],
    expected=lambda x: 2 * x.sum(axis=1),
)
def rows_partially_written(fixed):
    """c05: the column loop is rounded down to whole vectors of 4, and the whole row is read later."""

    @cuda.jit
    def doubled_sums(x, scratch, y):
        row = cuda.threadIdx.x
        columns = x.shape[1] if fixed else x.shape[1] // 4 * 4
        if row < x.shape[0]:
            for column in range(columns):
                scratch[row, column] = 2 * x[row, column]
            total = float32(0)
            for column in range(x.shape[1]):
                total += scratch[row, column]  # fault
            y[row] = total

    return doubled_sums


@pair(
    "uninitialized",
    "global",
    block=1,
    inputs=[np.array([3, 0, 2], np.int32)],
    scratch=[Unset(3, np.int32)],
    outputs=[Unset(3, np.int32)],
    expected=lambda counts: np.array([0, 3, 3], np.int32),
)
def offsets_shifted_by_one(fixed):
    """Exclusive offsets are stored from the second on; the first is never set."""

    @cuda.jit
    def exclusive(counts, offsets, y):
        total = 0
        for k in range(counts.size):
            if k > 0 or fixed:
                offsets[k] = total
            total += counts[k]
        for k in range(counts.size):
            y[k] = offsets[k]  # fault

    return exclusive


@pair(
    "uninitialized",
    "global",
    grid=2,
    block=32,
    inputs=[RAMP],
    scratch=[Unset(2)],
    outputs=[Unset(64)],
    expected=lambda x: x - np.repeat(x[::32], 32),
)
def block_maximum_never_stored(fixed):
    """Each block reads its own slot of a global array that only the first block fills."""

    @cuda.jit
    def subtract_first(x, first, y):
        block, i = cuda.blockIdx.x, cuda.threadIdx.x
        if i == 0 and (block == 0 or fixed):
            first[block] = x[32 * block]
        cuda.syncthreads()
        y[cuda.grid(1)] = x[cuda.grid(1)] - first[block]  # fault

    return subtract_first


@pair(
    "uninitialized", "shared", block=64, inputs=[RAMP[:50]], outputs=[Unset(1)], expected=lambda x: x.max(keepdims=True)
)
def tail_of_the_last_block(fixed):
    """c03: the reduction runs over all lanes of the tile, and those past the end hold nothing."""

    @cuda.jit
    def maximum(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        if i < x.size:
            tile[i] = x[i]
        elif fixed:
            tile[i] = x[0]
        cuda.syncthreads()
        if i == 0:
            best = tile[0]
            for k in range(64):
                best = max(best, tile[k])  # fault
            y[0] = best

    return maximum


@pair(
    "uninitialized",
    "shared",
    block=64,
    inputs=[RAMP],
    outputs=[Unset(64)],
    expected=lambda x: np.concatenate([[0], x[:-1]]) + np.append(x[1:], 0),
)
def halo_never_filled(fixed):
    """A stencil tile whose first and last cell no thread stores."""

    @cuda.jit
    def neighbours(x, y):
        tile = cuda.shared.array(66, float32)
        i = cuda.threadIdx.x
        tile[i + 1] = x[i]
        if fixed and i == 0:
            tile[0] = 0
            tile[65] = 0
        cuda.syncthreads()
        y[i] = tile[i] + tile[i + 2]  # fault

    return neighbours


@pair("uninitialized", "shared", block=(8, 8), inputs=[SQUARE], outputs=[Unset(8)], expected=lambda x: x.sum(axis=1))
def padding_column_summed(fixed):
    """The padding column that keeps banks apart is summed with the row."""
    columns = 8 if fixed else 9

    @cuda.jit
    def row_sums(x, y):
        tile = cuda.shared.array((8, 9), float32)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        tile[row, column] = x[row, column]
        cuda.syncthreads()
        if column == 0:
            total = float32(0)
            for k in range(columns):
                total += tile[row, k]  # fault
            y[row] = total

    return row_sums


@pair(
    "uninitialized",
    "shared",
    block=64,
    inputs=[RAMP.astype(np.int32)],
    outputs=[Unset(1, np.int32)],
    expected=lambda x: x.sum(keepdims=True),
)
def shared_sum_never_zeroed(fixed):
    """Shared memory does not start at zero."""

    @cuda.jit
    def block_sum(x, y):
        total = cuda.shared.array(1, int32)
        i = cuda.threadIdx.x
        if fixed and i == 0:
            total[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(total, 0, x[i])  # fault
        cuda.syncthreads()
        if i == 0:
            y[0] = total[0]

    return block_sum


@pair(
    "uninitialized",
    "shared",
    block=96,
    inputs=[np.arange(96, dtype=np.float32)],
    outputs=[Unset(1)],
    expected=lambda x: x.sum(keepdims=True),
)
def slots_of_warps_that_do_not_exist(fixed):
    """The first warp adds up 32 partial sums of a block that has 3 warps."""
    full = 0xFFFFFFFF

    @cuda.jit
    def block_sum(x, y):
        partial = cuda.shared.array(32, float32)
        i = cuda.threadIdx.x
        warp, lane = i // 32, i % 32
        value = x[i]
        for k in range(5):
            value += cuda.shfl_xor_sync(full, value, 1 << k)
        if lane == 0:
            partial[warp] = value
        cuda.syncthreads()
        if warp == 0:
            share = float32(0)
            if lane < 3 or not fixed:
                share = partial[lane]  # fault
            for k in range(5):
                share += cuda.shfl_xor_sync(full, share, 1 << k)
            if lane == 0:
                y[0] = share

    return block_sum


@pair(
    "uninitialized",
    "shared",
    grid=3,
    block=32,
    inputs=[np.array([0, 2, 2, 5], np.int32), RAMP[:5]],
    outputs=[Unset(3)],
    expected=lambda start, x: np.array([1, 0, 9], np.float32),
)
def empty_segment(fixed):
    """Sums of segments: a segment with no element leaves its shared sum unset."""

    @cuda.jit
    def segment_sums(start, x, y):
        total = cuda.shared.array(1, float32)
        segment = cuda.blockIdx.x
        if cuda.threadIdx.x == 0:
            if fixed:
                total[0] = 0
            for k in range(start[segment], start[segment + 1]):
                if k == start[segment]:
                    total[0] = x[k]
                else:
                    total[0] += x[k]
            y[segment] = total[0]  # fault

    return segment_sums


@pair("uninitialized", "local", block=6, inputs=[TABLE], outputs=[Unset(6)], expected=lambda x: x[:, :8].sum(axis=1))
def local_accumulators_never_zeroed(fixed):
    """Four running sums per thread, added to before they are set."""

    @cuda.jit
    def row_sums(x, y):
        sums = cuda.local.array(4, float32)
        row = cuda.threadIdx.x
        if fixed:
            for k in range(4):
                sums[k] = 0
        for column in range(x.shape[1] // 4 * 4):
            sums[column % 4] += x[row, column]  # fault
        y[row] = sums[0] + sums[1] + sums[2] + sums[3]

    return row_sums


@pair("uninitialized", "local", block=6, inputs=[-TABLE], outputs=[Unset(6)], expected=lambda x: x.max(axis=1))
def running_maximum_in_its_first_turn(fixed):
    """The running maximum is compared with before it holds a value."""

    @cuda.jit
    def row_maxima(x, y):
        best = cuda.local.array(1, float32)
        row = cuda.threadIdx.x
        if fixed:
            best[0] = x[row, 0]
        for column in range(x.shape[1]):
            best[0] = max(best[0], x[row, column])  # fault
        y[row] = best[0]

    return row_maxima


@pair("uninitialized", "local", block=6, inputs=[TABLE], outputs=[Unset(6)], expected=lambda x: x[:, :3].sum(axis=1))
def window_filled_too_late(fixed):
    """A window of 3 values in a ring, summed once before the third is there."""

    @cuda.jit
    def first_window(x, y):
        ring = cuda.local.array(3, float32)
        row = cuda.threadIdx.x
        result = float32(0)
        first = 2 if fixed else 1
        for column in range(3):
            ring[column] = x[row, column]
            if column >= first:
                result = 0
                for k in range(3):
                    result += ring[k]  # fault
        y[row] = result

    return first_window


@pair(
    "uninitialized",
    "shared",
    block=64,
    inputs=[np.arange(64, dtype=np.uint16)],
    outputs=[Unset(32, np.uint32)],
    expected=lambda x: x.view(np.uint32),
)
def half_of_each_word(fixed):
    """Words are read of which only the lower halves are stored; the twin stores both, each by another thread."""

    @cuda.jit
    def pack(x, y):
        halves = cuda.shared.array(64, uint16)
        i = cuda.threadIdx.x
        if i % 2 == 0 or fixed:
            halves[i] = x[i]
        cuda.syncthreads()
        words = halves.view(np.uint32)
        if i < 32:
            y[i] = words[i]  # fault

    return pack
