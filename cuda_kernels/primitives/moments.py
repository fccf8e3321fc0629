"""Moments of two sets of numbers joined (Chan, Golub and LeVeque, 1979): one thread for itself, no memory."""

from __future__ import annotations

from numba import cuda, float32


@cuda.jit(device=True)
def join_moments(count_a, mean_a, squares_a, count_b, mean_b, squares_b):
    """Count, mean and sum of squared deviations from the mean of two sets together, float32; a set may be empty.

    Ten operations, one of them a division. The mean carries an error of its own size: where the mean is large against
    the deviations, take a pivot off the numbers first.
    """
    count = count_a + count_b
    share = count_b / count if count > float32(0) else float32(0)
    delta = mean_b - mean_a
    return count, mean_a + delta * share, squares_a + squares_b + delta * delta * count_a * share
