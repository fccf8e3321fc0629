"""Operations that the 128 threads of a warpgroup execute together (PTX ISA 9.1, "Asynchronous Warpgroup Level ...")."""

from numba import cuda

from .device import pass_on
from .layout import (
    AT_WARPGROUP_OPERATION,
    BLOCK_AT_WARPGROUP,
    BLOCK_THREADS,
    RUNNABLE,
    THREAD_BLOCK,
    THREAD_OPERATION,
    THREAD_SITE,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORDS,
    WARPGROUP_SIZE,
)
from .primitives import call_address, words


def together(thread, site, handler, registers):
    """Waits until all threads of the warpgroup execute this instruction; `handler` then serves them.

    `registers` is the address of the thread's operands, one word each.
    """
    thread[THREAD_SITE] = site
    thread[THREAD_OPERATION] = handler
    thread[THREAD_VALUE] = registers
    thread[THREAD_STATE] = AT_WARPGROUP_OPERATION
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_AT_WARPGROUP] += 1
    pass_on(thread)


@cuda.jit(device=True)
def has_arrived(first):
    """Whether all threads of a warpgroup wait at the same instruction in the same place."""
    leader = words(first)
    for rank in range(WARPGROUP_SIZE):
        thread = words(first + rank * (8 * THREAD_WORDS))
        if (
            thread[THREAD_STATE] != AT_WARPGROUP_OPERATION
            or thread[THREAD_OPERATION] != leader[THREAD_OPERATION]
            or thread[THREAD_SITE] != leader[THREAD_SITE]
        ):
            return False
    return True


@cuda.jit(device=True)
def complete_warpgroup_operations(block, thread_count):
    """Serves every warpgroup of a block of which all threads have arrived; how many."""
    served = 0
    for group in range(thread_count // WARPGROUP_SIZE):
        first = block[BLOCK_THREADS] + group * WARPGROUP_SIZE * (8 * THREAD_WORDS)
        if has_arrived(first):
            call_address(words(first)[THREAD_OPERATION], words(first), words(first))
            for rank in range(WARPGROUP_SIZE):
                words(first + rank * (8 * THREAD_WORDS))[THREAD_STATE] = RUNNABLE
            block[BLOCK_AT_WARPGROUP] -= WARPGROUP_SIZE
            served += 1
    return served


def nothing(first, unused):
    """Serves an operation of which only the meeting counts."""
