"""Asynchronous copies (PTX ISA 9.1, "Data Movement: cp.async"): each arrives at the wait that needs it, no earlier.

A device may carry a copy out at any time between its start and the wait. So the source is read at the wait, and the
destination holds poison from the start on: a missing wait, a source that is overwritten too early, and a destination
that is still in use show in the results. In the eyes of the sanitizers source and destination are accessed at both
ends, and meanwhile the destination counts as unwritten. Copies that nobody waits for arrive as their thread ends: who
uses the destination again before that is in their way.
A thread's queue is one allocation, which its control block keeps for later launches: a header, then a record for each
copy under way.
"""

from numba import cuda

from .extents import check_extent
from .findings import sanitizer_of
from .layout import (
    BLOCK_SHADOW,
    BLOCK_SHARED,
    BLOCK_SHARED_BYTES,
    SHARED_FILL,
    THREAD_BLOCK,
    THREAD_COPIES,
    THREAD_WORKER,
    WORKER_SANITIZER,
)
from .primitives import address_of, copy_bytes, fill_bytes, reallocate, words
from .shadow import check_access
from .shadow_layout import CELL_BYTES, CELL_SITES, INITIALIZED, READ, SANITIZER_SHARED_SHIFT, WRITE

QUEUE_CAPACITY = 0  # records
QUEUE_COUNT = 1
QUEUE_GROUP = 2  # groups committed so far: the number of the open group
QUEUE_HEADER = 4  # words

COPY_DESTINATION = 0
COPY_SOURCE = 1
COPY_SIZE = 2  # bytes written
COPY_READ = 3  # bytes read; the rest is zeros
COPY_GROUP = 4
COPY_SITE = 5
COPY_WORDS = 6


@cuda.jit(device=True)
def forget_copies(thread):
    """A fresh thread has started none."""
    if thread[THREAD_COPIES] != 0:
        queue = words(thread[THREAD_COPIES])
        queue[QUEUE_COUNT] = 0
        queue[QUEUE_GROUP] = 0


@cuda.jit(device=True)
def enlarged(address):
    """A queue with twice the room of the one at `address`, or the first one where that is 0; its new address."""
    capacity = 16
    if address != 0:
        capacity = 2 * words(address)[QUEUE_CAPACITY]
    moved = reallocate(address, 8 * (QUEUE_HEADER + capacity * COPY_WORDS))
    queue = words(moved)
    queue[QUEUE_CAPACITY] = capacity
    if address == 0:
        queue[QUEUE_COUNT] = 0
        queue[QUEUE_GROUP] = 0
    return moved


@cuda.jit(device=True)
def queue_of(thread):
    """The thread's queue, with room for one more copy."""
    address = thread[THREAD_COPIES]
    if address == 0 or words(address)[QUEUE_COUNT] == words(address)[QUEUE_CAPACITY]:
        address = enlarged(address)
        thread[THREAD_COPIES] = address
    return words(address)


@cuda.jit(device=True)
def record_at(queue, index):
    return words(address_of(queue) + 8 * (QUEUE_HEADER + index * COPY_WORDS))


@cuda.jit(device=True)
def note_accesses(thread, record):
    """Tells the sanitizers of both sides of a copy."""
    if record[COPY_READ] > 0:
        check_access(thread, record[COPY_SITE], record[COPY_SOURCE], record[COPY_READ], READ)
    check_access(thread, record[COPY_SITE], record[COPY_DESTINATION], record[COPY_SIZE], WRITE)


@cuda.jit(device=True)
def forget_written(thread, address, size):
    """Shared memory counts as unwritten again."""
    block, sanitizer = words(thread[THREAD_BLOCK]), sanitizer_of(thread)
    offset, shift = address - block[BLOCK_SHARED], sanitizer[SANITIZER_SHARED_SHIFT]
    if offset >= 0 and offset + size <= block[BLOCK_SHARED_BYTES]:
        for index in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
            cell = words(block[BLOCK_SHADOW] + index * CELL_BYTES)
            cell[CELL_SITES] &= ~INITIALIZED


def start_copy(thread, site, destination, source, size, read):
    """Puts a copy of `size` bytes into the open group; `read` of them come from the source."""
    queue = queue_of(thread)
    record = record_at(queue, queue[QUEUE_COUNT])
    record[COPY_DESTINATION] = destination
    record[COPY_SOURCE] = source
    record[COPY_SIZE] = size
    record[COPY_READ] = min(max(read, 0), size)
    record[COPY_GROUP] = queue[QUEUE_GROUP]
    record[COPY_SITE] = site
    queue[QUEUE_COUNT] += 1
    if words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0:
        if record[COPY_READ] > 0:
            check_extent(thread, site, source, record[COPY_READ], READ, False)
        check_extent(thread, site, destination, size, WRITE, True)
        note_accesses(thread, record)
        forget_written(thread, destination, size)
    fill_bytes(destination, SHARED_FILL, size)


@cuda.jit(device=True)
def close_group(thread):
    queue = queue_of(thread)
    queue[QUEUE_GROUP] += 1


def commit_group(thread):
    """Closes the open group, which may be empty."""
    close_group(thread)


@cuda.jit(device=True)
def arrive(thread, record):
    """Carries out one copy."""
    destination, size, read = record[COPY_DESTINATION], record[COPY_SIZE], record[COPY_READ]
    if words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0:
        note_accesses(thread, record)
    copy_bytes(destination, record[COPY_SOURCE], read)
    fill_bytes(destination + read, 0, size - read)


@cuda.jit(device=True)
def let_arrive(thread, pending):
    """Lets all copies arrive but those of the `pending` newest groups and of the open one."""
    if thread[THREAD_COPIES] == 0:
        return
    queue = words(thread[THREAD_COPIES])
    count, limit = queue[QUEUE_COUNT], queue[QUEUE_GROUP] - pending
    arrived = 0
    while arrived < count and record_at(queue, arrived)[COPY_GROUP] < limit:
        arrive(thread, record_at(queue, arrived))
        arrived += 1
    for i in range(count - arrived):
        kept, target = record_at(queue, arrived + i), record_at(queue, i)
        for k in range(COPY_WORDS):
            target[k] = kept[k]
    queue[QUEUE_COUNT] = count - arrived


def wait_group(thread, pending):
    let_arrive(thread, pending)


def wait_all(thread):
    """Lets all copies arrive, those of the open group too."""
    close_group(thread)
    let_arrive(thread, 0)


@cuda.jit(device=True)
def let_rest_arrive(thread):
    """As a thread ends: what it never waited for arrives."""
    if thread[THREAD_COPIES] != 0 and words(thread[THREAD_COPIES])[QUEUE_COUNT] > 0:
        close_group(thread)
        let_arrive(thread, 0)
