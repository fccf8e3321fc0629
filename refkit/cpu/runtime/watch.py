"""What the sanitizers do at synchronisation points: the order that a barrier or a `syncwarp` makes, and its misuse."""

from numba import cuda

from .findings import identity, record, sanitizer_of
from .happens_before import join_knowledge
from .layout import (
    AT_BARRIER,
    BLOCK_ALIVE,
    BLOCK_BESIDE,
    BLOCK_FENCED,
    BLOCK_KNOWS,
    BLOCK_LINEAR,
    BLOCK_SHADOW,
    BLOCK_THREADS,
    BLOCK_WORDS,
    THREAD_BLOCK,
    THREAD_CLOCKS,
    THREAD_EPOCH,
    THREAD_FENCE_EPOCH,
    THREAD_FENCES,
    THREAD_IDENTITY,
    THREAD_KNOWS,
    THREAD_LINEAR,
    THREAD_MASK,
    THREAD_RELEASED,
    THREAD_SANITIZER,
    THREAD_SITE,
    THREAD_STATE,
    THREAD_WORDS,
    THREAD_WORKER,
    WARP_SIZE,
    WORKER_BLOCKS,
    WORKER_GROUP_BLOCKS,
    WORKER_SANITIZER,
)
from .primitives import fill_bytes, words
from .shadow_layout import (
    CELL_BYTES,
    CELL_SITES,
    CELL_WORDS,
    CLOCK_WORDS,
    DEVICE_EPOCH,
    DEVICE_FENCES,
    DIVERGENT_BARRIER,
    EXITED_THREADS,
    FENCED_KNOWLEDGE,
    INITIALIZED,
    ONE_THREAD,
    OPERATION,
    READS_ABSENT_LANE,
    REGION_BASE,
    REGION_END,
    REGION_SHADOW,
    REGION_SHIFT,
    REGION_WORDS,
    SANITIZER_BESIDE_BYTES,
    SANITIZER_FLAGS,
    SANITIZER_REGION_COUNT,
    SANITIZER_REGIONS,
    SANITIZER_SHARED_CELL_BYTES,
    WATCH_BARRIER,
)

LANE_BYTES = 8 * THREAD_WORDS


@cuda.jit(device=True)
def thread_at(block, rank):
    return words(block[BLOCK_THREADS] + rank * LANE_BYTES)


@cuda.jit(device=True)
def watched(block):
    """Whether the sanitizers watch this block."""
    return words(thread_at(block, 0)[THREAD_WORKER])[WORKER_SANITIZER] != 0


@cuda.jit(device=True)
def forget(thread):
    """A fresh thread has synchronised with nobody."""
    block = words(thread[THREAD_BLOCK])
    worker = words(thread[THREAD_WORKER])
    thread[THREAD_SANITIZER] = worker[WORKER_SANITIZER]
    thread[THREAD_IDENTITY] = ONE_THREAD | (thread[THREAD_LINEAR] << 3) | (block[BLOCK_LINEAR] << 13)
    clocks = words(thread[THREAD_CLOCKS])
    for word in range(CLOCK_WORDS):
        clocks[word] = 0
    thread[THREAD_EPOCH] = 0
    thread[THREAD_FENCES] = 0
    thread[THREAD_FENCE_EPOCH] = 0
    thread[THREAD_RELEASED] = 0
    thread[THREAD_KNOWS] = 0


@cuda.jit(device=True)
def clear_shared_shadow(block):
    """Shared memory of a fresh block: nobody has written it."""
    sanitizer = words(words(thread_at(block, 0)[THREAD_WORKER])[WORKER_SANITIZER])
    fill_bytes(block[BLOCK_SHADOW], 0, sanitizer[SANITIZER_SHARED_CELL_BYTES])
    if block[BLOCK_BESIDE] != 0:
        fill_bytes(block[BLOCK_BESIDE], 0, sanitizer[SANITIZER_BESIDE_BYTES])
    block[BLOCK_FENCED] = 0
    block[BLOCK_KNOWS] = 0


@cuda.jit(device=True)
def check_barrier(block, thread_count):
    """Reports threads that wait at another barrier than the rest, and barriers that some threads never reach."""
    first_site = -1
    first_rank = -1
    for t in range(thread_count):
        thread = thread_at(block, t)
        if thread[THREAD_STATE] == AT_BARRIER:
            if first_site < 0:
                first_site, first_rank = thread[THREAD_SITE], t
            elif thread[THREAD_SITE] != first_site:
                other = thread_at(block, first_rank)
                who = identity(other)
                record(thread, DIVERGENT_BARRIER, thread[THREAD_SITE], 0, OPERATION, who, first_site, OPERATION, 0, 0)
    if block[BLOCK_ALIVE] < thread_count and first_rank >= 0:
        thread = thread_at(block, first_rank)
        missing = thread_count - block[BLOCK_ALIVE]
        record(thread, EXITED_THREADS, first_site, 0, OPERATION, 0, 0, 0, missing, thread_count)


@cuda.jit(device=True)
def barrier_passed(block, thread_count):
    """A block barrier: what its threads did before it comes before what they do after it."""
    sanitizer = sanitizer_of(thread_at(block, 0))
    if sanitizer[SANITIZER_FLAGS] & WATCH_BARRIER:
        check_barrier(block, thread_count)
    fenced, knowing = block[BLOCK_FENCED], block[BLOCK_KNOWS]
    first = -1
    for t in range(thread_count):
        thread = thread_at(block, t)
        if thread[THREAD_STATE] == AT_BARRIER:
            thread[THREAD_EPOCH] += 1
            if fenced != 0:  # a fence before the barrier serves the threads behind it as well
                thread[THREAD_FENCES] += 1
                thread[THREAD_FENCE_EPOCH] = thread[THREAD_EPOCH]
                if fenced & 2:
                    clocks = words(thread[THREAD_CLOCKS])
                    clocks[DEVICE_FENCES] = thread[THREAD_FENCES]
                    clocks[DEVICE_EPOCH] = thread[THREAD_EPOCH]
            if first < 0:
                first = t
            elif knowing != 0:
                join_knowledge(thread_at(block, first), thread)
    if knowing != 0:
        known = thread_at(block, first)[THREAD_KNOWS]
        for t in range(thread_count):
            thread = thread_at(block, t)
            if thread[THREAD_STATE] == AT_BARRIER:
                thread[THREAD_KNOWS] = known
                if fenced != 0:
                    clocks = words(thread[THREAD_CLOCKS])
                    clocks[FENCED_KNOWLEDGE] = known
    block[BLOCK_FENCED] = 0


@cuda.jit(device=True)
def warp_synchronised(first, count, arrived):
    """`syncwarp`: every lane that takes part knows what any of them knew."""
    leader = -1
    for lane in range(count):
        if (arrived >> lane) & 1:
            thread = words(first + lane * LANE_BYTES)
            if leader < 0:
                leader = lane
            else:
                head = words(first + leader * LANE_BYTES)
                mine, joined = words(thread[THREAD_CLOCKS]), words(head[THREAD_CLOCKS])
                for k in range(WARP_SIZE):
                    joined[k] = max(joined[k], mine[k])
                if thread[THREAD_KNOWS] != 0:
                    join_knowledge(head, thread)
    head = words(first + leader * LANE_BYTES)
    joined = words(head[THREAD_CLOCKS])
    for lane in range(count):
        if (arrived >> lane) & 1:
            joined[lane] += 1
    for lane in range(count):
        if (arrived >> lane) & 1 and lane != leader:
            thread = words(first + lane * LANE_BYTES)
            mine = words(thread[THREAD_CLOCKS])
            for k in range(WARP_SIZE):
                mine[k] = joined[k]
            thread[THREAD_KNOWS] = head[THREAD_KNOWS]


@cuda.jit(device=True)
def report_absent_lane(thread, source):
    """A shuffle that reads a lane which takes no part."""
    sanitizer = sanitizer_of(thread)
    if sanitizer[SANITIZER_FLAGS] & WATCH_BARRIER:
        mask = thread[THREAD_MASK]
        record(thread, READS_ABSENT_LANE, thread[THREAD_SITE], 0, OPERATION, 0, 0, 0, mask, source)


@cuda.jit(device=True)
def grid_barrier_passed(worker):
    """A grid barrier orders everything: the shadows keep only what is initialised."""
    sanitizer = words(worker[WORKER_SANITIZER])
    for i in range(sanitizer[SANITIZER_REGION_COUNT]):
        region = words(sanitizer[SANITIZER_REGIONS] + i * (8 * REGION_WORDS))
        cells = (region[REGION_END] - region[REGION_BASE] + (1 << region[REGION_SHIFT]) - 1) >> region[REGION_SHIFT]
        for c in range(cells):
            cell = words(region[REGION_SHADOW] + c * CELL_BYTES)
            state = cell[CELL_SITES] & INITIALIZED
            if state != cell[CELL_SITES] or cell[0] != 0 or cell[2] != 0 or cell[4] != 0:
                for k in range(CELL_WORDS):
                    cell[k] = 0
                cell[CELL_SITES] = state
    for b in range(worker[WORKER_GROUP_BLOCKS]):
        block = words(worker[WORKER_BLOCKS] + b * (8 * BLOCK_WORDS))
        count = 0
        while count < sanitizer[SANITIZER_SHARED_CELL_BYTES]:
            cell = words(block[BLOCK_SHADOW] + count)
            state = cell[CELL_SITES] & INITIALIZED
            for k in range(CELL_WORDS):
                cell[k] = 0
            cell[CELL_SITES] = state
            count += CELL_BYTES
