"""Which accesses are ordered: by the program, by barriers, by `syncwarp`, by a fence and atomics.

The first three are decided by comparing counts. Releases (a fence, then an atomic) form a graph: a release knows what
its thread knew, and the release before it at the same address. It is searched only where counts do not order a pair.
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
    ASYNC_OPERATION,
    ASYNC_SEVERAL,
    DEVICE_EPOCH,
    DEVICE_FENCES,
    FENCED_KNOWLEDGE,
    JOIN_CAPACITY,
    JOIN_WORDS,
    NOBODY,
    NODE_MASK,
    ONE_BLOCK,
    ONE_THREAD,
    ONE_WARP,
    RELEASE_ADDRESS,
    RELEASE_BEFORE,
    RELEASE_BLOCK,
    RELEASE_CAPACITY,
    RELEASE_CLOCKS,
    RELEASE_DEVICE_EPOCH,
    RELEASE_DEVICE_FENCES,
    RELEASE_EPOCH,
    RELEASE_FENCES,
    RELEASE_MARK,
    RELEASE_PARENT,
    RELEASE_RANK,
    RELEASE_WORDS,
    SANITIZER_ANSWERS,
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
def covers(release, who, when, reader_block):
    """Whether a release by itself makes an access visible to a block; another block needs a fence of device scope."""
    level, rank, block = who & 7, (who >> 3) & 1023, who >> 13
    epoch, warp_clock, fences = when >> 40, (when >> 20) & 0xFFFFF, when & 0xFFFFF
    if release[RELEASE_BLOCK] != block:
        return False
    released_epoch, released_fences = release[RELEASE_EPOCH], release[RELEASE_FENCES]
    if reader_block != block:
        released_epoch, released_fences = release[RELEASE_DEVICE_EPOCH], release[RELEASE_DEVICE_FENCES]
    if epoch < released_epoch:
        return True
    if level == ONE_THREAD and released_fences > 0:
        if rank == release[RELEASE_RANK]:
            return fences < released_fences
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
    block = words(thread[THREAD_BLOCK])
    query = sanitizer[SANITIZER_QUERY] + 1
    sanitizer[SANITIZER_QUERY] = query
    stack = words(sanitizer[SANITIZER_STACK])
    stack[0] = start
    depth = 1
    while depth > 0:
        depth -= 1
        index = stack[depth]
        release = release_at(sanitizer, index)
        if release[RELEASE_MARK] != query:
            release[RELEASE_MARK] = query
            if who & 7 == ASYNC_OPERATION:
                if index == when:
                    return True
            elif covers(release, who, when, block[BLOCK_LINEAR]):
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
def knows_node(thread, node):
    """Whether the thread has waited for an operation of the async proxy, or for somebody who has."""
    sanitizer = sanitizer_of(thread)
    start = thread[THREAD_KNOWS]
    if start == 0:
        return False
    position = (start * 31 + node * 40503) & (JOIN_CAPACITY - 1)
    answer = words(sanitizer[SANITIZER_ANSWERS] + position * (8 * JOIN_WORDS))
    if answer[0] != start or answer[1] != node:
        answer[2] = 1 if knows(thread, ASYNC_OPERATION, node) else 0
        answer[0] = start
        answer[1] = node
    return answer[2] != 0


@cuda.jit(device=True)
def knows_all(thread, node):
    """The same of all operations that a node of several holds, a chain of nodes (`async_order.several`)."""
    sanitizer = sanitizer_of(thread)
    while node != 0:
        holder = release_at(sanitizer, node)
        if not knows_node(thread, holder[RELEASE_RANK]):
            return False
        node = holder[RELEASE_EPOCH]
    return True


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
    if level == ASYNC_OPERATION:
        return knows_node(thread, when & NODE_MASK)
    if level == ASYNC_SEVERAL:
        return knows_all(thread, when & NODE_MASK)
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
def empty_release(sanitizer, parent, before, address):
    """Adds a node to the graph that releases nothing itself and returns its index; 0 where the table is full."""
    index = sanitizer[SANITIZER_RELEASE_COUNT] + 1
    if index >= RELEASE_CAPACITY:
        sanitizer[SANITIZER_GAVE_UP] = 1
        return 0
    sanitizer[SANITIZER_RELEASE_COUNT] = index
    release = release_at(sanitizer, index)
    for word in range(RELEASE_WORDS):
        release[word] = 0
    release[RELEASE_BLOCK] = -1
    release[RELEASE_PARENT] = parent
    release[RELEASE_BEFORE] = before
    release[RELEASE_ADDRESS] = address
    return index


@cuda.jit(device=True)
def new_release(thread, address, before):
    """Adds the thread's release: what it did before its last fence, what it knew then; 0 where the table is full."""
    sanitizer = sanitizer_of(thread)
    clocks = words(thread[THREAD_CLOCKS])
    index = empty_release(sanitizer, clocks[FENCED_KNOWLEDGE], before, address)
    if index != 0:
        release = release_at(sanitizer, index)
        block = words(thread[THREAD_BLOCK])
        release[RELEASE_BLOCK] = block[BLOCK_LINEAR]
        release[RELEASE_RANK] = thread[THREAD_LINEAR]
        release[RELEASE_EPOCH] = thread[THREAD_FENCE_EPOCH]
        release[RELEASE_FENCES] = thread[THREAD_FENCES]
        release[RELEASE_DEVICE_EPOCH] = clocks[DEVICE_EPOCH]
        release[RELEASE_DEVICE_FENCES] = clocks[DEVICE_FENCES]
        for lane in range(WARP_SIZE):
            release[RELEASE_CLOCKS + lane] = clocks[lane]
    return index


@cuda.jit(device=True)
def learn(thread, release):
    """Adds a release to what the thread knows."""
    known = thread[THREAD_KNOWS]
    if known == 0 or release_at(sanitizer_of(thread), release)[RELEASE_PARENT] == known:
        thread[THREAD_KNOWS] = release
    elif known != release:
        joined = empty_release(sanitizer_of(thread), known, release, 0)
        if joined != 0:
            thread[THREAD_KNOWS] = joined


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
    """What an atomic does to the order: it sees the releases at its address, and adds the thread's own.

    Only what came before the thread's last fence is released, what it had learnt by then included.
    """
    brings = thread[THREAD_FENCES] > thread[THREAD_RELEASED]
    slot_address = sync_slot(thread, address, brings)
    if slot_address == 0:
        return
    slot = words(slot_address)
    newest = slot[1]
    known = thread[THREAD_KNOWS]
    if newest != 0 and known != newest:
        if known != 0 and release_at(sanitizer_of(thread), known)[RELEASE_ADDRESS] == address:
            thread[THREAD_KNOWS] = newest  # what was newest here once is part of what is newest now
        else:
            learn(thread, newest)
    if brings:
        added = new_release(thread, address, newest)
        if added != 0:
            slot[1] = added
            thread[THREAD_RELEASED] = thread[THREAD_FENCES]
            learn(thread, added)
    if thread[THREAD_KNOWS] != 0:
        block = words(thread[THREAD_BLOCK])
        block[BLOCK_KNOWS] = 1


def fence(thread, device_scope):
    """`threadfence`: what comes before may be released by the next atomic, to other blocks if of device scope."""
    thread[THREAD_FENCES] += 1
    thread[THREAD_FENCE_EPOCH] = thread[THREAD_EPOCH]
    clocks = words(thread[THREAD_CLOCKS])
    clocks[FENCED_KNOWLEDGE] = thread[THREAD_KNOWS]
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_FENCED] |= 1
    if device_scope != 0:
        clocks[DEVICE_FENCES] = thread[THREAD_FENCES]
        clocks[DEVICE_EPOCH] = thread[THREAD_EPOCH]
        block[BLOCK_FENCED] |= 2


@cuda.jit(device=True)
def join_knowledge(first_thread, other):
    """Makes the first thread know what the other knows."""
    more = other[THREAD_KNOWS]
    if more != 0 and more != first_thread[THREAD_KNOWS]:
        learn(first_thread, more)
