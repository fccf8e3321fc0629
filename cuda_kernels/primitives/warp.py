"""Reductions over the 32 lanes of a warp by shuffles, the result in every lane.

All 32 lanes must call, and call the same function: blockDim is a multiple of 32 (over all axes), and no lane has left.
Shuffles order no memory: what lanes wrote before is visible to the others only after `cuda.syncwarp()`.
Each step costs one shuffle for each value carried, and there are five.
"""

from __future__ import annotations

from numba import cuda

from .moments import join_moments

WARP = 32
FULL_MASK = 0xFFFFFFFF


@cuda.jit(device=True)
def warp_sum(value):
    """The sum of `value` (float32, float64, int32 or int64) over the warp, in every lane the same bits; 5 shuffles."""
    for bit in range(5):
        value += cuda.shfl_xor_sync(FULL_MASK, value, 16 >> bit)
    return value


@cuda.jit(device=True)
def warp_max(value):
    """The largest `value` (float32, float64, int32 or int64) over the warp, in every lane; NaN wins; 5 shuffles.

    +0 and -0 are equal: which of them a lane gets is its own choice.
    """
    for bit in range(5):
        other = cuda.shfl_xor_sync(FULL_MASK, value, 16 >> bit)
        if other > value or other != other:
            value = other
    return value


@cuda.jit(device=True)
def comes_first(value_a, index_a, value_b, index_b):
    """Whether a stands before b in an argmax as NumPy's: NaN before numbers, the larger first, then the lower index."""
    a_is_nan, b_is_nan = value_a != value_a, value_b != value_b
    if value_a == value_b or (a_is_nan and b_is_nan):
        return index_a < index_b
    return a_is_nan or (not b_is_nan and value_a > value_b)


@cuda.jit(device=True)
def warp_argmax(value, index):
    """(largest value, its index) over the warp, in every lane; the lowest index among equals, NaN first, as NumPy.

    value: float32, float64, int32 or int64; index: int32 or int64. A lane that has nothing to offer passes -inf and an
    index above all others. 10 shuffles.
    """
    for bit in range(5):
        other_value = cuda.shfl_xor_sync(FULL_MASK, value, 16 >> bit)
        other_index = cuda.shfl_xor_sync(FULL_MASK, index, 16 >> bit)
        if comes_first(other_value, other_index, value, index):
            value, index = other_value, other_index
    return value, index


@cuda.jit(device=True)
def warp_moments(count, mean, squares):
    """Count, mean and sum of squared deviations (float32) over the warp, in every lane the same bits; 15 shuffles."""
    for bit in range(5):
        offset = 16 >> bit
        other_count = cuda.shfl_xor_sync(FULL_MASK, count, offset)
        other_mean = cuda.shfl_xor_sync(FULL_MASK, mean, offset)
        other_squares = cuda.shfl_xor_sync(FULL_MASK, squares, offset)
        # Joining is not symmetric in its rounding: both lanes put the lower lane's set first.
        if cuda.laneid & offset:
            count, mean, squares = join_moments(other_count, other_mean, other_squares, count, mean, squares)
        else:
            count, mean, squares = join_moments(count, mean, squares, other_count, other_mean, other_squares)
    return count, mean, squares
