"""The order of what happens asynchronously: operations of the async proxy as nodes in the graph of releases.

An operation (a bulk copy, a group of `wgmma` products) gets a node when it starts, and its accesses carry that node as
their time. Whoever waits for the operation learns the node; a barrier, an mbarrier or an atomic passes it on like
everything else that a thread knows (`happens_before.py`). An access that conflicts with one of the operation's is in
order only after the node is known. mbarriers keep two releases: the newest, and the newest of the phase that has ended.
"""

from numba import cuda

from .findings import sanitizer_of
from .happens_before import empty_release, fence, learn, new_release, release_at, sync_slot
from .layout import (
    BLOCK_KNOWS,
    THREAD_BLOCK,
    THREAD_FENCES,
    THREAD_KNOWS,
    THREAD_RELEASED,
    THREAD_WORKER,
    WORKER_SANITIZER,
)
from .primitives import words
from .shadow_layout import (
    JOIN_CAPACITY,
    JOIN_WORDS,
    RELEASE_EPOCH,
    RELEASE_RANK,
    SANITIZER_FLAGS,
    SANITIZER_JOINS,
    WATCH_RACE,
)

ENDED = 1  # added to the address of an mbarrier: the slot of the phase that has ended
BLOCK_SCOPE = 0
note_fence = cuda.jit(device=True)(fence)


@cuda.jit(device=True)
def races_watched(thread):
    """Whether the race sanitizer watches."""
    worker = words(thread[THREAD_WORKER])
    return worker[WORKER_SANITIZER] != 0 and sanitizer_of(thread)[SANITIZER_FLAGS] & WATCH_RACE != 0


@cuda.jit(device=True)
def new_node(thread, before):
    """The node of an operation that starts; whoever knows it knows the node `before` too. 0 where the table is full."""
    return empty_release(sanitizer_of(thread), 0, before, 0)


@cuda.jit(device=True)
def join_slot(sanitizer, first, second):
    """The row of the table of joins in which a pair belongs."""
    position = (first * 31 + second * 40503) & (JOIN_CAPACITY - 1)
    return words(sanitizer[SANITIZER_JOINS] + position * (8 * JOIN_WORDS))


@cuda.jit(device=True)
def learn_node(thread, node):
    """Adds a node to what a thread knows; threads that knew the same share the result."""
    known = thread[THREAD_KNOWS]
    if node == 0 or node == known:
        return
    sanitizer = sanitizer_of(thread)
    slot = join_slot(sanitizer, known, node)
    if slot[0] != known or slot[1] != node or slot[2] == 0:
        learn(thread, node)
        slot[0] = known
        slot[1] = node
        slot[2] = thread[THREAD_KNOWS]
    else:
        thread[THREAD_KNOWS] = slot[2]
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_KNOWS] = 1


@cuda.jit(device=True)
def several(thread, first_is_several, first, node):
    """A holder of a node beside what another holds (or beside a single node): reads that no later one covers."""
    sanitizer = sanitizer_of(thread)
    slot = join_slot(sanitizer, -first, node)
    if slot[0] != -first or slot[1] != node or slot[2] == 0:
        rest = first
        if not first_is_several:
            rest = empty_release(sanitizer, 0, 0, 0)
            release_at(sanitizer, rest)[RELEASE_RANK] = first
        holder = empty_release(sanitizer, 0, 0, 0)
        if holder == 0 or rest == 0:
            return 0
        release_at(sanitizer, holder)[RELEASE_RANK] = node
        release_at(sanitizer, holder)[RELEASE_EPOCH] = rest
        slot[0] = -first
        slot[1] = node
        slot[2] = holder
    return slot[2]


@cuda.jit(device=True)
def holds(thread, holder, node):
    """Whether a holder of several already has a node."""
    sanitizer = sanitizer_of(thread)
    while holder != 0:
        if release_at(sanitizer, holder)[RELEASE_RANK] == node:
            return True
        holder = release_at(sanitizer, holder)[RELEASE_EPOCH]
    return False


# --- mbarriers ------------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def release_to(thread, address):
    """An arrival: what the thread has done and known so far goes to those that wait for the phase."""
    slot_address = sync_slot(thread, address, True)
    if slot_address == 0:
        return
    note_fence(thread, BLOCK_SCOPE)
    slot = words(slot_address)
    added = new_release(thread, address, slot[1])
    if added != 0:
        slot[1] = added
        thread[THREAD_RELEASED] = thread[THREAD_FENCES]


@cuda.jit(device=True)
def release_node_to(thread, address, node):
    """A bulk copy that lands: its bytes go to those that wait for the phase."""
    slot_address = sync_slot(thread, address, True)
    if slot_address == 0 or node == 0:
        return
    slot = words(slot_address)
    added = empty_release(sanitizer_of(thread), node, slot[1], address)
    if added != 0:
        slot[1] = added


@cuda.jit(device=True)
def end_phase(thread, address):
    """What has been released so far is what waiters for this phase will learn."""
    newest, ended = sync_slot(thread, address, True), sync_slot(thread, address + ENDED, True)
    if newest != 0 and ended != 0:
        words(ended)[1] = words(newest)[1]


@cuda.jit(device=True)
def acquire_from(thread, address):
    """A wait that has succeeded."""
    ended = sync_slot(thread, address + ENDED, False)
    if ended != 0:
        learn_node(thread, words(ended)[1])


@cuda.jit(device=True)
def forget_mbarrier(thread, address):
    """A fresh mbarrier: nobody has arrived."""
    newest, ended = sync_slot(thread, address, False), sync_slot(thread, address + ENDED, False)
    if newest != 0:
        words(newest)[1] = 0
    if ended != 0:
        words(ended)[1] = 0
