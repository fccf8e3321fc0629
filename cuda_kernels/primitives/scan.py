"""Prefix sums over a warp and over a block, of float32, int32 or int64; the order of additions is fixed.

All lanes, or all threads, must call the same function: blockDim is a multiple of 32, for a block (32 n, 1, 1).
"""

from __future__ import annotations

from typing import Any

from numba import cuda
from numba.cuda import types
from numba.cuda.core.errors import TypingError
from numba.cuda.extending import overload

from .warp import FULL_MASK, WARP


@cuda.jit(device=True)
def warp_inclusive_sum(value):
    """The sum of `value` over the lanes up to and with this one; 5 shuffles."""
    for bit in range(5):
        offset = 1 << bit
        before = cuda.shfl_up_sync(FULL_MASK, value, offset)
        if cuda.laneid >= offset:
            value += before
    return value


def block_exclusive_sum(value: Any) -> Any:
    """(sum of `value` over the threads before this one, sum over the block); for kernels alone.

    float32, int32 or int64, both results of that type; the sum over the block has the same bits in every thread. Six
    shuffles, two barriers, and one read of shared memory for each warp; 32 elements of shared memory.
    """
    raise TypeError(f"block_exclusive_sum({value!r}) was called on the host: it is a device function")


@overload(block_exclusive_sum)
def _block_exclusive_sum(value: Any) -> Any:
    if value not in (types.float32, types.int32, types.int64):
        raise TypingError(f"block_exclusive_sum takes float32, int32 or int64, got {value}")
    kind: Any = value

    def sums(value: Any) -> Any:  # Numba asks for the same annotations as above
        totals = cuda.shared.array(WARP, kind)
        lane, own_warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
        with_own = warp_inclusive_sum(value)
        before = cuda.shfl_up_sync(FULL_MASK, with_own, 1)  # not with_own - value, which rounds
        if lane == WARP - 1:
            totals[own_warp] = with_own
        if lane == 0:
            before = kind(0)
        cuda.syncthreads()
        warps_before, total = kind(0), kind(0)
        for warp in range(cuda.blockDim.x // WARP):
            if warp == own_warp:
                warps_before = total
            total = kind(total + totals[warp])
        cuda.syncthreads()  # the slots serve the next call too
        return kind(warps_before + before), total

    return sums
