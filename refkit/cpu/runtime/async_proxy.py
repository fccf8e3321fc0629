"""Accesses of the async proxy (`wgmma`, bulk copies) in the eyes of the sanitizers, and its fence.

The async proxy does not see what ordinary accesses have written until a `fence.proxy.async` lies on the way from the
write to the operation: executed by the writer, before the barrier that orders the two, or behind that barrier by the
thread that starts the operation.
"""

from numba import cuda

from .async_order import holds, several
from .findings import record, sanitizer_of
from .happens_before import ordered
from .layout import (
    BLOCK_BESIDE,
    BLOCK_SHADOW,
    BLOCK_SHARED,
    BLOCK_SHARED_BYTES,
    BLOCK_THREADS,
    THREAD_BLOCK,
    THREAD_CLOCKS,
    THREAD_EPOCH,
    THREAD_IDENTITY,
    THREAD_KNOWS,
    THREAD_WORDS,
    THREAD_WORKER,
    WORKER_SANITIZER,
)
from .primitives import words
from .shadow import find_region
from .shadow_layout import (
    ASYNC_EPOCH,
    ASYNC_OPERATION,
    ASYNC_PROXY,
    ASYNC_READ,
    ASYNC_SEVERAL,
    ASYNC_WRITE,
    ATOMIC,
    BESIDE_BYTES,
    BESIDE_WRITTEN,
    CELL_ATOMIC_WHEN,
    CELL_ATOMIC_WHO,
    CELL_BYTES,
    CELL_MASKS,
    CELL_READ_WHEN,
    CELL_READ_WHO,
    CELL_SITES,
    CELL_WRITE_WHEN,
    CELL_WRITE_WHO,
    INITIALIZED,
    MBARRIER_FENCES,
    NODE_MASK,
    PROXY_FENCE_EPOCH,
    PROXY_FENCE_KNOWS,
    PROXY_FENCES,
    RACE_ATOMIC_PLAIN,
    RACE_READ_WRITE,
    RACE_WRITE_WRITE,
    READ,
    REGION_BASE,
    REGION_SHADOW,
    REGION_SHIFT,
    REGION_WRITTEN,
    SANITIZER_FLAGS,
    SANITIZER_SHARED_SHIFT,
    SITE_MASK,
    UNINITIALIZED_GLOBAL,
    UNINITIALIZED_SHARED,
    WATCH_RACE,
    WATCH_UNINITIALIZED,
    WRITE,
)

LOW = 0xFFFFFFFF


def fence_proxy(thread, site):
    """`fence.proxy.async`."""
    if words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0:
        clocks = words(thread[THREAD_CLOCKS])
        clocks[PROXY_FENCES] += 1
        clocks[MBARRIER_FENCES] += 1
        clocks[PROXY_FENCE_EPOCH] = thread[THREAD_EPOCH]
        clocks[PROXY_FENCE_KNOWS] = thread[THREAD_KNOWS]


@cuda.jit(device=True)
def was_ordered_at_fence(thread, who, when):
    """Whether an access came before the thread's own last fence."""
    clocks = words(thread[THREAD_CLOCKS])
    if clocks[PROXY_FENCES] == 0:
        return False
    epoch, knows = thread[THREAD_EPOCH], thread[THREAD_KNOWS]
    thread[THREAD_EPOCH], thread[THREAD_KNOWS] = clocks[PROXY_FENCE_EPOCH], clocks[PROXY_FENCE_KNOWS]
    before = ordered(thread, who, when, 0)
    thread[THREAD_EPOCH], thread[THREAD_KNOWS] = epoch, knows
    return before


@cuda.jit(device=True)
def is_fenced(thread, who, when, written):
    """Whether the async proxy sees an ordinary write; `written` counts from the writer's fences (`BESIDE_WRITTEN`)."""
    block = words(thread[THREAD_BLOCK])
    writer = words(block[BLOCK_THREADS] + ((who >> 3) & 1023) * (8 * THREAD_WORDS))
    if words(writer[THREAD_CLOCKS])[PROXY_FENCES] >= written:
        return True
    return was_ordered_at_fence(thread, who, when)


@cuda.jit(device=True)
def check_written(thread, cell, written, site, address, access):
    """The cell's last ordinary or asynchronous write must come before, and the async proxy must see it."""
    who, when, other = cell[CELL_WRITE_WHO], cell[CELL_WRITE_WHEN], cell[CELL_SITES] & SITE_MASK
    if not ordered(thread, who, when, 0):
        problem = RACE_READ_WRITE if access == ASYNC_READ else RACE_WRITE_WRITE
        record(thread, problem, site, address, access, who, other, WRITE, 0, 0)
    elif written != 0 and who != 0 and not is_fenced(thread, who, when, written):
        record(thread, ASYNC_PROXY, site, address, access, who, other, WRITE, 0, 0)


@cuda.jit(device=True)
def note_read(thread, cell, me, when, site):
    """Stamps a cell with an asynchronous read, beside other such reads that are under way."""
    who, before = cell[CELL_READ_WHO], cell[CELL_READ_WHEN]
    level = who & 7
    if level >= ASYNC_OPERATION and not ordered(thread, who, before, 0):
        if level == ASYNC_OPERATION and (before == when or who >> 3 == me >> 3):
            pass  # groups of one warpgroup, or of one thread, end in order: the later one stands for both
        elif level == ASYNC_SEVERAL and holds(thread, before & NODE_MASK, when & NODE_MASK):
            return
        else:
            holder = several(thread, level == ASYNC_SEVERAL, before & NODE_MASK, when & NODE_MASK)
            if holder != 0:
                me = (me & ~7) | ASYNC_SEVERAL
                when = ASYNC_EPOCH | holder
    cell[CELL_READ_WHO] = me
    cell[CELL_READ_WHEN] = when
    cell[CELL_MASKS] &= ~LOW
    cell[CELL_SITES] = (cell[CELL_SITES] & ~(SITE_MASK << 20)) | ((site & SITE_MASK) << 20)


@cuda.jit(device=True)
def check_async_read(thread, cell, written, me, when, site, address):
    check_written(thread, cell, written, site, address, ASYNC_READ)
    if not ordered(thread, cell[CELL_ATOMIC_WHO], cell[CELL_ATOMIC_WHEN], cell[CELL_MASKS] >> 32 & LOW):
        other = (cell[CELL_SITES] >> 40) & SITE_MASK
        record(thread, RACE_ATOMIC_PLAIN, site, address, ASYNC_READ, cell[CELL_ATOMIC_WHO], other, ATOMIC, 0, 0)
    note_read(thread, cell, me, when, site)


@cuda.jit(device=True)
def check_async_write(thread, cell, written, me, when, site, address):
    check_written(thread, cell, written, site, address, ASYNC_WRITE)
    sites = cell[CELL_SITES]
    if not ordered(thread, cell[CELL_READ_WHO], cell[CELL_READ_WHEN], cell[CELL_MASKS] & LOW):
        other = (sites >> 20) & SITE_MASK
        record(thread, RACE_READ_WRITE, site, address, ASYNC_WRITE, cell[CELL_READ_WHO], other, READ, 0, 0)
    if not ordered(thread, cell[CELL_ATOMIC_WHO], cell[CELL_ATOMIC_WHEN], cell[CELL_MASKS] >> 32 & LOW):
        other = (sites >> 40) & SITE_MASK
        record(thread, RACE_ATOMIC_PLAIN, site, address, ASYNC_WRITE, cell[CELL_ATOMIC_WHO], other, ATOMIC, 0, 0)
    cell[CELL_WRITE_WHO] = me
    cell[CELL_WRITE_WHEN] = when
    cell[CELL_READ_WHO] = 0
    cell[CELL_ATOMIC_WHO] = 0
    cell[CELL_MASKS] = 0
    cell[CELL_SITES] = (sites & INITIALIZED) | (site & SITE_MASK)


@cuda.jit(device=True)
def shadow_of(thread, address):
    """Where the shadow of an address is: `(first cell, offset, shift, beside, uninitialized)`; cell 0 for none."""
    sanitizer, block = sanitizer_of(thread), words(thread[THREAD_BLOCK])
    offset = address - block[BLOCK_SHARED]
    if offset >= 0 and offset < block[BLOCK_SHARED_BYTES]:
        shift = sanitizer[SANITIZER_SHARED_SHIFT]
        return block[BLOCK_SHADOW], offset, shift, block[BLOCK_BESIDE], UNINITIALIZED_SHARED
    found = find_region(sanitizer, address)
    if found == 0:
        return 0, 0, 0, 0, 0
    region = words(found)
    uninitialized = 0 if region[REGION_WRITTEN] != 0 else UNINITIALIZED_GLOBAL
    return region[REGION_SHADOW], address - region[REGION_BASE], region[REGION_SHIFT], 0, uninitialized


@cuda.jit(device=True)
def check_async(thread, site, address, size, access, node):
    """Checks and stamps an access of `size` bytes that an operation, started now by this thread, makes.

    Until `mark_written` the destination of a write counts as unwritten.
    """
    flags = sanitizer_of(thread)[SANITIZER_FLAGS]
    if size <= 0 or flags & (WATCH_RACE | WATCH_UNINITIALIZED) == 0:
        return
    shadow, offset, shift, beside, uninitialized = shadow_of(thread, address)
    if shadow == 0:
        return
    me = (thread[THREAD_IDENTITY] & ~7) | ASYNC_OPERATION
    when = ASYNC_EPOCH | node
    for index in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        cell = words(shadow + index * CELL_BYTES)
        if access == ASYNC_READ and uninitialized != 0 and flags & WATCH_UNINITIALIZED:
            if cell[CELL_SITES] & INITIALIZED == 0:
                record(thread, uninitialized, site, address, access, 0, 0, 0, 0, 0)
                cell[CELL_SITES] |= INITIALIZED
        if access == ASYNC_WRITE and uninitialized == UNINITIALIZED_SHARED:
            cell[CELL_SITES] &= ~INITIALIZED
        if flags & WATCH_RACE and node != 0:
            written = words(beside + index * BESIDE_BYTES)[BESIDE_WRITTEN] if beside != 0 else 0
            if access == ASYNC_READ:
                check_async_read(thread, cell, written, me, when, site, address)
            else:
                check_async_write(thread, cell, written, me, when, site, address)
        if access == ASYNC_WRITE and beside != 0:
            words(beside + index * BESIDE_BYTES)[BESIDE_WRITTEN] = 0


@cuda.jit(device=True)
def mark_written(thread, address, size):
    """An asynchronous write has been carried out."""
    if size <= 0:
        return
    shadow, offset, shift, _, _ = shadow_of(thread, address)
    if shadow != 0:
        for index in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
            words(shadow + index * CELL_BYTES)[CELL_SITES] |= INITIALIZED
