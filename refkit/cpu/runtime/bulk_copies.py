"""Bulk copies of the async proxy (PTX ISA 9.1, "cp.async.bulk", "cp.async.bulk.tensor"): as late as they may.

A device may carry a copy out at any time after its start. Here a load lands when threads wait for its mbarrier and
nothing else can happen (under a seeded schedule: at random before that, too); a store is carried out at the wait that
needs it, or as its thread ends. Until a load lands its destination holds poison. So a missing wait, a source that is
overwritten too early and a destination that is still in use show in the results.
A block's loads and a thread's stores are queues: one allocation each, kept for later launches.
"""

from numba import cuda

from .async_order import learn_node, new_node
from .async_proxy import check_async, mark_written
from .extents import check_extent
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
from .mbarrier import check_seen_by_copies, complete_bytes, is_watched
from .primitives import address_of, copy_bytes, fill_bytes, reallocate, words
from .shadow_layout import ASYNC_READ, ASYNC_WRITE, READ, WRITE
from .tensor_boxes import (
    MAP_ADDRESS,
    MAP_BOX_ELEMENTS,
    MAP_BOX_LINES,
    MAP_ELEMENT,
    MAP_LINE_BYTES,
    box_bytes,
    move_box,
    part_inside,
)

QUEUE_CAPACITY = 0  # records
QUEUE_COUNT = 1
QUEUE_GROUP = 2  # stores: groups committed so far, the number of the open one
QUEUE_WRITE_NODE = 3  # sanitizers: the last store that has been carried out and that nobody has waited for in full
QUEUE_READ_NODE = 4  # sanitizers: the last node of reads, and of writes, that was made
QUEUE_LAST_WRITE_NODE = 5
QUEUE_HEADER = 6  # words

BULK_SHARED = 0  # address in shared memory
BULK_GLOBAL = 1  # address in global memory, or of the tensor map
BULK_SIZE = 2  # bytes
BULK_IS_BOX = 3
BULK_X = 4
BULK_Y = 5
BULK_BARRIER = 6  # loads: address of the mbarrier
BULK_GROUP = 7  # stores
BULK_SITE = 8
BULK_NODE = 9  # sanitizers: the operation; of a store, its reads
BULK_WRITE_NODE = 10  # of a store, its writes
BULK_WORDS = 12


@cuda.jit(device=True)
def clear(queue):
    for word in range(QUEUE_COUNT, QUEUE_HEADER):
        queue[word] = 0


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
            clear(queue)
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
        clear(words(owner[word]))


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
    record[BULK_NODE] = record[BULK_WRITE_NODE] = 0
    queue[QUEUE_COUNT] += 1
    return record


@cuda.jit(device=True)
def note_piece(thread, copy, address, size, access, node):
    """Tells the sanitizers of contiguous bytes in global memory: `WRITE` where they have been written."""
    if access == WRITE:
        mark_written(thread, address, size)
    else:
        check_async(thread, copy[BULK_SITE], address, size, access, node)


@cuda.jit(device=True)
def note_global(thread, copy, access, node):
    """Tells the sanitizers of the side of a copy that lies in global memory."""
    if copy[BULK_IS_BOX] == 0:
        note_piece(thread, copy, copy[BULK_GLOBAL], copy[BULK_SIZE], access, node)
        return
    tensor = words(copy[BULK_GLOBAL])
    row, byte = tensor[MAP_BOX_ELEMENTS] * tensor[MAP_ELEMENT], copy[BULK_X] * tensor[MAP_ELEMENT]
    for i in range(tensor[MAP_BOX_LINES]):
        line = copy[BULK_Y] + i
        first, end = part_inside(tensor, line, byte, row)
        address = tensor[MAP_ADDRESS] + line * tensor[MAP_LINE_BYTES] + byte
        note_piece(thread, copy, address + first, end - first, access, node)


# --- loads ----------------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def start_any_load(thread, site, shared, other, size, is_box, x, y, barrier):
    queue = queue_at(words(thread[THREAD_BLOCK]), BLOCK_BULK_COPIES)
    copy = append(queue, site, shared, other, size, is_box, x, y, barrier)
    if is_watched(thread):
        check_extent(thread, site, shared, size, WRITE, True)
        check_seen_by_copies(thread, site, barrier)
        copy[BULK_NODE] = new_node(thread, 0)
        note_global(thread, copy, ASYNC_READ, copy[BULK_NODE])
        check_async(thread, site, shared, size, ASYNC_WRITE, copy[BULK_NODE])
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
    first = words(block[BLOCK_THREADS])
    if is_watched(first):
        mark_written(first, record[BULK_SHARED], record[BULK_SIZE])
    barrier, size, node = record[BULK_BARRIER], record[BULK_SIZE], record[BULK_NODE]
    remove(queue, index)
    complete_bytes(block, barrier, size, node)


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
    """Lets one load land, whichever the random number says; how many, since those that waited for it can go on."""
    landed = 0
    if block[BLOCK_BULK_COPIES] != 0:
        queue = words(block[BLOCK_BULK_COPIES])
        if queue[QUEUE_COUNT] > 0:
            land(block, queue, random % queue[QUEUE_COUNT])
            landed = 1
    return landed


# --- stores ---------------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def start_any_store(thread, site, shared, other, size, is_box, x, y):
    queue = queue_at(thread, THREAD_BULK_COPIES)
    copy = append(queue, site, shared, other, size, is_box, x, y, 0)
    if is_watched(thread):
        check_extent(thread, site, shared, size, READ, True)
        copy[BULK_NODE] = queue[QUEUE_READ_NODE] = new_node(thread, queue[QUEUE_READ_NODE])
        copy[BULK_WRITE_NODE] = queue[QUEUE_LAST_WRITE_NODE] = new_node(thread, queue[QUEUE_LAST_WRITE_NODE])
        check_async(thread, site, shared, size, ASYNC_READ, copy[BULK_NODE])
        note_global(thread, copy, ASYNC_WRITE, copy[BULK_WRITE_NODE])


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
        copy = record_at(queue, 0)
        carry_out(copy)
        if is_watched(thread):
            note_global(thread, copy, WRITE, 0)
            learn_node(thread, copy[BULK_NODE])
            queue[QUEUE_WRITE_NODE] = copy[BULK_WRITE_NODE]
        remove(queue, 0)


def wait_stores(thread, site, pending, read_only):
    """`cp.async.bulk.wait_group`, and with `.read` where only the sources need to have been read."""
    carry_out_groups(thread, pending)
    if read_only == 0 and is_watched(thread) and thread[THREAD_BULK_COPIES] != 0:
        learn_node(thread, words(thread[THREAD_BULK_COPIES])[QUEUE_WRITE_NODE])


@cuda.jit(device=True)
def carry_out_rest(thread):
    """As a thread ends: the stores that it never waited for."""
    if thread[THREAD_BULK_COPIES] != 0:
        carry_out_groups(thread, -1)
