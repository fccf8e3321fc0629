"""Reductions over a block: shuffles within each warp, shared memory between the warps; the result in every thread.

All threads of the block must call, and call the same function: blockDim is (32 n, 1, 1) with n up to 32. Every thread
reads the warps' results in the same order, so that all get the same bits. Each call has two barriers, the second of
which frees the shared memory for the next call; between them each thread reads one slot for each warp.
"""

from __future__ import annotations

from numba import cuda, float32, int64

from .moments import join_moments
from .warp import WARP, comes_first, warp_argmax, warp_max, warp_moments, warp_sum


@cuda.jit(device=True)
def block_sum(value):
    """The sum of `value` (float32) over the block, in every thread; 128 bytes of shared memory."""
    totals = cuda.shared.array(WARP, float32)
    value = warp_sum(value)
    if cuda.threadIdx.x % WARP == 0:
        totals[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    total = float32(0)
    for warp in range(cuda.blockDim.x // WARP):
        total += totals[warp]
    cuda.syncthreads()  # the slots serve the next call too
    return total


@cuda.jit(device=True)
def block_max(value):
    """The largest `value` (float32) over the block, in every thread; NaN wins; 128 bytes of shared memory."""
    largest = cuda.shared.array(WARP, float32)
    value = warp_max(value)
    if cuda.threadIdx.x % WARP == 0:
        largest[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    value = largest[0]
    for warp in range(1, cuda.blockDim.x // WARP):
        other = largest[warp]
        if other > value or other != other:
            value = other
    cuda.syncthreads()
    return value


@cuda.jit(device=True)
def block_argmax(value, index):
    """(largest value, its index) over the block, in every thread; the lowest index among equals, NaN first, as NumPy.

    value: float32; index: int32 or int64, returned as int64. A thread that has nothing to offer passes -inf and an
    index above all others. 384 bytes of shared memory.
    """
    values = cuda.shared.array(WARP, float32)
    indices = cuda.shared.array(WARP, int64)
    value, index = warp_argmax(value, index)
    if cuda.threadIdx.x % WARP == 0:
        values[cuda.threadIdx.x // WARP] = value
        indices[cuda.threadIdx.x // WARP] = index
    cuda.syncthreads()
    first_value, first_index = values[0], indices[0]
    for warp in range(1, cuda.blockDim.x // WARP):
        if comes_first(values[warp], indices[warp], first_value, first_index):
            first_value, first_index = values[warp], indices[warp]
    cuda.syncthreads()
    return first_value, first_index


@cuda.jit(device=True)
def block_moments(count, mean, squares):
    """Count, mean and sum of squared deviations (float32) over the block, in every thread; 384 bytes shared."""
    moments = cuda.shared.array((3, WARP), float32)
    count, mean, squares = warp_moments(count, mean, squares)
    if cuda.threadIdx.x % WARP == 0:
        warp = cuda.threadIdx.x // WARP
        moments[0, warp], moments[1, warp], moments[2, warp] = count, mean, squares
    cuda.syncthreads()
    count, mean, squares = moments[0, 0], moments[1, 0], moments[2, 0]
    for warp in range(1, cuda.blockDim.x // WARP):
        count, mean, squares = join_moments(count, mean, squares, moments[0, warp], moments[1, warp], moments[2, warp])
    cuda.syncthreads()
    return count, mean, squares
