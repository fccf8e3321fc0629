"""mbarriers (PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: mbarrier").

The 8 bytes in shared memory hold the whole state: the arrivals that a phase takes and those still to come, the bytes
that it still waits for, and the parity of the phase under way. A phase ends as soon as neither arrivals nor bytes are
missing. A thread that waits gives way until then; where nothing else can happen, the scheduler first carries out copies
(`bulk_copies.py`), and then lets a wait return without success, as hardware may, before it calls the launch deadlocked.
"""

from numba import cuda

from .device import leave
from .layout import (
    AT_MBARRIER,
    BLOCK_THREADS,
    LAUNCH_THREADS_PER_BLOCK,
    RUNNABLE,
    THREAD_BLOCK,
    THREAD_MASK,
    THREAD_RESULT,
    THREAD_SITE,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORDS,
    THREAD_WORKER,
    WORKER_LAUNCH,
    WORKER_PHASES,
)
from .primitives import words

EXPECTED_MASK = 0xFFFFF  # bits 0 to 19: arrivals that a phase takes
PENDING_SHIFT = 20  # bits 20 to 39: arrivals still to come
BYTES_SHIFT = 40  # bits 40 to 60: bytes still to come, plus BYTES_BIAS: copies may land before they are expected
BYTES_MASK = 0x1FFFFF
BYTES_BIAS = 1 << 20
PHASE_SHIFT = 61
VALID_SHIFT = 62  # 1 in the top two bits; neither zeros nor unwritten memory look so
VALID = 1 << VALID_SHIFT


@cuda.jit(device=True)
def is_mbarrier(state):
    return state >> VALID_SHIFT == 1


@cuda.jit(device=True)
def start_of_phase(arrivals, parity):
    """The state of an mbarrier in whose phase nothing has happened yet."""
    return VALID | (parity << PHASE_SHIFT) | (BYTES_BIAS << BYTES_SHIFT) | (arrivals << PENDING_SHIFT) | arrivals


@cuda.jit(device=True)
def parity_of(state):
    return (state >> PHASE_SHIFT) & 1


@cuda.jit(device=True)
def wake_waiters(block, address):
    """Lets the threads go on that wait for the phase which has just ended."""
    worker = words(words(block[BLOCK_THREADS])[THREAD_WORKER])
    worker[WORKER_PHASES] += 1
    launch = words(worker[WORKER_LAUNCH])
    for rank in range(launch[LAUNCH_THREADS_PER_BLOCK]):
        thread = words(block[BLOCK_THREADS] + rank * (8 * THREAD_WORDS))
        if thread[THREAD_STATE] == AT_MBARRIER and thread[THREAD_MASK] == address:
            if parity_of(words(address)[0]) != thread[THREAD_VALUE]:
                thread[THREAD_RESULT] = 1
                thread[THREAD_STATE] = RUNNABLE


@cuda.jit(device=True)
def settle(block, address, state):
    """Stores a new state; where it ends the phase, the next one begins."""
    pending, missing = (state >> PENDING_SHIFT) & EXPECTED_MASK, (state >> BYTES_SHIFT) & BYTES_MASK
    if pending == 0 and missing == BYTES_BIAS:
        words(address)[0] = start_of_phase(state & EXPECTED_MASK, 1 - parity_of(state))
        wake_waiters(block, address)
    else:
        words(address)[0] = state


def init(thread, site, address, arrivals):
    words(address)[0] = start_of_phase(arrivals & EXPECTED_MASK, 0)


def invalidate(thread, site, address):
    words(address)[0] = 0


def arrive(thread, site, address, count):
    state = words(address)[0]
    if is_mbarrier(state):
        settle(words(thread[THREAD_BLOCK]), address, state - (count << PENDING_SHIFT))


def expect_bytes(thread, site, address, size):
    state = words(address)[0]
    if is_mbarrier(state):
        settle(words(thread[THREAD_BLOCK]), address, state + (size << BYTES_SHIFT))


def arrive_expecting(thread, site, address, size):
    """First the bytes are expected, so that the arrival cannot end the phase before they come."""
    state = words(address)[0]
    if is_mbarrier(state):
        settle(words(thread[THREAD_BLOCK]), address, state + (size << BYTES_SHIFT) - (1 << PENDING_SHIFT))


@cuda.jit(device=True)
def complete_bytes(block, address, size):
    """A bulk copy has landed."""
    state = words(address)[0]
    if is_mbarrier(state):
        settle(block, address, state - (size << BYTES_SHIFT))


def try_wait(thread, site, address, parity):
    """1 once the phase of this parity has ended; 0 where a wait returns early."""
    state = words(address)[0]
    if is_mbarrier(state) and parity_of(state) != parity:
        return 1
    thread[THREAD_SITE] = site
    thread[THREAD_MASK] = address
    thread[THREAD_VALUE] = parity
    thread[THREAD_STATE] = AT_MBARRIER
    leave(thread)
    return thread[THREAD_RESULT]


def test_wait(thread, site, address, parity):
    """1 if the phase of this parity has ended; others run meanwhile."""
    thread[THREAD_SITE] = site
    leave(thread)
    state = words(address)[0]
    return 1 if is_mbarrier(state) and parity_of(state) != parity else 0


@cuda.jit(device=True)
def return_early(block, thread_count):
    """Lets every wait of a block return without success; how many."""
    count = 0
    for rank in range(thread_count):
        thread = words(block[BLOCK_THREADS] + rank * (8 * THREAD_WORDS))
        if thread[THREAD_STATE] == AT_MBARRIER:
            thread[THREAD_RESULT] = 0
            thread[THREAD_STATE] = RUNNABLE
            count += 1
    return count


def fence_init(thread):
    """`fence.mbarrier_init`: what comes of it is checked where copies use the mbarrier."""
