"""What instrumented kernels call: checks of every access against its shadow cell, of indices, and of local arrays."""

from numba import cuda

from .findings import record, sanitizer_of
from .happens_before import merged_who, now, ordered, synchronise_by_atomic
from .layout import (
    BLOCK_BESIDE,
    BLOCK_SHADOW,
    BLOCK_SHARED,
    BLOCK_SHARED_BYTES,
    LAUNCH_STOP,
    THREAD_BLOCK,
    THREAD_CLOCKS,
    THREAD_EPOCH,
    THREAD_IDENTITY,
    THREAD_LANE,
    THREAD_SITE,
    THREAD_WORKER,
    WORKER_LAUNCH,
    WORKER_STACK_POINTER,
)
from .primitives import switch, words
from .randomness import next_random
from .shadow_layout import (
    ASYNC_OPERATION,
    ATOMIC,
    BESIDE_BYTES,
    BESIDE_READ_WHEN,
    BESIDE_READER,
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
    MISALIGNED,
    NEGATIVE_INDEX,
    ONE_BLOCK,
    ONE_THREAD,
    ONE_WARP,
    OUT_OF_BOUNDS,
    PROXY_FENCES,
    RACE_ATOMIC_PLAIN,
    RACE_READ_WRITE,
    RACE_WRITE_WRITE,
    READ,
    REGION_BASE,
    REGION_END,
    REGION_SHADOW,
    REGION_SHIFT,
    REGION_WORDS,
    REGION_WRITTEN,
    SANITIZER_FLAGS,
    SANITIZER_LAST_REGION,
    SANITIZER_PREEMPT,
    SANITIZER_REGION_COUNT,
    SANITIZER_REGIONS,
    SANITIZER_SHARED_SHIFT,
    SITE_MASK,
    UNINITIALIZED_GLOBAL,
    UNINITIALIZED_LOCAL,
    UNINITIALIZED_SHARED,
    WATCH_MEMORY,
    WATCH_RACE,
    WATCH_UNINITIALIZED,
    WHOLE_GRID,
    WRITE,
)

LOW = 0xFFFFFFFF


@cuda.jit(device=True)
def stop_launch(thread, site):
    """Ends the launch: memory beyond an array must not be touched."""
    thread[THREAD_SITE] = site
    worker = words(thread[THREAD_WORKER])
    launch = words(worker[WORKER_LAUNCH])
    launch[LAUNCH_STOP] = 1
    switch(thread, worker[WORKER_STACK_POINTER])


@cuda.jit(device=True)
def find_region(sanitizer, address):
    """The address of the record of the region that holds an address; 0 for memory that is nobody's array."""
    last = words(sanitizer[SANITIZER_LAST_REGION])
    if address >= last[REGION_BASE] and address < last[REGION_END]:
        return sanitizer[SANITIZER_LAST_REGION]
    for i in range(sanitizer[SANITIZER_REGION_COUNT]):
        candidate = sanitizer[SANITIZER_REGIONS] + i * (8 * REGION_WORDS)
        region = words(candidate)
        if address >= region[REGION_BASE] and address < region[REGION_END]:
            sanitizer[SANITIZER_LAST_REGION] = candidate
            return candidate
    return 0


@cuda.jit(device=True)
def report_race(thread, problem, site, address, access, who, other_site, other_access):
    record(thread, problem, site, address, access, who, other_site, other_access, 0, 0)


@cuda.jit(device=True)
def check_read(thread, cell, me, time, site, address):
    sites, masks = cell[CELL_SITES], cell[CELL_MASKS]
    if not ordered(thread, cell[CELL_WRITE_WHO], cell[CELL_WRITE_WHEN], 0):
        report_race(thread, RACE_READ_WRITE, site, address, READ, cell[CELL_WRITE_WHO], sites & SITE_MASK, WRITE)
    if not ordered(thread, cell[CELL_ATOMIC_WHO], cell[CELL_ATOMIC_WHEN], masks >> 32 & LOW):
        other = (sites >> 40) & SITE_MASK
        report_race(thread, RACE_ATOMIC_PLAIN, site, address, READ, cell[CELL_ATOMIC_WHO], other, ATOMIC)
    lane = 1 << thread[THREAD_LANE]
    who = me
    mask = lane
    when = time
    if not ordered(thread, cell[CELL_READ_WHO], cell[CELL_READ_WHEN], masks & LOW):
        if cell[CELL_READ_WHO] & 7 >= ASYNC_OPERATION:
            return  # the async proxy's read is the one to remember: it lasts longer
        who = merged_who(thread, me, cell[CELL_READ_WHO])
        mask = (masks & LOW) | lane
        when = max(time, cell[CELL_READ_WHEN])
    cell[CELL_READ_WHO] = who
    cell[CELL_READ_WHEN] = when
    cell[CELL_MASKS] = (masks & ~LOW) | mask
    cell[CELL_SITES] = (sites & ~(SITE_MASK << 20)) | ((site & SITE_MASK) << 20)


@cuda.jit(device=True)
def last_reader_is_ordered(thread, cell, beside):
    """Whether the last of several readers has released its read, at an mbarrier or a named barrier say, to this thread.

    It stands for all of them: each has released its own read, and a cell holds no list of them.
    """
    level = cell[CELL_READ_WHO] & 7
    if beside == 0 or (level != ONE_WARP and level != ONE_BLOCK):
        return False
    extra = words(beside)
    return ordered(thread, extra[BESIDE_READER], extra[BESIDE_READ_WHEN], 0)


@cuda.jit(device=True)
def check_write(thread, cell, beside, me, time, site, address):
    sites, masks = cell[CELL_SITES], cell[CELL_MASKS]
    if not ordered(thread, cell[CELL_WRITE_WHO], cell[CELL_WRITE_WHEN], 0):
        report_race(thread, RACE_WRITE_WRITE, site, address, WRITE, cell[CELL_WRITE_WHO], sites & SITE_MASK, WRITE)
    if not ordered(thread, cell[CELL_READ_WHO], cell[CELL_READ_WHEN], masks & LOW):
        if not last_reader_is_ordered(thread, cell, beside):
            other = (sites >> 20) & SITE_MASK
            report_race(thread, RACE_READ_WRITE, site, address, WRITE, cell[CELL_READ_WHO], other, READ)
    if not ordered(thread, cell[CELL_ATOMIC_WHO], cell[CELL_ATOMIC_WHEN], masks >> 32 & LOW):
        other = (sites >> 40) & SITE_MASK
        report_race(thread, RACE_ATOMIC_PLAIN, site, address, WRITE, cell[CELL_ATOMIC_WHO], other, ATOMIC)
    cell[CELL_WRITE_WHO] = me
    cell[CELL_WRITE_WHEN] = time
    cell[CELL_READ_WHO] = 0
    cell[CELL_ATOMIC_WHO] = 0
    cell[CELL_MASKS] = 0
    cell[CELL_SITES] = INITIALIZED | (site & SITE_MASK)


@cuda.jit(device=True)
def check_atomic(thread, cell, me, time, site, address):
    sites, masks = cell[CELL_SITES], cell[CELL_MASKS]
    if not ordered(thread, cell[CELL_WRITE_WHO], cell[CELL_WRITE_WHEN], 0):
        report_race(thread, RACE_ATOMIC_PLAIN, site, address, ATOMIC, cell[CELL_WRITE_WHO], sites & SITE_MASK, WRITE)
    if not ordered(thread, cell[CELL_READ_WHO], cell[CELL_READ_WHEN], masks & LOW):
        other = (sites >> 20) & SITE_MASK
        report_race(thread, RACE_ATOMIC_PLAIN, site, address, ATOMIC, cell[CELL_READ_WHO], other, READ)
    lane = 1 << thread[THREAD_LANE]
    who = me
    mask = lane
    when = time
    if not ordered(thread, cell[CELL_ATOMIC_WHO], cell[CELL_ATOMIC_WHEN], masks >> 32 & LOW):
        who = merged_who(thread, me, cell[CELL_ATOMIC_WHO])
        mask = (masks >> 32 & LOW) | lane
        when = max(time, cell[CELL_ATOMIC_WHEN])
    cell[CELL_ATOMIC_WHO] = who
    cell[CELL_ATOMIC_WHEN] = when
    cell[CELL_MASKS] = (masks & LOW) | (mask << 32)
    cell[CELL_SITES] = (sites & ~(SITE_MASK << 40)) | ((site & SITE_MASK) << 40)


@cuda.jit(device=True)
def read_is_plain(thread, cell, time, site):
    """Deals with reads that need no search: of what an earlier epoch wrote, by threads of one warp or block."""
    me = thread[THREAD_IDENTITY]
    block = me >> 13
    epoch = time >> 40
    write_who = cell[CELL_WRITE_WHO]
    if cell[CELL_ATOMIC_WHO] != 0 or (
        write_who != 0 and (write_who >> 13 != block or cell[CELL_WRITE_WHEN] >> 40 >= epoch)
    ):
        return False
    who, when = cell[CELL_READ_WHO], cell[CELL_READ_WHEN]
    lane = 1 << thread[THREAD_LANE]
    if who == 0 or (who >> 13 == block and who & 7 != WHOLE_GRID and when >> 40 < epoch):
        cell[CELL_READ_WHO] = me
        cell[CELL_READ_WHEN] = time
        cell[CELL_MASKS] = lane
    elif when != time:
        return False
    elif who == (ONE_WARP | (me & ~0xFF)):
        cell[CELL_MASKS] |= lane
    elif who & 7 == ONE_THREAD and who >> 8 == me >> 8:
        cell[CELL_READ_WHO] = ONE_WARP | (me & ~0xFF)
        cell[CELL_MASKS] |= lane
    else:
        return False
    cell[CELL_SITES] = (cell[CELL_SITES] & ~(SITE_MASK << 20)) | ((site & SITE_MASK) << 20)
    return True


@cuda.jit(device=True)
def note_beside(thread, beside, access):
    """What a cell of shared memory does not hold: the last reader, and how far the writer had got with proxy fences."""
    extra = words(beside)
    if access == READ:
        extra[BESIDE_READER] = thread[THREAD_IDENTITY]
        extra[BESIDE_READ_WHEN] = now(thread)
    elif access == WRITE:
        extra[BESIDE_WRITTEN] = 1 + words(thread[THREAD_CLOCKS])[PROXY_FENCES]


@cuda.jit(device=True)
def check_cell(thread, cell, beside, flags, site, address, access, uninitialized):
    """One access to one shadow cell; `beside` is the address of what is kept beside it, or 0."""
    me = thread[THREAD_IDENTITY]
    if access == READ and beside == 0:
        # nothing has happened to the thread, or to its block, since this was read
        who, when = cell[CELL_READ_WHO], cell[CELL_READ_WHEN]
        if who == (ONE_BLOCK | (me & ~0x1FFF)) and when >> 40 == thread[THREAD_EPOCH]:
            return
    if access != WRITE and uninitialized != 0 and flags & WATCH_UNINITIALIZED and cell[CELL_SITES] & INITIALIZED == 0:
        record(thread, uninitialized, site, address, access, 0, 0, 0, 0, 0)
        cell[CELL_SITES] |= INITIALIZED
    if flags & WATCH_RACE:
        time = now(thread)
        if access == READ:
            if not read_is_plain(thread, cell, time, site):
                check_read(thread, cell, me, time, site, address)
        elif access == WRITE:
            check_write(thread, cell, beside, me, time, site, address)
        else:
            check_atomic(thread, cell, me, time, site, address)
        if beside != 0:
            note_beside(thread, beside, access)
    elif access != READ:
        cell[CELL_SITES] |= INITIALIZED


@cuda.jit(device=True)
def check_access(thread, site, address, size, access):
    """Checks one access of `size` bytes against every cell that it touches."""
    sanitizer = sanitizer_of(thread)
    flags = sanitizer[SANITIZER_FLAGS]
    if sanitizer[SANITIZER_PREEMPT] != 0:
        worker = words(thread[THREAD_WORKER])
        if next_random(worker) % sanitizer[SANITIZER_PREEMPT] == 0:
            switch(thread, worker[WORKER_STACK_POINTER])
    if flags & WATCH_MEMORY and size > 1 and address & (min(size, 16) - 1) and size & (size - 1) == 0:
        record(thread, MISALIGNED, site, address, access, 0, 0, 0, size, 0)
        stop_launch(thread, site)
    if flags & (WATCH_RACE | WATCH_UNINITIALIZED) == 0:
        return
    block = words(thread[THREAD_BLOCK])
    offset = address - block[BLOCK_SHARED]
    uninitialized = UNINITIALIZED_SHARED
    beside = 0
    if offset >= 0 and offset < block[BLOCK_SHARED_BYTES]:
        shift = sanitizer[SANITIZER_SHARED_SHIFT]
        shadow = block[BLOCK_SHADOW]
        beside = block[BLOCK_BESIDE]
    else:
        found = find_region(sanitizer, address)
        if found == 0:
            return
        region = words(found)
        uninitialized = 0 if region[REGION_WRITTEN] != 0 else UNINITIALIZED_GLOBAL
        offset = address - region[REGION_BASE]
        shift = region[REGION_SHIFT]
        shadow = region[REGION_SHADOW]
    last = (offset + size - 1) >> shift
    for index in range(offset >> shift, last + 1):
        cell = words(shadow + index * CELL_BYTES)
        extra = beside + index * BESIDE_BYTES if beside != 0 else 0
        check_cell(thread, cell, extra, flags, site, address, access, uninitialized)


def read(thread, site, address, size):
    check_access(thread, site, address, size, READ)


def write(thread, site, address, size):
    check_access(thread, site, address, size, WRITE)


def atomic(thread, site, address, size):
    check_access(thread, site, address, size, ATOMIC)
    sanitizer = sanitizer_of(thread)
    if sanitizer[SANITIZER_FLAGS] & WATCH_RACE:
        synchronise_by_atomic(thread, address)


@cuda.jit(device=True)
def report_bounds(thread, site, address, index, length, axis):
    problem = OUT_OF_BOUNDS if index >= length or index < -length else NEGATIVE_INDEX
    record(thread, problem, site, address, axis, 0, 0, 0, index, length)
    stop_launch(thread, site)


def bounds(thread, site, address, index, length, axis):
    """Checks one index of one array access, before it wraps."""
    if index < 0 or index >= length:
        sanitizer = sanitizer_of(thread)
        if sanitizer[SANITIZER_FLAGS] & WATCH_MEMORY:
            report_bounds(thread, site, address, index, length, axis)


@cuda.jit(device=True)
def report_local(thread, site):
    sanitizer = sanitizer_of(thread)
    if sanitizer[SANITIZER_FLAGS] & WATCH_UNINITIALIZED:
        record(thread, UNINITIALIZED_LOCAL, site, 0, READ, 0, 0, 0, 0, 0)


def local_read(thread, site, written):
    """Checks a read of a local array: `written` is what the array's own shadow holds there."""
    if written == 0:
        report_local(thread, site)
