"""The two numbers of a row that softmax needs, in one pass: its maximum m and s = sum exp(x - m).

A new maximum rescales the sum so far (Milakov and Gimelshein, arXiv 1805.02867); two parts of a row are joined the same
way. Between the passes over a row of C numbers a kernel keeps two registers instead of C.

An infinite maximum counts: s is then how often it occurs, so that m + log s is the log-sum-exp of every row (-inf for
nothing but -inf, +inf with a +inf). m is never NaN; s is, once there was a NaN. `normaliser` gives 1/s, and NaN where
softmax is NaN.
"""

from __future__ import annotations

import math

from numba import cuda, float32

from .primitives.warp import FULL_MASK, WARP

NO_MAXIMUM = float32(-math.inf)


@cuda.jit(device=True)
def extended(m, s, value):
    """(m, s), float32, with one more number of the row: one exponential, none for a number equal to m."""
    if value > m:
        return value, s * math.exp(m - value) + float32(1)
    if value == m:
        return m, s + float32(1)
    return m, s + math.exp(value - m)


@cuda.jit(device=True)
def joined(m_a, s_a, m_b, s_b):
    """(m, s), float32, of two parts of a row, either of which may be empty (-inf, 0); symmetric to the last bit."""
    if m_b > m_a:
        return m_b, s_a * math.exp(m_a - m_b) + s_b
    if m_b == m_a:
        return m_a, s_a + s_b
    return m_a, s_b * math.exp(m_b - m_a) + s_a


@cuda.jit(device=True)
def warp_joined(m, s):
    """(m, s) over the warp, in every lane the same bits; all 32 lanes must call; 10 shuffles."""
    for bit in range(5):
        other_m = cuda.shfl_xor_sync(FULL_MASK, m, 16 >> bit)
        other_s = cuda.shfl_xor_sync(FULL_MASK, s, 16 >> bit)
        m, s = joined(m, s, other_m, other_s)
    return m, s


@cuda.jit(device=True)
def block_joined(m, s):
    """(m, s) over the block, in every thread the same bits; all threads must call, blockDim is (32 n, 1, 1).

    256 bytes of shared memory, two barriers.
    """
    parts = cuda.shared.array((2, WARP), float32)
    m, s = warp_joined(m, s)
    if cuda.threadIdx.x % WARP == 0:
        parts[0, cuda.threadIdx.x // WARP] = m
        parts[1, cuda.threadIdx.x // WARP] = s
    cuda.syncthreads()
    m, s = parts[0, 0], parts[1, 0]
    for warp in range(1, cuda.blockDim.x // WARP):
        m, s = joined(m, s, parts[0, warp], parts[1, warp])
    cuda.syncthreads()  # the slots serve the next call too
    return m, s


@cuda.jit(device=True)
def normaliser(m, s):
    """1 / s, what exp(x - m) is multiplied by; NaN where the row has a +inf."""
    return float32(1) / s if m < float32(math.inf) else float32(math.nan)


@cuda.jit(device=True)
def log_sum(m, s):
    """log s, what x - m is less to be the logarithm of softmax; NaN where the row has a +inf."""
    return math.log(s) if m < float32(math.inf) else float32(math.nan)
