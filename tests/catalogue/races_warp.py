"""Races between lanes of one warp: nothing but `syncwarp` orders them."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from . import Unset, pair

FULL = 0xFFFFFFFF
RAMP = np.arange(32, dtype=np.float32)


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x.sum(keepdims=True))
def reduction_tail_without_syncwarp(fixed):
    """c09: the last 32 partial sums are added up through shared memory as if the lanes ran in step."""

    @cuda.jit
    def warp_sum(x, y):
        tile = cuda.shared.array(32, float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]
        cuda.syncwarp()
        step = 16
        while step > 0:
            if lane < step:
                tile[lane] += tile[lane + step]  # fault
            if fixed:
                cuda.syncwarp()
            step //= 2
        if lane == 0:
            y[0] = tile[0]

    return warp_sum


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(32)], expected=lambda x: x[::-1] + 31 - x)
def shuffle_taken_for_a_barrier(fixed):
    """A shuffle exchanges registers and orders no memory."""

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(32, float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]  # other
        partner = cuda.shfl_xor_sync(FULL, x[lane], 31)
        if fixed:
            cuda.syncwarp()
        y[lane] = tile[31 - lane] + partner  # fault

    return reverse


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(32)], expected=lambda x: x[::-1])
def half_warps_synchronised_apart(fixed):
    """Each half of the warp synchronises within itself and reads what the other half wrote."""
    half = 0 if fixed else 0xFFFF

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(32, float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]  # other
        mask = FULL
        if half:
            mask = half if lane < 16 else FULL ^ half
        cuda.syncwarp(mask)
        y[lane] = tile[31 - lane]  # fault

    return reverse


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(32)], expected=lambda x: np.roll(x, -1))
def lanes_exchange_through_a_tile(fixed):
    """Neighbouring lanes of one warp, with no implicit order between them."""

    @cuda.jit
    def rotate(x, y):
        tile = cuda.shared.array(32, float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]  # other
        if fixed:
            cuda.syncwarp()
        y[lane] = tile[(lane + 1) % 32]  # fault

    return rotate


@pair(
    "race",
    "read-write",
    block=32,
    inputs=[RAMP],
    scratch=[Unset(32)],
    outputs=[Unset(32)],
    expected=lambda x: x[::-1],
)
def lanes_exchange_through_global(fixed):
    """Lanes of one warp pass values through global memory, where a store is no sooner seen than in shared memory."""

    @cuda.jit
    def reverse(x, scratch, y):
        lane = cuda.threadIdx.x
        scratch[lane] = x[lane]  # other
        if fixed:
            cuda.syncwarp()
        y[lane] = scratch[31 - lane]  # fault

    return reverse


@pair("race", "write-write", block=32, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x[-1:])
def divergent_lanes_write_one_cell(fixed):
    """Two branches of one warp store into the same cell; which one comes last is open."""

    @cuda.jit
    def last(x, y):
        cell = cuda.shared.array(1, float32)
        lane = cuda.threadIdx.x
        if lane == 0:
            cell[0] = x[0]  # other
        if fixed:
            cuda.syncwarp()
        if lane == 31:
            cell[0] = x[31]  # fault
        cuda.syncwarp()
        if lane == 0:
            y[0] = cell[0]

    return last


@pair("race", "read-write", block=32, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x.sum(keepdims=True))
def ballot_taken_for_a_barrier(fixed):
    """A vote tells the leader that all lanes have arrived; what they stored is not thereby visible."""

    @cuda.jit
    def leader_sum(x, y):
        tile = cuda.shared.array(32, float32)
        lane = cuda.threadIdx.x
        tile[lane] = x[lane]  # other
        arrived = cuda.ballot_sync(FULL, True)
        if fixed:
            cuda.syncwarp()
        if lane == 0:
            total = float32(0)
            for k in range(cuda.popc(arrived)):
                total += tile[k]  # fault
            y[0] = total

    return leader_sum
