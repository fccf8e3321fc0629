"""Order that is passed on: through a third lane, a third block, a flag within a block, a ring of slots."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from . import Unset, correct_kernel, pair

RAMP = np.arange(1, 33, dtype=np.float32)
ZERO = np.zeros(1, np.int32)


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x[:1], cuda=False)
def third_lane_synchronised_too_early(fixed):
    """Lane 1 hands on to lane 2 what it has from lane 0, provided that it meets lane 0 first."""

    @cuda.jit
    def hand_on(x, y):
        cell = cuda.shared.array(1, float32)
        lane = cuda.threadIdx.x
        if lane == 0:
            cell[0] = x[0]  # other
            cuda.syncwarp(0b011)
        elif lane == 1:
            cuda.syncwarp(0b011 if fixed else 0b110)
            cuda.syncwarp(0b110 if fixed else 0b011)
        elif lane == 2:
            cuda.syncwarp(0b110)
            y[0] = cell[0]  # fault

    return hand_on


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(32)], expected=lambda x: x[np.arange(32) ^ 3])
def tiles_of_four_lanes(fixed):
    """Groups of four lanes synchronise among themselves; the partner is in the next group."""
    partner = 3 if fixed else 4

    @cuda.jit
    def exchange(x, y):
        tile = cuda.shared.array(32, float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]  # other
        cuda.syncwarp(0xF << (lane // 4 * 4))
        y[lane] = tile[lane ^ partner]  # fault

    return exchange


@pair(
    "race",
    "read-write",
    grid=3,
    block=1,
    inputs=[RAMP],
    scratch=[Unset(1), np.zeros(2, np.int32)],
    outputs=[Unset(1)],
    expected=lambda x: x[:1],
    cuda=False,
)
def middle_block_without_fences(fixed):
    """The second block passes the first one's flag on to the third, but not what the flag stands for."""

    @cuda.jit
    def relay(x, data, flags, y):
        block = cuda.blockIdx.x
        if block == 0:
            data[0] = x[0]  # other
            cuda.threadfence()
            cuda.atomic.exch(flags, 0, 1)
        elif block == 1:
            while cuda.atomic.add(flags, 0, 0) == 0:
                pass
            if fixed:
                cuda.threadfence()
            cuda.atomic.exch(flags, 1, 1)
        else:
            while cuda.atomic.add(flags, 1, 0) == 0:
                pass
            cuda.threadfence()
            y[0] = data[0]  # fault

    return relay


@pair("race", "read-write", block=64, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x[:1], cuda=False)
def shared_flag_without_fence(fixed):
    """One warp waits for another by an atomic flag in shared memory, with no fence around the data."""

    @cuda.jit
    def hand_over(x, y):
        data = cuda.shared.array(1, float32)
        flag = cuda.shared.array(1, int32)
        i = cuda.threadIdx.x
        if i == 0:
            flag[0] = 0
        cuda.syncthreads()
        if i == 0:
            data[0] = x[0]  # other
            if fixed:
                cuda.threadfence_block()
            cuda.atomic.exch(flag, 0, 1)
        elif i == 32:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence_block()
            y[0] = data[0]  # fault

    return hand_over


@correct_kernel(
    grid=2,
    block=1,
    inputs=[RAMP],
    scratch=[Unset(2), np.zeros(2, np.int32)],
    outputs=[Unset(32)],
    expected=lambda x: 2 * x,
    cuda=False,
)
def ring_between_two_blocks():
    """A ring of two slots: the producer waits for a slot that has been read, the consumer for one that is filled."""

    @cuda.jit
    def pass_through(x, ring, counts, y):
        if cuda.blockIdx.x == 0:
            for k in range(x.size):
                while cuda.atomic.add(counts, 1, 0) < k - 1:
                    pass
                cuda.threadfence()
                ring[k % 2] = x[k]
                cuda.threadfence()
                cuda.atomic.exch(counts, 0, k + 1)
        else:
            for k in range(x.size):
                while cuda.atomic.add(counts, 0, 0) < k + 1:
                    pass
                cuda.threadfence()
                y[k] = 2 * ring[k % 2]
                cuda.threadfence()
                cuda.atomic.exch(counts, 1, k + 1)

    return pass_through


@correct_kernel(block=32, inputs=[RAMP], outputs=[Unset(32)], expected=lambda x: x[::-1] + 1)
def loads_and_stores_with_cache_hints():
    """Loads and stores that name a cache level are ordered like plain ones."""

    @cuda.jit
    def reverse(x, y):
        i = cuda.threadIdx.x
        cuda.stcg(y, i, cuda.ldcg(x, 31 - i))
        cuda.syncthreads()
        y[31 - i] = cuda.ldca(y, 31 - i) + 1

    return reverse


@correct_kernel(
    grid=4,
    block=32,
    inputs=[RAMP],
    scratch=[np.zeros(4, np.float32), ZERO],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: 4 * x.sum(keepdims=True),
)
def atomics_then_a_plain_read_by_the_last():
    """Shares are added by atomics, and the block that draws the last ticket reads them plainly."""

    @cuda.jit
    def total(x, shares, tickets, y):
        i = cuda.threadIdx.x
        cuda.atomic.add(shares, i % 4, x[i])
        cuda.syncthreads()
        if i == 0:
            cuda.threadfence()
            if cuda.atomic.add(tickets, 0, 1) == cuda.gridDim.x - 1:
                cuda.threadfence()
                y[0] = shares[0] + shares[1] + shares[2] + shares[3]

    return total
