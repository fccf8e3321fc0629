"""The scheduler of one worker: takes blocks from the launch, runs their threads as fibers, ends what they wait for.

A thread runs until it waits or exits: warps in order and lanes in order, or, with a schedule seed, in an order drawn
anew for every pass, so that code which relies on an order between two synchronisation points is exposed.
"""

from numba import cuda

from ..fibers import FRAME_ENTRY, FRAME_FIRST, FRAME_RETURN, FRAME_SECOND, FRAME_WORDS
from .bulk_copies import carry_out_rest, forget_bulk_copies, land_awaited, land_one
from .copies import forget_copies, let_rest_arrive
from .layout import (
    AT_BARRIER,
    AT_GRID_BARRIER,
    BARRIER_AND,
    BARRIER_OR,
    BARRIER_PLAIN,
    BLOCK_ALIVE,
    BLOCK_AT_BARRIER,
    BLOCK_AT_WARPGROUP,
    BLOCK_BULK_COPIES,
    BLOCK_CTAID_X,
    BLOCK_CTAID_Y,
    BLOCK_CTAID_Z,
    BLOCK_LINEAR,
    BLOCK_NAMED_BARRIERS,
    BLOCK_NCTAID_X,
    BLOCK_NCTAID_Y,
    BLOCK_SHADOW,
    BLOCK_SHARED,
    BLOCK_THREADS,
    BLOCK_WORDS,
    DEADLOCKED,
    DONE,
    EXITED,
    LAUNCH_BLOCK_FACTOR,
    LAUNCH_BLOCK_LIST,
    LAUNCH_BLOCK_OFFSET,
    LAUNCH_BLOCK_SPAN,
    LAUNCH_BLOCKS,
    LAUNCH_ENTRY,
    LAUNCH_NEXT_BLOCK,
    LAUNCH_SHARED_BYTES,
    LAUNCH_STOP,
    LAUNCH_THREADS_PER_BLOCK,
    NAMED_BARRIERS,
    POLL_FUEL,
    RUNNABLE,
    SHARED_FILL,
    STOPPED,
    THREAD_BLOCK,
    THREAD_BULK_COPIES,
    THREAD_FUEL,
    THREAD_OPERATION,
    THREAD_PRODUCT_FENCES,
    THREAD_PRODUCTS,
    THREAD_PRODUCTS_DONE,
    THREAD_PRODUCTS_OPEN,
    THREAD_RESULT,
    THREAD_SITE,
    THREAD_STACK_POINTER,
    THREAD_STACK_TOP,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORDS,
    THREAD_WORKER,
    WARP_SIZE,
    WORKER_ABANDONED,
    WORKER_ALIVE,
    WORKER_AT_GRID_BARRIER,
    WORKER_BLOCKS,
    WORKER_FIRST_BLOCK,
    WORKER_GROUP_BLOCKS,
    WORKER_IN_KERNEL,
    WORKER_LAUNCH,
    WORKER_PHASES,
    WORKER_RANDOM,
    WORKER_RESIDENT,
    WORKER_SANITIZER,
    WORKER_STACK_POINTER,
    WORKER_STACK_TOP,
    WORKER_STATUS,
)
from .mbarrier import return_early
from .primitives import (
    address_of,
    address_of_plain_main,
    address_of_start,
    address_of_thread_main,
    call_address,
    fetch_add,
    fill_bytes,
    load,
    switch,
    words,
)
from .randomness import next_random
from .warp import complete_activemasks, complete_warp_operations
from .warpgroups import complete_warpgroup_operations
from .watch import barrier_passed, clear_shared_shadow, forget, grid_barrier_passed, watched

PATIENCE = 64  # rounds of early returns in which nothing but waiting happens, before a launch counts as deadlocked


@cuda.jit(device=True)
def prepare_stack(top, entry, first, second):
    """Lays out a fresh stack so that the first switch to it calls `entry(first, second)`; returns its stack pointer."""
    pointer = top - 8 * FRAME_WORDS
    frame = words(pointer)
    for i in range(FRAME_WORDS):
        frame[i] = 0
    frame[FRAME_ENTRY] = entry
    frame[FRAME_FIRST] = first
    frame[FRAME_SECOND] = second
    frame[FRAME_RETURN] = address_of_start()
    return pointer


def thread_main(thread, worker):
    """What a thread's fiber executes: the kernel, then exit."""
    launch = words(worker[WORKER_LAUNCH])
    call_address(launch[LAUNCH_ENTRY], thread, worker)
    let_rest_arrive(thread)
    carry_out_rest(thread)
    thread[THREAD_STATE] = EXITED
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_ALIVE] -= 1
    worker[WORKER_ALIVE] -= 1
    switch(thread, worker[WORKER_STACK_POINTER])


@cuda.jit(device=True)
def power_of_two_above(n):
    span = 1
    while span < n:
        span *= 2
    return span


@cuda.jit(device=True)
def resume(worker, thread):
    worker[WORKER_IN_KERNEL] = 1
    switch(worker, thread[THREAD_STACK_POINTER])
    worker[WORKER_IN_KERNEL] = 0


@cuda.jit(device=True)
def run_lanes(worker, first, count):
    """Resumes every runnable lane of a warp once; returns how many it resumed (a lane may pass on to the next)."""
    ran = 0
    launch = words(worker[WORKER_LAUNCH])
    factor, offset, span = 1, 0, count
    if worker[WORKER_RANDOM] != 0:
        span = power_of_two_above(count)
        factor = next_random(worker) | 1
        offset = next_random(worker)
    for i in range(span):
        index = i
        if worker[WORKER_RANDOM] != 0:
            index = (i * factor + offset) & (span - 1)
        if index < count:
            thread = words(first + index * (8 * THREAD_WORDS))
            if thread[THREAD_STATE] == RUNNABLE and load(launch, LAUNCH_STOP) == 0:
                ran += 1
                resume(worker, thread)
    return ran


@cuda.jit(device=True)
def run_warp(worker, launch, block, warp, thread_count):
    """Runs one warp until none of its lanes can go on or all have given way; returns how many resumptions it took."""
    first = block[BLOCK_THREADS] + warp * WARP_SIZE * 8 * THREAD_WORDS
    count = min(WARP_SIZE, thread_count - warp * WARP_SIZE)
    total = 0
    again = True
    while again:
        ran = run_lanes(worker, first, count)
        total += ran
        again = complete_warp_operations(first, count) > 0
        if not again:
            again = complete_activemasks(first, count) > 0
        if again and load(launch, LAUNCH_STOP) != 0:
            again = False
    return total


@cuda.jit(device=True)
def give_barrier_results(block, thread_count, waiting, true):
    for t in range(thread_count):
        thread = words(block[BLOCK_THREADS] + t * (8 * THREAD_WORDS))
        if thread[THREAD_STATE] == AT_BARRIER:
            operation = thread[THREAD_OPERATION]
            result = true
            if operation == BARRIER_AND:
                result = 1 if true == waiting else 0
            elif operation == BARRIER_OR:
                result = 1 if true > 0 else 0
            thread[THREAD_RESULT] = result
            thread[THREAD_STATE] = RUNNABLE


@cuda.jit(device=True)
def release_barrier(block, thread_count):
    """Makes every thread that waits at the barrier runnable, with its result where the barrier reduces a predicate."""
    if watched(block):
        barrier_passed(block, thread_count)
    waiting = 0
    true = 0
    reducing = False
    for t in range(thread_count):
        thread = words(block[BLOCK_THREADS] + t * (8 * THREAD_WORDS))
        if thread[THREAD_STATE] == AT_BARRIER:
            waiting += 1
            if thread[THREAD_OPERATION] == BARRIER_PLAIN:
                thread[THREAD_STATE] = RUNNABLE
            else:
                reducing = True
                if thread[THREAD_VALUE] != 0:
                    true += 1
    if reducing:
        give_barrier_results(block, thread_count, waiting, true)
    block[BLOCK_AT_BARRIER] = 0
    words(words(block[BLOCK_THREADS])[THREAD_WORKER])[WORKER_PHASES] += 1


@cuda.jit(device=True)
def release_grid_barrier(worker, thread_count):
    if worker[WORKER_SANITIZER] != 0:
        grid_barrier_passed(worker)
    for b in range(worker[WORKER_GROUP_BLOCKS]):
        block = words(worker[WORKER_BLOCKS] + b * (8 * BLOCK_WORDS))
        for t in range(thread_count):
            thread = words(block[BLOCK_THREADS] + t * (8 * THREAD_WORDS))
            if thread[THREAD_STATE] == AT_GRID_BARRIER:
                thread[THREAD_STATE] = RUNNABLE
    worker[WORKER_AT_GRID_BARRIER] = 0


@cuda.jit(device=True)
def place_block(block, launch, linear):
    """Sets a block control block to one block of the grid and poisons its shared memory."""
    nx, ny = block[BLOCK_NCTAID_X], block[BLOCK_NCTAID_Y]
    block[BLOCK_LINEAR] = linear
    block[BLOCK_CTAID_X] = linear % nx
    block[BLOCK_CTAID_Y] = (linear // nx) % ny
    block[BLOCK_CTAID_Z] = linear // (nx * ny)
    block[BLOCK_AT_BARRIER] = 0
    block[BLOCK_AT_WARPGROUP] = 0
    forget_bulk_copies(block, BLOCK_BULK_COPIES)
    for i in range(NAMED_BARRIERS):
        block[BLOCK_NAMED_BARRIERS + i] = 0
    fill_bytes(block[BLOCK_SHARED], SHARED_FILL, launch[LAUNCH_SHARED_BYTES])
    if block[BLOCK_SHADOW] != 0:
        clear_shared_shadow(block)


@cuda.jit(device=True)
def start_threads(worker, block, thread_count):
    entry = address_of_thread_main()
    watching = worker[WORKER_SANITIZER] != 0
    for t in range(thread_count):
        address = block[BLOCK_THREADS] + t * (8 * THREAD_WORDS)
        thread = words(address)
        thread[THREAD_STATE] = RUNNABLE
        thread[THREAD_SITE] = -1
        thread[THREAD_FUEL] = POLL_FUEL
        forget_copies(thread)
        forget_bulk_copies(thread, THREAD_BULK_COPIES)
        thread[THREAD_PRODUCTS] = thread[THREAD_PRODUCTS_DONE] = thread[THREAD_PRODUCTS_OPEN] = 0
        thread[THREAD_PRODUCT_FENCES] = 0
        if watching:
            forget(thread)
        thread[THREAD_STACK_POINTER] = prepare_stack(thread[THREAD_STACK_TOP], entry, address, address_of(worker))
    block[BLOCK_ALIVE] = thread_count


@cuda.jit(device=True)
def run_pass(worker, launch, thread_count):
    """One pass over the resident blocks and their warps; returns how many resumptions and releases it made."""
    group = worker[WORKER_GROUP_BLOCKS]
    warps = (thread_count + WARP_SIZE - 1) // WARP_SIZE
    seeded = worker[WORKER_RANDOM] != 0
    block_span, warp_span = group, warps
    factor, offset = 1, 0
    if seeded:
        block_span, warp_span = power_of_two_above(group), power_of_two_above(warps)
    progress = 0
    for i in range(block_span):
        b = i
        if seeded:
            if i == 0:
                factor, offset = next_random(worker) | 1, next_random(worker)
            b = (i * factor + offset) & (block_span - 1)
        if b < group:
            block = words(worker[WORKER_BLOCKS] + b * (8 * BLOCK_WORDS))
            if block[BLOCK_ALIVE] > 0:
                warp_factor, warp_offset = 1, 0
                if seeded:
                    warp_factor, warp_offset = next_random(worker) | 1, next_random(worker)
                for j in range(warp_span):
                    w = j
                    if seeded:
                        w = (j * warp_factor + warp_offset) & (warp_span - 1)
                    if w < warps:
                        progress += run_warp(worker, launch, block, w, thread_count)
                        if load(launch, LAUNCH_STOP) != 0:
                            return progress
                if block[BLOCK_AT_WARPGROUP] > 0:
                    progress += complete_warpgroup_operations(block, thread_count)
                if seeded and block[BLOCK_BULK_COPIES] != 0 and next_random(worker) & 3 == 0:
                    progress += land_one(block, next_random(worker))
                if block[BLOCK_AT_BARRIER] > 0 and block[BLOCK_AT_BARRIER] == block[BLOCK_ALIVE]:
                    release_barrier(block, thread_count)
                    progress += 1
    if worker[WORKER_AT_GRID_BARRIER] > 0 and worker[WORKER_AT_GRID_BARRIER] == worker[WORKER_ALIVE]:
        release_grid_barrier(worker, thread_count)
        progress += 1
    return progress


@cuda.jit(device=True)
def each_block_lands(worker, thread_count):
    """Nothing else can happen: bulk loads land that threads wait for; how many."""
    count = 0
    for b in range(worker[WORKER_GROUP_BLOCKS]):
        count += land_awaited(words(worker[WORKER_BLOCKS] + b * (8 * BLOCK_WORDS)), thread_count)
    return count


@cuda.jit(device=True)
def each_wait_returns(worker, thread_count):
    """Waits for mbarriers return early, without success; how many."""
    count = 0
    for b in range(worker[WORKER_GROUP_BLOCKS]):
        count += return_early(words(worker[WORKER_BLOCKS] + b * (8 * BLOCK_WORDS)), thread_count)
    return count


@cuda.jit(device=True)
def run_group(worker, launch):
    """Runs the resident blocks to their end; returns how that went."""
    thread_count = launch[LAUNCH_THREADS_PER_BLOCK]
    rounds, seen = 0, -1
    while worker[WORKER_ALIVE] > 0:
        progress = run_pass(worker, launch, thread_count)
        if load(launch, LAUNCH_STOP) != 0:
            return STOPPED
        if progress == 0 and each_block_lands(worker, thread_count) == 0:
            signs = worker[WORKER_PHASES] - worker[WORKER_ALIVE]
            rounds = rounds + 1 if signs == seen else 0
            seen = signs
            if rounds > PATIENCE or each_wait_returns(worker, thread_count) == 0:
                return DEADLOCKED
    return DONE


@cuda.jit(device=True)
def block_at(launch, position):
    """The block that stands at a position of the launch's block order; -1 for a position that holds none."""
    if launch[LAUNCH_BLOCK_LIST] != 0:
        return words(launch[LAUNCH_BLOCK_LIST])[position]
    span = launch[LAUNCH_BLOCK_SPAN]
    linear = position
    if span != launch[LAUNCH_BLOCKS]:
        linear = (position * launch[LAUNCH_BLOCK_FACTOR] + launch[LAUNCH_BLOCK_OFFSET]) & (span - 1)
    return linear if linear < launch[LAUNCH_BLOCKS] else -1


def run_fibers(worker):
    """Entry of a worker whose kernel synchronises: groups of resident blocks, one fiber per CUDA thread."""
    launch = words(worker[WORKER_LAUNCH])
    thread_count = launch[LAUNCH_THREADS_PER_BLOCK]
    resident = worker[WORKER_RESIDENT]
    status = DONE
    while status == DONE:
        first = fetch_add(launch, LAUNCH_NEXT_BLOCK, resident)
        if first >= launch[LAUNCH_BLOCK_SPAN]:
            break
        placed = 0
        for i in range(resident):
            if first + i < launch[LAUNCH_BLOCK_SPAN]:
                linear = block_at(launch, first + i)
                if linear >= 0:
                    block = words(worker[WORKER_BLOCKS] + placed * (8 * BLOCK_WORDS))
                    place_block(block, launch, linear)
                    start_threads(worker, block, thread_count)
                    placed += 1
        worker[WORKER_FIRST_BLOCK] = first
        worker[WORKER_GROUP_BLOCKS] = placed
        worker[WORKER_ALIVE] = placed * thread_count
        worker[WORKER_AT_GRID_BARRIER] = 0
        status = run_group(worker, launch)
    worker[WORKER_STATUS] = status


def plain_main(worker, unused):
    """Runs blocks whose threads never wait: the kernel's own loop over the threads of a block."""
    launch = words(worker[WORKER_LAUNCH])
    block = words(worker[WORKER_BLOCKS])
    worker[WORKER_STATUS] = STOPPED
    while True:
        position = fetch_add(launch, LAUNCH_NEXT_BLOCK, 1)
        if position >= launch[LAUNCH_BLOCK_SPAN] or load(launch, LAUNCH_STOP) != 0:
            break
        linear = block_at(launch, position)
        if linear >= 0:
            place_block(block, launch, linear)
            worker[WORKER_IN_KERNEL] = 1
            call_address(launch[LAUNCH_ENTRY], block, worker)
            worker[WORKER_IN_KERNEL] = 0
    if load(launch, LAUNCH_STOP) == 0:
        worker[WORKER_STATUS] = DONE
    switch(words(worker[WORKER_STACK_TOP]), worker[WORKER_STACK_POINTER])


def run_plain(worker):
    """Entry of a worker whose kernel never waits: a fiber of its own, so that an endless thread can be left."""
    address = address_of(worker)
    pointer = prepare_stack(worker[WORKER_STACK_TOP], address_of_plain_main(), address, address)
    switch(worker, pointer)


def leave_kernel(signal, information, context):
    """Handler of the signal that stops a worker (`stops.py`): leaves the thread that runs, for good, for the scheduler.

    The worker's address came with the signal (siginfo_t, si_value: the fourth word on 64-bit Linux).
    """
    worker = words(information[3])
    if worker[WORKER_IN_KERNEL] != 0:
        worker[WORKER_IN_KERNEL] = 0
        switch(words(address_of(worker) + 8 * WORKER_ABANDONED), worker[WORKER_STACK_POINTER])
