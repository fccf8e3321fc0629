"""Correct kernels whose blocks work together: flags, locks, tickets, grid barriers, last-block reductions."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from . import Unset, correct_kernel

RNG = np.random.default_rng(1)
ROWS = RNG.integers(-8, 9, (6, 32)).astype(np.float32)
VALUES = RNG.integers(0, 1000, 160).astype(np.int32)
ZERO = np.zeros(1, np.int32)


@correct_kernel(grid=3, block=32, inputs=[VALUES], outputs=[Unset(160, np.int32)], expected=lambda x: 3 * x + 1)
def grid_stride_loop():
    """A grid smaller than the array; every element belongs to one thread."""

    @cuda.jit
    def affine(x, y):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] = 3 * x[i]
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] += 1

    return affine


@correct_kernel(
    grid=4,
    block=32,
    inputs=[VALUES[:128]],
    outputs=[np.stack([VALUES[:128], np.zeros(128, np.int32)])],
    expected=lambda x: np.stack([np.roll(x, -4), np.roll(x, -3)]),
    cuda=False,
)
def rounds_with_a_grid_barrier():
    """Two buffers exchanged between all blocks, one grid barrier per round."""

    @cuda.jit
    def rotate(x, buffers):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        for turn in range(4):
            buffers[(turn + 1) % 2, i] = buffers[turn % 2, (i + 1) % x.size]
            grid.sync()

    return rotate


@correct_kernel(
    grid=6,
    block=32,
    inputs=[ROWS],
    scratch=[Unset((6, 32)), ZERO],
    outputs=[Unset(32)],
    expected=lambda x: x.sum(axis=0),
)
def last_block_reduction():
    """Every block stores its share, fences and draws a ticket; the last one adds the shares up."""

    @cuda.jit
    def column_sums(x, shares, tickets, y):
        last = cuda.shared.array(1, int32)
        block, i = cuda.blockIdx.x, cuda.threadIdx.x
        shares[block, i] = x[block, i]
        cuda.syncthreads()
        if i == 0:
            cuda.threadfence()
            last[0] = cuda.atomic.add(tickets, 0, 1) == cuda.gridDim.x - 1
            cuda.threadfence()
        cuda.syncthreads()
        if last[0]:
            total = float32(0)
            for k in range(cuda.gridDim.x):
                total += shares[k, 31 - i]
            y[31 - i] = total

    return column_sums


@correct_kernel(
    grid=6,
    block=32,
    inputs=[ROWS],
    scratch=[Unset((6, 32)), np.zeros(6, np.int32)],
    outputs=[Unset((3, 32))],
    expected=lambda x: x[:3, ::-1] + 2 * x[3:],
    cuda=False,
)
def producers_and_consumers():
    """The first three blocks hand a row each to the last three, with a flag per row."""

    @cuda.jit
    def hand_over(x, data, ready, y):
        block, i = cuda.blockIdx.x, cuda.threadIdx.x
        if block < 3:
            data[block, i] = x[block, i]
            cuda.syncthreads()
            if i == 0:
                cuda.threadfence()
                cuda.atomic.exch(ready, block, 1)
        else:
            if i == 0:
                while cuda.atomic.add(ready, block - 3, 0) == 0:
                    pass
                cuda.threadfence()
            cuda.syncthreads()
            y[block - 3, i] = data[block - 3, 31 - i] + 2 * x[block, i]

    return hand_over


@correct_kernel(
    grid=5,
    block=32,
    inputs=[VALUES],
    scratch=[np.zeros(6, np.int32), Unset(6, np.int32)],
    outputs=[Unset(160, np.int32)],
    expected=np.cumsum,
    cuda=False,
)
def chained_scan():
    """An inclusive scan over blocks: each waits for the total of the one before and passes its own on."""

    @cuda.jit
    def scan(x, ready, totals, y):
        before = cuda.shared.array(1, int32)
        block, lane = cuda.blockIdx.x, cuda.threadIdx.x
        value = x[cuda.grid(1)]
        for k in range(5):
            left = cuda.shfl_up_sync(0xFFFFFFFF, value, 1 << k)
            if lane >= 1 << k:
                value += left
        if lane == 31:
            carried = 0
            if block > 0:
                while cuda.atomic.add(ready, block - 1, 0) == 0:
                    pass
                cuda.threadfence()
                carried = totals[block - 1]
            before[0] = carried
            totals[block] = carried + value
            cuda.threadfence()
            cuda.atomic.exch(ready, block, 1)
        cuda.syncwarp()
        y[cuda.grid(1)] = before[0] + value

    return scan


@correct_kernel(
    grid=6,
    block=1,
    inputs=[ROWS],
    scratch=[ZERO],
    outputs=[np.zeros(32, np.float32)],
    expected=lambda x: x.sum(axis=0),
    cuda=False,
)
def spin_lock():
    """A lock taken by compare-and-swap, with a fence after it and one before it is given back."""

    @cuda.jit
    def locked_sums(x, lock, y):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        for column in range(x.shape[1]):
            y[column] += x[cuda.blockIdx.x, column]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)

    return locked_sums


@correct_kernel(
    grid=6,
    block=32,
    inputs=[ROWS],
    scratch=[np.zeros(2, np.int32)],
    outputs=[np.zeros(32, np.float32)],
    expected=lambda x: x.sum(axis=0),
    cuda=False,
)
def ticket_lock():
    """Blocks draw a number and are served in its order; all threads of the block add while it is served."""

    @cuda.jit
    def served_sums(x, numbers, y):
        i = cuda.threadIdx.x
        if i == 0:
            mine = cuda.atomic.add(numbers, 0, 1)
            while cuda.atomic.add(numbers, 1, 0) != mine:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        y[i] += x[cuda.blockIdx.x, i]
        cuda.syncthreads()
        if i == 0:
            cuda.threadfence()
            cuda.atomic.add(numbers, 1, 1)

    return served_sums


@correct_kernel(
    grid=6,
    block=32,
    inputs=[ROWS],
    scratch=[ZERO],
    outputs=[np.zeros(32, np.float32)],
    expected=lambda x: x.sum(axis=0),
    cuda=False,
)
def split_sum_in_block_order():
    """Shares are added in the order of the blocks, so that the result never varies: a semaphore that counts."""

    @cuda.jit
    def ordered_sums(x, turn, y):
        block, i = cuda.blockIdx.x, cuda.threadIdx.x
        if i == 0:
            while cuda.atomic.cas(turn, 0, block, block) != block:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        y[31 - i] += x[block, 31 - i]
        cuda.syncthreads()
        if i == 0:
            cuda.threadfence()
            cuda.atomic.exch(turn, 0, block + 1)

    return ordered_sums


@correct_kernel(
    grid=5,
    block=32,
    inputs=[VALUES],
    outputs=[np.full(1, -1, np.int64)],
    expected=lambda x: np.array([1000 * x.max() + 999 - np.argmax(x)]),
)
def maximum_and_its_place():
    """Value and place packed into one integer, and its maximum taken by atomics alone."""

    @cuda.jit
    def argmax(x, y):
        i = cuda.grid(1)
        cuda.atomic.max(y, 0, np.int64(1000) * x[i] + 999 - i)

    return argmax


@correct_kernel(
    grid=5,
    block=32,
    inputs=[VALUES % 7],
    scratch=[np.zeros(7, np.int32)],
    outputs=[np.zeros((7, 160), np.int32)],
    expected=lambda x: np.stack([np.arange(160) < np.count_nonzero(x == k) for k in range(7)]).astype(np.int32),
)
def slots_drawn_by_atomics():
    """Each thread draws a slot of its key by an atomic and writes into that slot alone."""

    @cuda.jit
    def scatter(x, counts, y):
        i = cuda.grid(1)
        slot = cuda.atomic.add(counts, x[i], 1)
        y[x[i], slot] = 1

    return scatter


@correct_kernel(
    grid=5,
    block=32,
    inputs=[VALUES.astype(np.float32)],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: x.sum(keepdims=True),
)
def one_atomic_per_warp():
    """A butterfly of shuffles within the warp, one atomic of its first lane."""

    @cuda.jit
    def total(x, y):
        value = x[cuda.grid(1)]
        for k in range(5):
            value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
        if cuda.threadIdx.x % 32 == 0:
            cuda.atomic.add(y, 0, value)

    return total


@correct_kernel(
    grid=3, block=64, inputs=[VALUES], scratch=[ZERO], outputs=[Unset(160, np.int32)], expected=lambda x: x + 1
)
def blocks_that_draw_their_work():
    """Persistent blocks draw chunks from a counter; one slot broadcasts the chunk, with a barrier on either side."""

    @cuda.jit
    def add_one(x, drawn, y):
        chunk = cuda.shared.array(1, int32)
        i = cuda.threadIdx.x
        while True:
            if i == 0:
                chunk[0] = cuda.atomic.add(drawn, 0, 1)
            cuda.syncthreads()
            first = 64 * chunk[0]
            cuda.syncthreads()
            if first >= x.size:
                break
            if first + i < x.size:
                y[first + i] = x[first + i] + 1

    return add_one
