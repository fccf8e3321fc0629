"""Which accesses are ordered: by the program, by barriers, by `syncwarp`, by a fence and an atomic that another atomic sees.

The first three are decided by comparing counts. Releases (a fence, then an atomic) form a graph: a release knows what
its thread knew, and the release before it at the same address. It is searched only where the counts do not order a pair.
"""

from numba import cuda

from .findings import sanitizer_of
from .layout import (
    BLOCK_FENCED,
    BLOCK_KNOWS,
    BLOCK_LINEAR,
    THREAD_BLOCK,
    THREAD_CLOCKS,
    THREAD_EPOCH,
    THREAD_FENCE_EPOCH,
    THREAD_FENCES,
    THREAD_KNOWS,
    THREAD_LANE,
    THREAD_LINEAR,
    THREAD_RELEASED,
    THREAD_WARP,
    WARP_SIZE,
)
from .primitives import address_of, words
from .shadow_layout import (
    NOBODY,
    ONE_BLOCK,
    ONE_THREAD,
    ONE_WARP,
    RELEASE_ADDRESS,
    RELEASE_BEFORE,
    RELEASE_BLOCK,
    RELEASE_CAPACITY,
    RELEASE_CLOCKS,
    RELEASE_EPOCH,
    RELEASE_FENCES,
    RELEASE_MARK,
    RELEASE_PARENT,
    RELEASE_RANK,
    RELEASE_WORDS,
    SANITIZER_GAVE_UP,
    SANITIZER_QUERY,
    SANITIZER_RELEASE_COUNT,
    SANITIZER_RELEASES,
    SANITIZER_STACK,
    SANITIZER_SYNC,
    STACK_CAPACITY,
    SYNC_CAPACITY,
    WHOLE_GRID,
)


@cuda.jit(device=True)
def now(thread):
    """The time of an access by this thread: epoch, its warp clock, its fences."""
    clocks = words(thread[THREAD_CLOCKS])
    return (thread[THREAD_EPOCH] << 40) | (clocks[thread[THREAD_LANE]] << 20) | thread[THREAD_FENCES]


@cuda.jit(device=True)
def release_at(sanitizer, index):
    return words(sanitizer[SANITIZER_RELEASES] + index * (8 * RELEASE_WORDS))


@cuda.jit(device=True)
def covers(release, who, when):
    """Whether a release by itself makes an access visible."""
    level, rank, block = who & 7, (who >> 3) & 1023, who >> 13
    epoch, warp_clock, fences = when >> 40, (when >> 20) & 0xFFFFF, when & 0xFFFFF
    if release[RELEASE_BLOCK] != block:
        return False
    if epoch < release[RELEASE_EPOCH]:
        return True
    if level == ONE_THREAD:
        if rank == release[RELEASE_RANK]:
            return fences < release[RELEASE_FENCES]
        if rank // WARP_SIZE == release[RELEASE_RANK] // WARP_SIZE:
            return release[RELEASE_CLOCKS + (rank & 31)] > warp_clock
    return False


@cuda.jit(device=True)
def knows(thread, who, when):
    """Whether a release that the thread has seen, directly or through others, makes an access visible."""
    start = thread[THREAD_KNOWS]
    if start == 0:
        return False
    sanitizer = sanitizer_of(thread)
    if sanitizer[SANITIZER_GAVE_UP] != 0 or who & 7 == WHOLE_GRID:
        return True
    query = sanitizer[SANITIZER_QUERY] + 1
    sanitizer[SANITIZER_QUERY] = query
    stack = words(sanitizer[SANITIZER_STACK])
    stack[0] = start
    depth = 1
    while depth > 0:
        depth -= 1
        release = release_at(sanitizer, stack[depth])
        if release[RELEASE_MARK] != query:
            release[RELEASE_MARK] = query
            if covers(release, who, when):
                return True
            if depth + 2 >= STACK_CAPACITY:
                return True
            if release[RELEASE_PARENT] != 0:
                stack[depth] = release[RELEASE_PARENT]
                depth += 1
            if release[RELEASE_BEFORE] != 0:
                stack[depth] = release[RELEASE_BEFORE]
                depth += 1
    return False


@cuda.jit(device=True)
def warp_is_known(thread, mask, warp_clock):
    """Whether the thread has synchronised with every lane of `mask` since the lane's clock stood at `warp_clock`."""
    clocks = words(thread[THREAD_CLOCKS])
    own = thread[THREAD_LANE]
    for lane in range(WARP_SIZE):
        if (mask >> lane) & 1 and lane != own and clocks[lane] <= warp_clock:
            return False
    return True


@cuda.jit(device=True)
def ordered(thread, who, when, mask):
    """Whether an earlier access (who, when; `mask` holds the lanes where one warp holds them all) comes before now."""
    level = who & 7
    if level == NOBODY:
        return True
    block = words(thread[THREAD_BLOCK])
    if level != WHOLE_GRID and who >> 13 == block[BLOCK_LINEAR]:
        rank = (who >> 3) & 1023
        if (when >> 40) < thread[THREAD_EPOCH]:
            return True
        warp_clock = (when >> 20) & 0xFFFFF
        if level == ONE_THREAD:
            if rank == thread[THREAD_LINEAR]:
                return True
            if rank // WARP_SIZE == thread[THREAD_WARP] and warp_is_known(thread, 1 << (rank & 31), warp_clock):
                return True
        elif level == ONE_WARP and rank // WARP_SIZE == thread[THREAD_WARP] and warp_is_known(thread, mask, warp_clock):
            return True
    return knows(thread, who, when)


@cuda.jit(device=True)
def merged_who(thread, me, who):
    """The least of thread, warp, block and grid that holds both `who` and the thread."""
    level = who & 7
    block = words(thread[THREAD_BLOCK])
    if level == WHOLE_GRID or who >> 13 != block[BLOCK_LINEAR]:
        return WHOLE_GRID
    same_warp = ((who >> 3) & 1023) // WARP_SIZE == thread[THREAD_WARP]
    if level <= ONE_WARP and same_warp:
        return ONE_WARP | (me & ~0xFF)  # the warp's first rank
    return ONE_BLOCK | (me & ~0x1FFF)


@cuda.jit(device=True)
def new_release(thread, address, before):
    """Adds a release by the thread to the graph and returns its index; 0 where the table is full."""
    sanitizer = sanitizer_of(thread)
    index = sanitizer[SANITIZER_RELEASE_COUNT] + 1
    if index >= RELEASE_CAPACITY:
        sanitizer[SANITIZER_GAVE_UP] = 1
        return 0
    sanitizer[SANITIZER_RELEASE_COUNT] = index
    release = release_at(sanitizer, index)
    block = words(thread[THREAD_BLOCK])
    clocks = words(thread[THREAD_CLOCKS])
    release[RELEASE_BLOCK] = block[BLOCK_LINEAR]
    release[RELEASE_EPOCH] = thread[THREAD_FENCE_EPOCH]
    release[RELEASE_RANK] = thread[THREAD_LINEAR]
    release[RELEASE_FENCES] = thread[THREAD_FENCES]
    release[RELEASE_PARENT] = thread[THREAD_KNOWS]
    release[RELEASE_BEFORE] = before
    release[RELEASE_ADDRESS] = address
    release[RELEASE_MARK] = 0
    for lane in range(WARP_SIZE):
        release[RELEASE_CLOCKS + lane] = clocks[lane] if thread[THREAD_FENCES] > 0 else 0
    return index


@cuda.jit(device=True)
def sync_slot(thread, address, insert):
    """The slot of an address in the table of atomics' newest releases: its address, or 0 where there is none."""
    sanitizer = sanitizer_of(thread)
    position = (address >> 2) * 40503 & (SYNC_CAPACITY - 1)
    for _ in range(64):
        slot = words(sanitizer[SANITIZER_SYNC] + position * 16)
        if slot[0] == address:
            return address_of(slot)
        if slot[0] == 0:
            if insert:
                slot[0] = address
                return address_of(slot)
            return 0
        position = (position + 1) & (SYNC_CAPACITY - 1)
    sanitizer[SANITIZER_GAVE_UP] = 1
    return 0


@cuda.jit(device=True)
def synchronise_by_atomic(thread, address):
    """What an atomic does to the order: it sees the releases at its address, and adds the thread's own."""
    brings = thread[THREAD_FENCES] > thread[THREAD_RELEASED] or thread[THREAD_KNOWS] != 0
    slot_address = sync_slot(thread, address, brings)
    if slot_address == 0:
        return
    slot = words(slot_address)
    newest = slot[1]
    sanitizer = sanitizer_of(thread)
    known = thread[THREAD_KNOWS]
    if newest != 0 and known != 0 and known != newest and release_at(sanitizer, known)[RELEASE_ADDRESS] == address:
        known = newest  # what was newest here once is part of what is newest now
        thread[THREAD_KNOWS] = newest
    if thread[THREAD_FENCES] > thread[THREAD_RELEASED] or (known != 0 and known != newest):
        added = new_release(thread, address, newest)
        if added != 0:
            slot[1] = added
            thread[THREAD_KNOWS] = added
            thread[THREAD_RELEASED] = thread[THREAD_FENCES]
    elif newest != 0:
        thread[THREAD_KNOWS] = newest
    if thread[THREAD_KNOWS] != 0:
        block = words(thread[THREAD_BLOCK])
        block[BLOCK_KNOWS] = 1


@cuda.jit(device=True)
def note_fence(thread):
    thread[THREAD_FENCES] += 1
    thread[THREAD_FENCE_EPOCH] = thread[THREAD_EPOCH]
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_FENCED] = 1


def fence(thread):
    """`threadfence` of any scope: what comes before may be released by the next atomic."""
    note_fence(thread)


@cuda.jit(device=True)
def join_knowledge(first_thread, other):
    """Makes the first thread know what the other knows."""
    known, more = first_thread[THREAD_KNOWS], other[THREAD_KNOWS]
    if more != 0 and more != known:
        if known == 0:
            first_thread[THREAD_KNOWS] = more
        else:
            joined = new_release(first_thread, 0, more)
            if joined != 0:
                release = release_at(sanitizer_of(first_thread), joined)
                release[RELEASE_EPOCH] = 0
                release[RELEASE_FENCES] = 0
                for lane in range(WARP_SIZE):
                    release[RELEASE_CLOCKS + lane] = 0
                first_thread[THREAD_KNOWS] = joined
