"""Correct kernels of real style with warp operations: shuffles, votes, matches, `syncwarp`."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from . import Unset, correct_kernel

FULL = 0xFFFFFFFF
RNG = np.random.default_rng(2)
ROWS = RNG.integers(-8, 9, (6, 70)).astype(np.float32)
VALUES = RNG.integers(0, 1000, 128).astype(np.int32)


@correct_kernel(block=128, inputs=[VALUES], outputs=[Unset(128, np.int32)], expected=np.cumsum)
def block_scan():
    """An inclusive scan: within each warp by shuffles, over the warps through shared memory."""

    @cuda.jit
    def scan(x, y):
        totals = cuda.shared.array(4, int32)
        i = cuda.threadIdx.x
        warp, lane = i // 32, i % 32
        value = x[i]
        for k in range(5):
            left = cuda.shfl_up_sync(FULL, value, 1 << k)
            if lane >= 1 << k:
                value += left
        if lane == 31:
            totals[warp] = value
        cuda.syncthreads()
        for w in range(warp):
            value += totals[w]
        y[i] = value

    return scan


@correct_kernel(grid=6, block=32, inputs=[ROWS], outputs=[Unset(6)], expected=lambda x: x.sum(axis=1))
def warp_sum_of_each_row():
    """One warp per row, a strided loop, and a butterfly of shuffles."""

    @cuda.jit
    def row_sums(x, y):
        row, lane = cuda.blockIdx.x, cuda.threadIdx.x
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for k in range(5):
            total += cuda.shfl_xor_sync(FULL, total, 1 << k)
        if lane == 0:
            y[row] = total

    return row_sums


@correct_kernel(block=64, inputs=[VALUES[:64]], outputs=[Unset(1, np.int32)], expected=lambda x: x.sum(keepdims=True))
def tree_reduction_with_a_warp_tail():
    """A tree of block barriers down to one warp, then `syncwarp` between read and write."""

    @cuda.jit
    def total(x, y):
        tile = cuda.shared.array(64, int32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        if i < 32:
            value = tile[i] + tile[i + 32]
            cuda.syncwarp()
            tile[i] = value
            cuda.syncwarp()
            step = 16
            while step > 0:
                value += tile[(i + step) % 32]
                cuda.syncwarp()
                tile[i] = value
                cuda.syncwarp()
                step //= 2
            if i == 0:
                y[0] = value

    return total


@correct_kernel(block=32, inputs=[VALUES[:20]], outputs=[Unset(20, np.int32)], expected=lambda x: np.roll(x, -1))
def syncwarp_of_the_lanes_that_stay():
    """Lanes past the end return; those that stay name themselves alone in every mask."""

    @cuda.jit
    def rotate(x, y):
        tile = cuda.shared.array(32, int32)
        lane = cuda.threadIdx.x
        mask = cuda.ballot_sync(FULL, lane < x.size)
        if lane >= x.size:
            return
        tile[lane] = x[lane]
        cuda.syncwarp(mask)
        y[lane] = cuda.shfl_sync(mask, tile[lane], (lane + 1) % x.size)

    return rotate


@correct_kernel(
    block=64,
    inputs=[VALUES[:64]],
    outputs=[np.full(64, -1, np.int32), np.zeros(1, np.int32)],
    expected=lambda x: (np.append(np.flatnonzero(x % 3 == 0), np.full(64, -1))[:64], np.array([np.sum(x % 3 == 0)])),
)
def stream_compaction():
    """Positions of the multiples of three, in order: a ballot per warp, offsets over the warps."""

    @cuda.jit
    def compact(x, y, count):
        totals = cuda.shared.array(2, int32)
        i = cuda.threadIdx.x
        warp, lane = i // 32, i % 32
        chosen = x[i] % 3 == 0
        mask = cuda.ballot_sync(FULL, chosen)
        if lane == 0:
            totals[warp] = cuda.popc(mask)
        cuda.syncthreads()
        offset = totals[0] if warp == 1 else 0
        if chosen:
            y[offset + cuda.popc(mask & ((1 << lane) - 1))] = i
        if i == 63:
            count[0] = totals[0] + totals[1]

    return compact


@correct_kernel(
    block=32,
    inputs=[VALUES[:32] % 6],
    outputs=[np.zeros(6, np.int32)],
    expected=lambda x: np.bincount(x, minlength=6),
)
def histogram_aggregated_by_match():
    """Lanes with equal keys elect a leader, which counts them with one plain addition of its own."""

    @cuda.jit
    def histogram(x, y):
        lane = cuda.threadIdx.x
        peers = cuda.match_any_sync(FULL, x[lane])
        if cuda.ffs(peers) - 1 == lane:
            y[x[lane]] += cuda.popc(peers)

    return histogram


@correct_kernel(
    grid=6, block=64, inputs=[ROWS], outputs=[Unset((6, 70))], expected=lambda x: x - x.max(axis=1, keepdims=True)
)
def row_maximum_subtracted():
    """Warp maxima by shuffles, one broadcast slot, and a row that is no multiple of the block."""

    @cuda.jit
    def subtract_maximum(x, y):
        warp_best = cuda.shared.array(2, float32)
        row, i = cuda.blockIdx.x, cuda.threadIdx.x
        best = float32(-np.inf)
        for column in range(i, x.shape[1], 64):
            best = max(best, x[row, column])
        for k in range(5):
            best = max(best, cuda.shfl_xor_sync(FULL, best, 1 << k))
        if i % 32 == 0:
            warp_best[i // 32] = best
        cuda.syncthreads()
        best = max(warp_best[0], warp_best[1])
        for column in range(i, x.shape[1], 64):
            y[row, column] = x[row, column] - best

    return subtract_maximum


@correct_kernel(
    block=64, inputs=[VALUES[:64]], outputs=[Unset(64, np.int32)], expected=lambda x: x.reshape(2, 32)[:, ::-1].ravel()
)
def warps_of_their_own():
    """Each warp works on its own half of a shared tile and needs only `syncwarp`, a differing number of times."""

    @cuda.jit
    def reverse_in_warps(x, y):
        tile = cuda.shared.array(64, int32)
        i = cuda.threadIdx.x
        warp, lane = i // 32, i % 32
        value = x[i]
        for _ in range(1 + 2 * warp):
            tile[i] = value
            cuda.syncwarp()
            value = tile[32 * warp + 31 - lane]
            cuda.syncwarp()
        y[i] = value

    return reverse_in_warps
