"""Device functions that kernels share, and that other Numba code may import.

warp:     sum, maximum, argmax and moments over the 32 lanes of a warp, by shuffles.
block:    the same over a block, by shuffles and shared memory.
moments:  count, mean and sum of squared deviations of two sets joined.
scan:     prefix sums over a warp and over a block.
vector:   128 bits of an array at once.
convert:  between storage formats in registers.
philox:   random bits as a function of a counter and a key.
unroll:   loops written out.
"""
