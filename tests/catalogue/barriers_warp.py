"""Warp operations whose mask names the wrong lanes: shuffles, votes, matches and `syncwarp`."""

from __future__ import annotations

import numpy as np
from numba import cuda

from . import Unset, pair

FULL = 0xFFFFFFFF
LOW = 0x0000FFFF
RAMP = np.arange(32, dtype=np.int32)
WAVE = (np.arange(32) * 5 % 7).astype(np.int32)


@pair(
    "barrier",
    "not-in-own-mask",
    block=32,
    inputs=[RAMP],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: x[np.arange(32) ^ 16] + x,
)
def shuffle_mask_of_five_bits(fixed):
    """c10: the mask says 0x1f where all 32 lanes take part: the number of the last lane, not a bit per lane."""
    mask = FULL if fixed else 0x1F

    @cuda.jit
    def add_partner(x, y):
        lane = cuda.threadIdx.x
        y[lane] = x[lane] + cuda.shfl_xor_sync(mask, x[lane], 16)  # fault

    return add_partner


@pair(
    "barrier",
    "reads-absent-lane",
    block=32,
    inputs=[RAMP[:20]],
    outputs=[np.zeros(20, np.int32)],
    expected=lambda x: np.append(x[1:], x[-1:]),
)
def shuffle_from_lanes_that_returned(fixed):
    """Lanes past the end return, and the last lane left reads its neighbour's register."""

    @cuda.jit
    def shift(x, y):
        lane = cuda.threadIdx.x
        if lane >= x.size and not fixed:
            return
        value = x[min(lane, x.size - 1)]
        right = cuda.shfl_down_sync(FULL, value, 1)  # fault
        if lane < x.size:
            y[lane] = right

    return shift


@pair(
    "barrier",
    "reads-absent-lane",
    block=32,
    inputs=[RAMP],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.append(np.minimum(x[:16] + 8, 31), x[16:]),
)
def shuffle_from_outside_the_mask(fixed):
    """Sixteen lanes shuffle among themselves, and half of them read from lanes that the mask does not name."""

    @cuda.jit
    def shift(x, y):
        lane = cuda.threadIdx.x
        y[lane] = x[lane]
        if fixed:
            right = cuda.shfl_down_sync(FULL, x[lane], 8)
            if lane < 16:
                y[lane] = right
        elif lane < 16:
            y[lane] = cuda.shfl_down_sync(LOW, x[lane], 8)  # fault

    return shift


@pair(
    "barrier",
    "reads-absent-lane",
    block=32,
    inputs=[WAVE],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.where(x > 2, x[np.flatnonzero(x > 2)[0]], x),
)
def broadcast_from_lane_zero_of_a_subset(fixed):
    """The lanes that hold a large value take lane 0 for their leader, which is not among them."""

    @cuda.jit
    def leader_value(x, y):
        lane = cuda.threadIdx.x
        value = x[lane]
        mask = cuda.ballot_sync(FULL, value > 2)
        y[lane] = value
        if value > 2:
            leader = cuda.ffs(mask) - 1 if fixed else 0
            y[lane] = cuda.shfl_sync(mask, value, leader)  # fault

    return leader_value


@pair(
    "barrier",
    "not-in-own-mask",
    block=32,
    inputs=[WAVE],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.full(32, (1 << np.flatnonzero(x > 2)).sum(), np.uint32).astype(np.int32),
)
def own_lane_missing_from_a_ballot(fixed):
    """Every lane votes, and the mask leaves out lane 0."""
    mask = FULL if fixed else FULL - 1

    @cuda.jit
    def large(x, y):
        lane = cuda.threadIdx.x
        y[lane] = cuda.ballot_sync(mask, x[lane] > 2)  # fault

    return large


@pair(
    "barrier",
    "not-in-own-mask",
    block=32,
    inputs=[WAVE],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.array([np.count_nonzero(x == v) for v in x], np.int32),
)
def match_names_half_of_its_callers(fixed):
    """All lanes look for equal values, and the mask names the lower half."""
    mask = FULL if fixed else LOW

    @cuda.jit
    def equal_count(x, y):
        lane = cuda.threadIdx.x
        y[lane] = cuda.popc(cuda.match_any_sync(mask, x[lane]))  # fault

    return equal_count


@pair(
    "barrier",
    "not-in-own-mask",
    block=32,
    inputs=[RAMP],
    scratch=[Unset(32, np.int32)],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: x[::-1],
)
def syncwarp_without_its_caller(fixed):
    """All lanes call `syncwarp` with the mask of the lower half."""
    mask = FULL if fixed else LOW

    @cuda.jit
    def reverse(x, scratch, y):
        lane = cuda.threadIdx.x
        scratch[lane] = x[lane]
        cuda.syncwarp(mask)  # fault
        y[lane] = scratch[31 - lane]

    return reverse


@pair(
    "barrier",
    "mask-disagrees",
    block=32,
    inputs=[RAMP],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: x[np.arange(32) ^ 1],
    cuda=False,
)
def masks_of_two_halves_disagree(fixed):
    """The lower half names itself and one lane too many, which names all lanes in turn."""

    @cuda.jit
    def exchange(x, y):
        lane = cuda.threadIdx.x
        mask = FULL
        if lane < 16 and not fixed:
            mask = LOW + (1 << 16)
        y[lane] = cuda.shfl_xor_sync(mask, x[lane], 1)  # fault

    return exchange


@pair(
    "barrier",
    "mask-disagrees",
    block=32,
    inputs=[WAVE],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.full(32, np.any(x > 5), np.int32),
    cuda=False,
)
def mask_computed_per_lane(fixed):
    """Every lane names itself and its two neighbours, so that no two masks agree."""

    @cuda.jit
    def any_large(x, y):
        lane = cuda.threadIdx.x
        mask = FULL if fixed else ((7 << lane) >> 1) & FULL
        y[lane] = 1 if cuda.any_sync(mask, x[lane] > 5) else 0  # fault

    return any_large


@pair(
    "barrier",
    "deadlock",
    block=32,
    inputs=[WAVE],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.append(np.full(16, np.any(x[:16] > 5)), np.zeros(16)).astype(np.int32),
    cuda=False,
)
def vote_in_divergent_code(fixed):
    """Half of the warp votes with a mask of all lanes, and the other half waits at the block's barrier."""
    mask = LOW if fixed else FULL

    @cuda.jit
    def any_large(x, y):
        lane = cuda.threadIdx.x
        y[lane] = 0
        if lane < 16:
            y[lane] = 1 if cuda.any_sync(mask, x[lane] > 5) else 0  # fault
        cuda.syncthreads()  # other

    return any_large


@pair("barrier", "deadlock", block=32, inputs=[RAMP], outputs=[Unset(32, np.int32)], expected=lambda x: x, cuda=False)
def syncwarp_that_never_completes(fixed):
    """`syncwarp` in a branch names lanes that already wait at the block's barrier."""
    mask = LOW if fixed else FULL

    @cuda.jit
    def copy(x, y):
        lane = cuda.threadIdx.x
        y[lane] = x[lane]
        if lane < 16:
            cuda.syncwarp(mask)  # fault
        cuda.syncthreads()  # other

    return copy


@pair(
    "barrier",
    "deadlock",
    block=32,
    inputs=[WAVE],
    outputs=[Unset(32, np.int32)],
    expected=lambda x: np.append(np.full(16, np.any(x[:16] > 5)), np.full(16, np.all(x[16:] > 5))).astype(np.int32),
    cuda=False,
)
def two_votes_wait_for_each_other(fixed):
    """One half asks for any and the other for all, both with a mask of the whole warp."""
    low, high = (LOW, FULL ^ LOW) if fixed else (FULL, FULL)

    @cuda.jit
    def votes(x, y):
        lane = cuda.threadIdx.x
        if lane < 16:
            y[lane] = 1 if cuda.any_sync(low, x[lane] > 5) else 0  # fault
        else:
            y[lane] = 1 if cuda.all_sync(high, x[lane] > 5) else 0  # other

    return votes


@pair(
    "barrier",
    "deadlock",
    block=64,
    inputs=[np.arange(64, dtype=np.int32)],
    outputs=[Unset(64, np.int32)],
    expected=lambda x: x ^ 1,
    cuda=False,
)
def shuffle_names_lanes_at_a_barrier(fixed):
    """The lower half of each warp shuffles with a full mask, and the upper half shuffles behind the next barrier."""
    mask = FULL if not fixed else LOW

    @cuda.jit
    def exchange(x, y):
        i = cuda.threadIdx.x
        lane = i % 32
        if lane < 16:
            y[i] = cuda.shfl_xor_sync(mask, x[i], 1)  # fault
        cuda.syncthreads()  # other
        if lane >= 16:
            y[i] = cuda.shfl_xor_sync(FULL ^ LOW, x[i], 1)

    return exchange
