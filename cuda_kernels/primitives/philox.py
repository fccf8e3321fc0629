"""Philox4x32-10, random bits as a function of a counter and a key (Salmon, Moraes, Dror and Shaw, SC 2011).

Integer arithmetic alone: the same bits on every machine and in every launch shape. Each thread acts for itself; there
is no state to keep, so that a backward pass makes the numbers of the forward pass again.
"""

from __future__ import annotations

from numba import cuda, float32, uint32, uint64

MULTIPLIER_0, MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
WEYL_0, WEYL_1 = 0x9E3779B9, 0xBB67AE85  # added to the key before each round but the first


@cuda.jit(device=True)
def philox4x32(counter_0, counter_1, counter_2, counter_3, key_0, key_1):
    """Four uint32 of random bits from a counter of four uint32 and a key of two; 20 wide multiplications."""
    c0, c1, c2, c3 = uint32(counter_0), uint32(counter_1), uint32(counter_2), uint32(counter_3)
    k0, k1 = uint32(key_0), uint32(key_1)
    for _ in range(10):
        product_0 = uint64(MULTIPLIER_0) * uint64(c0)
        product_1 = uint64(MULTIPLIER_1) * uint64(c2)
        c0 = uint32(uint32(product_1 >> uint64(32)) ^ c1 ^ k0)
        c1 = uint32(product_1)
        c2 = uint32(uint32(product_0 >> uint64(32)) ^ c3 ^ k1)
        c3 = uint32(product_0)
        k0 = uint32(k0 + uint32(WEYL_0))
        k1 = uint32(k1 + uint32(WEYL_1))
    return c0, c1, c2, c3


@cuda.jit(device=True)
def philox4x32_at(block, stream, seed):
    """`philox4x32` at place `block` of stream `stream`, with key `seed`; each of the three is a uint64."""
    return philox4x32(
        uint32(block), uint32(block >> uint64(32)), uint32(stream), uint32(stream >> uint64(32)),
        uint32(seed), uint32(seed >> uint64(32)),
    )  # fmt: skip


@cuda.jit(device=True)
def uniform01(bits):
    """The upper 24 of 32 random bits as a float32 in [0, 1): a multiple of 2^-24, exactly; 1 is never reached."""
    return float32(uint32(bits) >> uint32(8)) * float32(2.0**-24)
