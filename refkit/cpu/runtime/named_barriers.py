"""Named barriers: `bar.sync` and `bar.arrive` with a number and a count (PTX ISA 9.1, "Parallel Synchronization: bar").

The thread whose arrival completes a barrier releases the others and goes on. Arrivals that name another count than the
first one leave the barrier incomplete, so that the launch ends in a deadlock that says who waits for how many.
"""

from numba import cuda

from .device import arrive, pass_on
from .findings import sanitizer_of
from .happens_before import fence, synchronise_by_atomic
from .layout import (
    AT_NAMED_BARRIER,
    BARRIER_PLAIN,
    BLOCK_NAMED_BARRIERS,
    BLOCK_THREADS,
    LAUNCH_THREADS_PER_BLOCK,
    RUNNABLE,
    THREAD_BLOCK,
    THREAD_MASK,
    THREAD_SITE,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORDS,
    THREAD_WORKER,
    WORKER_LAUNCH,
    WORKER_SANITIZER,
)
from .primitives import address_of, words
from .shadow_layout import SANITIZER_FLAGS, WATCH_RACE

COUNT_SHIFT = 32
BLOCK_SCOPE = 0
note_fence = cuda.jit(device=True)(fence)


@cuda.jit(device=True)
def races_watched(thread):
    return (
        words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0 and sanitizer_of(thread)[SANITIZER_FLAGS] & WATCH_RACE != 0
    )


@cuda.jit(device=True)
def count_arrival(thread, number, count):
    """Counts one arrival; whether it completes the barrier."""
    block = words(thread[THREAD_BLOCK])
    state = block[BLOCK_NAMED_BARRIERS + number]
    expected, arrived = state >> COUNT_SHIFT, state & 0xFFFFFFFF
    if arrived == 0:
        expected = count
    arrived += 1
    block[BLOCK_NAMED_BARRIERS + number] = arrived | (expected << COUNT_SHIFT)
    if races_watched(thread):  # an arrival is a fence and an atomic on the barrier
        note_fence(thread, BLOCK_SCOPE)
        synchronise_by_atomic(thread, address_of(block) + 8 * (BLOCK_NAMED_BARRIERS + number))
    return arrived == expected and count == expected


@cuda.jit(device=True)
def release(thread, number):
    """Lets every thread go on that waits at the barrier, which begins anew."""
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_NAMED_BARRIERS + number] = 0
    launch = words(words(thread[THREAD_WORKER])[WORKER_LAUNCH])
    for rank in range(launch[LAUNCH_THREADS_PER_BLOCK]):
        other = words(block[BLOCK_THREADS] + rank * (8 * THREAD_WORDS))
        if other[THREAD_STATE] == AT_NAMED_BARRIER and other[THREAD_MASK] == number:
            other[THREAD_STATE] = RUNNABLE


def sync(thread, site, number, count):
    """`bar.sync number, count`."""
    launch = words(words(thread[THREAD_WORKER])[WORKER_LAUNCH])
    if number == 0 and count == launch[LAUNCH_THREADS_PER_BLOCK]:
        arrive(thread, site, BARRIER_PLAIN)
        return
    thread[THREAD_SITE] = site
    if count_arrival(thread, number, count):
        release(thread, number)
    else:
        thread[THREAD_MASK] = number
        thread[THREAD_VALUE] = count
        thread[THREAD_STATE] = AT_NAMED_BARRIER
        pass_on(thread)
    if races_watched(thread):
        block = words(thread[THREAD_BLOCK])
        synchronise_by_atomic(thread, address_of(block) + 8 * (BLOCK_NAMED_BARRIERS + number))


def arrive_only(thread, site, number, count):
    """`bar.arrive number, count`."""
    thread[THREAD_SITE] = site
    if count_arrival(thread, number, count):
        release(thread, number)
