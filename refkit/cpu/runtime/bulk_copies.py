"""Bulk copies of the async proxy (PTX ISA 9.1, "cp.async.bulk", "cp.async.bulk.tensor"): as late as they may.

A device may carry a copy out at any time after its start. Here a load lands when threads wait for its mbarrier and
nothing else can happen (under a seeded schedule: at random before that, too); a store is carried out at the wait that
needs it, or as its thread ends. Until a load lands its destination holds poison. So a missing wait, a source that is
overwritten too early and a destination that is still in use show in the results.
A block's loads and a thread's stores are queues: one allocation each, kept for later launches.
"""

from numba import cuda

from .layout import (
    AT_MBARRIER,
    BLOCK_BULK_COPIES,
    BLOCK_THREADS,
    SHARED_FILL,
    THREAD_BLOCK,
    THREAD_BULK_COPIES,
    THREAD_MASK,
    THREAD_STATE,
    THREAD_WORDS,
)
from .mbarrier import complete_bytes
from .primitives import address_of, copy_bytes, fill_bytes, reallocate, words
from .tensor_boxes import box_bytes, move_box

QUEUE_CAPACITY = 0  # records
QUEUE_COUNT = 1
QUEUE_GROUP = 2  # stores: groups committed so far, the number of the open one
QUEUE_HEADER = 4  # words

BULK_SHARED = 0  # address in shared memory
BULK_GLOBAL = 1  # address in global memory, or of the tensor map
BULK_SIZE = 2  # bytes
BULK_IS_BOX = 3
BULK_X = 4
BULK_Y = 5
BULK_BARRIER = 6  # loads: address of the mbarrier
BULK_GROUP = 7  # stores
BULK_SITE = 8
BULK_WORDS = 12


@cuda.jit(device=True)
def queue_at(owner, word):
    """The queue whose address stands in a control block's word, with room for one more record."""
    address = owner[word]
    if address == 0 or words(address)[QUEUE_COUNT] == words(address)[QUEUE_CAPACITY]:
        capacity = 16 if address == 0 else 2 * words(address)[QUEUE_CAPACITY]
        moved = reallocate(address, 8 * (QUEUE_HEADER + capacity * BULK_WORDS))
        queue = words(moved)
        queue[QUEUE_CAPACITY] = capacity
        if address == 0:
            queue[QUEUE_COUNT] = 0
            queue[QUEUE_GROUP] = 0
        owner[word] = moved
        return queue
    return words(address)


@cuda.jit(device=True)
def record_at(queue, index):
    return words(address_of(queue) + 8 * (QUEUE_HEADER + index * BULK_WORDS))


@cuda.jit(device=True)
def forget_bulk_copies(owner, word):
    """A fresh block or thread has started none."""
    if owner[word] != 0:
        queue = words(owner[word])
        queue[QUEUE_COUNT] = 0
        queue[QUEUE_GROUP] = 0


@cuda.jit(device=True)
def remove(queue, index):
    """Takes a record out; the later ones move up."""
    count = queue[QUEUE_COUNT] - 1
    for i in range(index, count):
        kept, target = record_at(queue, i + 1), record_at(queue, i)
        for k in range(BULK_WORDS):
            target[k] = kept[k]
    queue[QUEUE_COUNT] = count


@cuda.jit(device=True)
def append(queue, site, shared, other, size, is_box, x, y, barrier):
    record = record_at(queue, queue[QUEUE_COUNT])
    record[BULK_SHARED] = shared
    record[BULK_GLOBAL] = other
    record[BULK_SIZE] = size
    record[BULK_IS_BOX] = is_box
    record[BULK_X] = x
    record[BULK_Y] = y
    record[BULK_BARRIER] = barrier
    record[BULK_GROUP] = queue[QUEUE_GROUP]
    record[BULK_SITE] = site
    queue[QUEUE_COUNT] += 1
    return record


# --- loads ----------------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def start_any_load(thread, site, shared, other, size, is_box, x, y, barrier):
    queue = queue_at(words(thread[THREAD_BLOCK]), BLOCK_BULK_COPIES)
    append(queue, site, shared, other, size, is_box, x, y, barrier)
    fill_bytes(shared, SHARED_FILL, size)


def start_load(thread, site, shared, source, size, barrier):
    """`cp.async.bulk` from global to shared memory."""
    start_any_load(thread, site, shared, source, size, 0, 0, 0, barrier)


def start_box_load(thread, site, shared, tensor_map, x, y, barrier):
    """`cp.async.bulk.tensor.2d` from global to shared memory."""
    start_any_load(thread, site, shared, tensor_map, box_bytes(words(tensor_map)), 1, x, y, barrier)


@cuda.jit(device=True)
def land(block, queue, index):
    """Carries out one load."""
    record = record_at(queue, index)
    if record[BULK_IS_BOX] != 0:
        move_box(record[BULK_SHARED], words(record[BULK_GLOBAL]), record[BULK_X], record[BULK_Y], True)
    else:
        copy_bytes(record[BULK_SHARED], record[BULK_GLOBAL], record[BULK_SIZE])
    barrier, size = record[BULK_BARRIER], record[BULK_SIZE]
    remove(queue, index)
    complete_bytes(block, barrier, size)


@cuda.jit(device=True)
def is_waited_for(block, thread_count, barrier):
    for rank in range(thread_count):
        thread = words(block[BLOCK_THREADS] + rank * (8 * THREAD_WORDS))
        if thread[THREAD_STATE] == AT_MBARRIER and thread[THREAD_MASK] == barrier:
            return True
    return False


@cuda.jit(device=True)
def land_awaited(block, thread_count):
    """Lets the loads land whose mbarriers threads wait at; how many."""
    if block[BLOCK_BULK_COPIES] == 0:
        return 0
    queue = words(block[BLOCK_BULK_COPIES])
    landed, index = 0, 0
    while index < queue[QUEUE_COUNT]:
        if is_waited_for(block, thread_count, record_at(queue, index)[BULK_BARRIER]):
            land(block, queue, index)
            landed += 1
        else:
            index += 1
    return landed


@cuda.jit(device=True)
def land_one(block, random):
    """Lets one load land, whichever the random number says."""
    if block[BLOCK_BULK_COPIES] != 0:
        queue = words(block[BLOCK_BULK_COPIES])
        if queue[QUEUE_COUNT] > 0:
            land(block, queue, random % queue[QUEUE_COUNT])


# --- stores ---------------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def start_any_store(thread, site, shared, other, size, is_box, x, y):
    queue = queue_at(thread, THREAD_BULK_COPIES)
    append(queue, site, shared, other, size, is_box, x, y, 0)


def start_store(thread, site, destination, shared, size):
    """`cp.async.bulk` from shared to global memory."""
    start_any_store(thread, site, shared, destination, size, 0, 0, 0)


def start_box_store(thread, site, tensor_map, x, y, shared):
    """`cp.async.bulk.tensor.2d` from shared to global memory."""
    start_any_store(thread, site, shared, tensor_map, box_bytes(words(tensor_map)), 1, x, y)


def commit_stores(thread, site):
    queue = queue_at(thread, THREAD_BULK_COPIES)
    queue[QUEUE_GROUP] += 1


@cuda.jit(device=True)
def carry_out(record):
    if record[BULK_IS_BOX] != 0:
        move_box(record[BULK_SHARED], words(record[BULK_GLOBAL]), record[BULK_X], record[BULK_Y], False)
    else:
        copy_bytes(record[BULK_GLOBAL], record[BULK_SHARED], record[BULK_SIZE])


@cuda.jit(device=True)
def carry_out_groups(thread, pending):
    """Carries out the stores of all groups but the `pending` newest and the open one."""
    if thread[THREAD_BULK_COPIES] == 0:
        return
    queue = words(thread[THREAD_BULK_COPIES])
    limit = queue[QUEUE_GROUP] - pending
    while queue[QUEUE_COUNT] > 0 and record_at(queue, 0)[BULK_GROUP] < limit:
        carry_out(record_at(queue, 0))
        remove(queue, 0)


def wait_stores(thread, site, pending, read_only):
    """`cp.async.bulk.wait_group`, and with `.read` where only the sources need to have been read."""
    carry_out_groups(thread, pending)


@cuda.jit(device=True)
def carry_out_rest(thread):
    """As a thread ends: the stores that it never waited for."""
    if thread[THREAD_BULK_COPIES] != 0:
        carry_out_groups(thread, -1)
