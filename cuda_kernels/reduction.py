"""Sums over a warp and over a block, given to every thread in the same bits."""

from __future__ import annotations

from numba import cuda, float32

WARP = 32
FULL_MASK = 0xFFFFFFFF


@cuda.jit(device=True)
def warp_sum(value):
    """The sum of `value` over the 32 lanes, in every lane; all 32 must call."""
    for bit in range(5):
        value += cuda.shfl_xor_sync(FULL_MASK, value, 16 >> bit)
    return value


@cuda.jit(device=True)
def block_sum(value):
    """The sum of `value` over the block, in every thread; all threads must call, blockDim is (32 n, 1, 1)."""
    warp_totals = cuda.shared.array(WARP, float32)
    value = warp_sum(value)
    if cuda.threadIdx.x % WARP == 0:
        warp_totals[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    total = float32(0)
    for warp in range(cuda.blockDim.x // WARP):
        total += warp_totals[warp]
    cuda.syncthreads()  # the slots serve the next call too
    return total
