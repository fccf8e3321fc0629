"""Races in global memory, between threads of one block and between blocks."""

from __future__ import annotations

import numpy as np
from numba import cuda

from . import Unset, pair

RAMP = np.arange(64, dtype=np.float32)
ROWS = np.arange(4 * 32, dtype=np.float32).reshape(4, 32)
BINS = (np.arange(128) * 7 % 5).astype(np.int32)


@pair("race", "read-write", block=64, outputs=[RAMP], expected=lambda: np.append(RAMP[1:], RAMP[-1:]))
def shift_in_place(fixed):
    """Every thread overwrites the element that its left neighbour reads."""

    @cuda.jit
    def shift(x):
        i = cuda.threadIdx.x
        right = x[min(i + 1, 63)]  # other
        if fixed:
            cuda.syncthreads()
        x[i] = right  # fault

    return shift


@pair(
    "race", "read-write", block=64, inputs=[RAMP], scratch=[Unset(64)], outputs=[Unset(64)], expected=lambda x: x[::-1]
)
def global_scratch_without_barrier(fixed):
    """The threads of a block pass values through global scratch without a barrier."""

    @cuda.jit
    def reverse(x, scratch, y):
        i = cuda.threadIdx.x
        scratch[i] = x[i]  # other
        if fixed:
            cuda.syncthreads()
        y[i] = scratch[63 - i]  # fault

    return reverse


@pair(
    "race",
    "read-write",
    grid=4,
    block=32,
    inputs=[ROWS],
    scratch=[Unset((4, 32))],
    outputs=[Unset((4, 32))],
    expected=lambda x: x[::-1],
    cuda=False,
)
def blocks_exchange_without_grid_barrier(fixed):
    """Blocks read what other blocks write in the same launch; a block barrier does not order blocks."""

    @cuda.jit
    def exchange(x, scratch, y):
        block, i = cuda.blockIdx.x, cuda.threadIdx.x
        scratch[block, i] = x[block, i]  # other
        if fixed:
            cuda.cg.this_grid().sync()
        else:
            cuda.syncthreads()
        y[block, i] = scratch[cuda.gridDim.x - 1 - block, i]  # fault

    return exchange


@pair(
    "race",
    "read-write",
    grid=4,
    block=32,
    inputs=[ROWS],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: x.sum(keepdims=True)[0],
)
def plain_sum_over_blocks(fixed):
    """One thread of each block adds the block's share with a plain `+=`."""

    @cuda.jit
    def total(x, y):
        if cuda.threadIdx.x == 0:
            share = x[cuda.blockIdx.x, 0]
            for k in range(1, x.shape[1]):
                share += x[cuda.blockIdx.x, k]
            if fixed:
                cuda.atomic.add(y, 0, share)
            else:
                y[0] += share  # fault

    return total


@pair(
    "race",
    "read-write",
    grid=2,
    block=64,
    inputs=[BINS],
    outputs=[np.zeros(5, np.int32)],
    expected=lambda x: np.bincount(x, minlength=5),
)
def global_histogram_without_atomics(fixed):
    """Threads of two blocks count in the same cells with a plain `+=`."""

    @cuda.jit
    def histogram(x, y):
        i = cuda.grid(1)
        if fixed:
            cuda.atomic.add(y, x[i], 1)
        else:
            y[x[i]] += 1  # fault

    return histogram


@pair(
    "race",
    "write-write",
    grid=4,
    block=9,
    outputs=[np.zeros(33, np.int32)],
    expected=lambda: np.append(np.arange(32) // 8, 0),
)
def tiles_overlap_by_one(fixed):
    """Each block writes one column into the tile of the next."""
    width = 8 if fixed else 9

    @cuda.jit
    def number_tiles(y):
        block, i = cuda.blockIdx.x, cuda.threadIdx.x
        if i < width:
            y[8 * block + i] = block  # fault

    return number_tiles


@pair(
    "race",
    "atomic-plain",
    grid=4,
    block=32,
    inputs=[ROWS],
    scratch=[np.zeros(1, np.int32)],
    outputs=[Unset((4, 32))],
    expected=lambda x: x,
)
def slot_counter_read_plainly(fixed):
    """Blocks draw row numbers: the counter is read plainly and then incremented atomically."""

    @cuda.jit
    def copy(x, counter, y):
        row = cuda.blockIdx.x
        if cuda.threadIdx.x == 0:
            if fixed:
                seen = cuda.atomic.add(counter, 0, 1)
            else:
                seen = counter[0]  # fault
                cuda.atomic.add(counter, 0, 1)  # other
            y[row, 0] = x[row, 0] if seen < 4 else 0
        else:
            y[row, cuda.threadIdx.x] = x[row, cuda.threadIdx.x]

    return copy


@pair(
    "race",
    "atomic-plain",
    grid=4,
    block=32,
    inputs=[ROWS],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: x.sum(keepdims=True)[0],
)
def output_reset_by_one_block(fixed):
    """The first block resets the sum in the launch in which all blocks add to it."""

    @cuda.jit
    def total(x, y):
        if not fixed and cuda.grid(1) == 0:
            y[0] = 0  # other
        cuda.atomic.add(y, 0, x[cuda.blockIdx.x, cuda.threadIdx.x])  # fault

    return total


@pair(
    "race",
    "read-write",
    grid=4,
    block=32,
    inputs=[ROWS],
    scratch=[np.zeros(4, np.float32)],
    outputs=[Unset(4)],
    expected=lambda x: np.full(4, x[0, 0]),
)
def neighbour_block_result_read(fixed):
    """Every block reads what the first block has perhaps not stored yet; the twin computes it again."""

    @cuda.jit
    def normalise(x, first, y):
        block = cuda.blockIdx.x
        if cuda.threadIdx.x == 0:
            first[block] = x[block, 0]  # other
            if fixed:
                y[block] = x[0, 0]
            else:
                y[block] = first[0]  # fault

    return normalise


@pair(
    "race",
    "write-write",
    grid=2,
    block=64,
    inputs=[BINS],
    outputs=[np.zeros(5, np.int32)],
    expected=lambda x: np.array([np.flatnonzero(x == b).max() for b in range(5)], np.int32),
)
def scatter_with_duplicate_indices(fixed):
    """Several threads store into the cell of one index; the twin takes the largest by an atomic."""

    @cuda.jit
    def last_position(x, y):
        i = cuda.grid(1)
        if fixed:
            cuda.atomic.max(y, x[i], i)
        else:
            y[x[i]] = i  # fault

    return last_position
