"""mbarriers (PTX ISA 9.1, "Parallel Synchronization and Communication Instructions: mbarrier").

The 8 bytes in shared memory hold the whole state: the arrivals that a phase takes and those still to come, the bytes
that it still waits for, and the parity of the phase under way. A phase ends as soon as neither arrivals nor bytes are
missing. A thread that waits gives way until then; where nothing else can happen, the scheduler first carries out copies
(`bulk_copies.py`), and then lets a wait return without success, as hardware may, before it calls the launch deadlocked.
"""

from numba import cuda

from .async_order import acquire_from, end_phase, forget_mbarrier, races_watched, release_node_to, release_to
from .device import leave
from .findings import record, sanitizer_of
from .layout import (
    AT_MBARRIER,
    BLOCK_BESIDE,
    BLOCK_SHADOW,
    BLOCK_SHARED,
    BLOCK_THREADS,
    LAUNCH_THREADS_PER_BLOCK,
    RUNNABLE,
    THREAD_BLOCK,
    THREAD_CLOCKS,
    THREAD_MASK,
    THREAD_RESULT,
    THREAD_SITE,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORDS,
    THREAD_WORKER,
    WORKER_LAUNCH,
    WORKER_PHASES,
    WORKER_SANITIZER,
)
from .primitives import words
from .shadow import check_access
from .shadow_layout import (
    ASYNC_PROXY,
    ATOMIC,
    BESIDE_BYTES,
    BESIDE_WRITTEN,
    CELL_BYTES,
    CELL_SITES,
    CELL_WRITE_WHO,
    MBARRIER_FENCES,
    NO_MBARRIER,
    ONE_THREAD,
    OPERATION,
    SANITIZER_FLAGS,
    SANITIZER_SHARED_SHIFT,
    SITE_MASK,
    TOO_MANY_ARRIVALS,
    WATCH_BARRIER,
    WRITE,
)

BYTES = 8
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
def is_watched(thread):
    return words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0


@cuda.jit(device=True)
def cell_of(thread, address):
    """The address of the shadow cell of an mbarrier."""
    block = words(thread[THREAD_BLOCK])
    index = (address - block[BLOCK_SHARED]) >> sanitizer_of(thread)[SANITIZER_SHARED_SHIFT]
    return block[BLOCK_SHADOW] + index * CELL_BYTES


@cuda.jit(device=True)
def beside_of(thread, address):
    """The address of what is kept beside that cell."""
    block = words(thread[THREAD_BLOCK])
    index = (address - block[BLOCK_SHARED]) >> sanitizer_of(thread)[SANITIZER_SHARED_SHIFT]
    return block[BLOCK_BESIDE] + index * BESIDE_BYTES


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
        first = words(block[BLOCK_THREADS])
        if races_watched(first):
            end_phase(first, address)
        wake_waiters(block, address)
    else:
        words(address)[0] = state


def init(thread, site, address, arrivals):
    if is_watched(thread):
        check_access(thread, site, address, BYTES, WRITE)
        words(beside_of(thread, address))[BESIDE_WRITTEN] = 1 + words(thread[THREAD_CLOCKS])[MBARRIER_FENCES]
        if races_watched(thread):
            forget_mbarrier(thread, address)
    words(address)[0] = start_of_phase(arrivals & EXPECTED_MASK, 0)


def invalidate(thread, site, address):
    if is_watched(thread):
        check_access(thread, site, address, BYTES, WRITE)
    words(address)[0] = 0


@cuda.jit(device=True)
def touch(thread, site, address):
    """The state of an mbarrier that a thread uses; 0 where there is none, which is reported."""
    state = words(address)[0]
    if is_watched(thread):
        check_access(thread, site, address, BYTES, ATOMIC)
        if not is_mbarrier(state) and sanitizer_of(thread)[SANITIZER_FLAGS] & WATCH_BARRIER:
            record(thread, NO_MBARRIER, site, address, OPERATION, 0, 0, 0, 0, 0)
    return state if is_mbarrier(state) else 0


@cuda.jit(device=True)
def count_arrivals(thread, site, address, state, count):
    """The state after arrivals; more than the phase takes are reported and left out."""
    pending = (state >> PENDING_SHIFT) & EXPECTED_MASK
    if count > pending:
        if is_watched(thread) and sanitizer_of(thread)[SANITIZER_FLAGS] & WATCH_BARRIER:
            record(thread, TOO_MANY_ARRIVALS, site, address, OPERATION, 0, 0, 0, count, state & EXPECTED_MASK)
        count = pending
    if races_watched(thread):
        release_to(thread, address)
    return state - (count << PENDING_SHIFT)


def arrive(thread, site, address, count):
    state = touch(thread, site, address)
    if state != 0:
        settle(words(thread[THREAD_BLOCK]), address, count_arrivals(thread, site, address, state, count))


def expect_bytes(thread, site, address, size):
    state = touch(thread, site, address)
    if state != 0:
        settle(words(thread[THREAD_BLOCK]), address, state + (size << BYTES_SHIFT))


def arrive_expecting(thread, site, address, size):
    """First the bytes are expected, so that the arrival cannot end the phase before they come."""
    state = touch(thread, site, address)
    if state != 0:
        state = count_arrivals(thread, site, address, state, 1)
        settle(words(thread[THREAD_BLOCK]), address, state + (size << BYTES_SHIFT))


@cuda.jit(device=True)
def complete_bytes(block, address, size, node):
    """A bulk copy, the operation `node`, has landed."""
    state = words(address)[0]
    if is_mbarrier(state):
        if node != 0:
            release_node_to(words(block[BLOCK_THREADS]), address, node)
        settle(block, address, state - (size << BYTES_SHIFT))


def try_wait(thread, site, address, parity):
    """1 once the phase of this parity has ended; 0 where a wait returns early."""
    state = touch(thread, site, address)
    ended = 1
    if state == 0 or parity_of(state) == parity:
        thread[THREAD_SITE] = site
        thread[THREAD_MASK] = address
        thread[THREAD_VALUE] = parity
        thread[THREAD_STATE] = AT_MBARRIER
        leave(thread)
        ended = thread[THREAD_RESULT]
    if ended != 0 and races_watched(thread):
        acquire_from(thread, address)
    return ended


def test_wait(thread, site, address, parity):
    """1 if the phase of this parity has ended; others run meanwhile."""
    thread[THREAD_SITE] = site
    leave(thread)
    state = touch(thread, site, address)
    ended = 1 if state != 0 and parity_of(state) != parity else 0
    if ended != 0 and races_watched(thread):
        acquire_from(thread, address)
    return ended


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
    """`fence.mbarrier_init`."""
    if is_watched(thread):
        words(thread[THREAD_CLOCKS])[MBARRIER_FENCES] += 1


@cuda.jit(device=True)
def check_seen_by_copies(thread, site, address):
    """A copy is to count at an mbarrier: the async proxy must see that it is one."""
    touch(thread, site, address)
    if races_watched(thread):
        cell = words(cell_of(thread, address))
        who, other = cell[CELL_WRITE_WHO], cell[CELL_SITES] & SITE_MASK
        writer = words(words(thread[THREAD_BLOCK])[BLOCK_THREADS] + ((who >> 3) & 1023) * (8 * THREAD_WORDS))
        if who & 7 == ONE_THREAD:
            written = words(beside_of(thread, address))[BESIDE_WRITTEN]
            if words(writer[THREAD_CLOCKS])[MBARRIER_FENCES] < written:
                record(thread, ASYNC_PROXY, site, address, OPERATION, who, other, WRITE, 0, 0)
