"""Random numbers of a seeded schedule: one state per worker, so that a launch is replayed from its seed."""

from numba import cuda

from .layout import WORKER_RANDOM


@cuda.jit(device=True)
def next_random(worker):
    """A 31-bit random number (xorshift64)."""
    x = worker[WORKER_RANDOM]
    x ^= x << 13
    x ^= (x >> 7) & 0x01FFFFFFFFFFFFFF
    x ^= x << 17
    worker[WORKER_RANDOM] = x
    return (x >> 20) & 0x7FFFFFFF
