"""Operations that a kernel calls: barriers, warp operations, polls, exceptions, print.

Each stores what it waits for in the thread's control block and switches to the scheduler, which stores the result and
switches back. `site` is an index into the kernel's table of source lines.
"""

from numba import cuda

from .layout import (
    AT_ACTIVEMASK,
    AT_BARRIER,
    AT_GRID_BARRIER,
    AT_WARP_OPERATION,
    BARRIER_AND,
    BARRIER_COUNT,
    BARRIER_OR,
    BARRIER_PLAIN,
    BLOCK_AT_BARRIER,
    BLOCK_DYNAMIC_SHARED_BYTES,
    BLOCK_LINEAR,
    LAUNCH_EXCEPTION,
    LAUNCH_EXCEPTION_BLOCK,
    LAUNCH_EXCEPTION_THREAD,
    LAUNCH_PRINT_BUFFER,
    LAUNCH_PRINT_CAPACITY,
    LAUNCH_PRINT_USED,
    LAUNCH_STOP,
    MATCH_ALL,
    MATCH_ANY,
    POLL_FUEL,
    RUNNABLE,
    THREAD_BLOCK,
    THREAD_CLAMP,
    THREAD_FUEL,
    THREAD_IS_FIBER,
    THREAD_LANE,
    THREAD_LINEAR,
    THREAD_MASK,
    THREAD_NEXT,
    THREAD_OPERATION,
    THREAD_PREDICATE,
    THREAD_RESULT,
    THREAD_SITE,
    THREAD_SOURCE,
    THREAD_STACK_POINTER,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORKER,
    VOTE_ALL,
    WARP_SYNC,
    WORKER_AT_GRID_BARRIER,
    WORKER_LAUNCH,
    WORKER_STACK_POINTER,
    WORKER_STOPPED_SITE,
    WORKER_STOPPED_THREAD,
)
from .primitives import byte_at, compare_exchange, fetch_add, load, prefetch, switch, words


@cuda.jit(device=True)
def leave(thread):
    """Gives way to the scheduler; returns when the scheduler resumes the thread."""
    worker = words(thread[THREAD_WORKER])
    switch(thread, worker[WORKER_STACK_POINTER])


@cuda.jit(device=True)
def pass_on(thread):
    """Gives way to the next thread in order, without the detour through the scheduler, where that thread can run."""
    following = thread[THREAD_NEXT]
    if following != 0:
        target = words(following)
        if target[THREAD_STATE] == RUNNABLE:
            after = target[THREAD_NEXT]  # its stack is cold: many stacks do not fit the first-level cache
            if after != 0:
                pointer = words(after)[THREAD_STACK_POINTER]
                prefetch(pointer)
                prefetch(pointer + 64)
                prefetch(pointer + 128)
            switch(thread, target[THREAD_STACK_POINTER])
        else:
            leave(thread)
    else:
        leave(thread)


@cuda.jit(device=True)
def arrive(thread, site, operation):
    thread[THREAD_SITE] = site
    thread[THREAD_OPERATION] = operation
    thread[THREAD_STATE] = AT_BARRIER
    block = words(thread[THREAD_BLOCK])
    block[BLOCK_AT_BARRIER] += 1
    pass_on(thread)


@cuda.jit(device=True)
def wait_at_barrier(thread, site, operation, predicate):
    thread[THREAD_VALUE] = predicate
    arrive(thread, site, operation)
    return thread[THREAD_RESULT]


def barrier(thread, site):
    arrive(thread, site, BARRIER_PLAIN)


def barrier_count(thread, site, predicate):
    return wait_at_barrier(thread, site, BARRIER_COUNT, predicate)


def barrier_and(thread, site, predicate):
    return wait_at_barrier(thread, site, BARRIER_AND, predicate)


def barrier_or(thread, site, predicate):
    return wait_at_barrier(thread, site, BARRIER_OR, predicate)


@cuda.jit(device=True)
def wait_for_warp(thread, site, mask, operation, value):
    thread[THREAD_SITE] = site
    thread[THREAD_OPERATION] = operation
    thread[THREAD_MASK] = mask & 0xFFFFFFFF
    thread[THREAD_VALUE] = value
    thread[THREAD_STATE] = AT_WARP_OPERATION
    pass_on(thread)
    return thread[THREAD_RESULT]


def warp_sync(thread, site, mask):
    wait_for_warp(thread, site, mask, WARP_SYNC, 0)


def shuffle(thread, site, mask, mode, value, source, clamp):
    """Low half: the value received; bit 32: whether the source lane was in range (PTX ISA, shfl.sync)."""
    thread[THREAD_SOURCE] = source
    thread[THREAD_CLAMP] = clamp
    received = wait_for_warp(thread, site, mask, mode, value)
    return (received & 0xFFFFFFFF) | (thread[THREAD_PREDICATE] << 32)


def vote(thread, site, mask, mode, predicate):
    """Low half: the ballot; bit 32: the predicate (PTX ISA, vote.sync)."""
    ballot = wait_for_warp(thread, site, mask, VOTE_ALL + mode, predicate)
    return (ballot & 0xFFFFFFFF) | (thread[THREAD_PREDICATE] << 32)


def match_any(thread, site, mask, value):
    return wait_for_warp(thread, site, mask, MATCH_ANY, value)


def match_all(thread, site, mask, value):
    same = wait_for_warp(thread, site, mask, MATCH_ALL, value)
    return (same & 0xFFFFFFFF) | (thread[THREAD_PREDICATE] << 32)


def activemask_at(thread, site):
    thread[THREAD_SITE] = site
    thread[THREAD_STATE] = AT_ACTIVEMASK
    leave(thread)
    return thread[THREAD_RESULT]


def collective(thread, site, handler, registers):
    """Waits until all lanes of the warp execute this instruction; `handler` then serves them (`warp.py`).

    `registers` is the address of the lane's operands, one word each, the results behind the inputs.
    """
    wait_for_warp(thread, site, -1, handler, registers)


def grid_barrier(thread, site):
    thread[THREAD_SITE] = site
    thread[THREAD_STATE] = AT_GRID_BARRIER
    worker = words(thread[THREAD_WORKER])
    worker[WORKER_AT_GRID_BARRIER] += 1
    leave(thread)


def lane(thread):
    return thread[THREAD_LANE]


def dynamic_shared_bytes(thread):
    block = words(thread[THREAD_BLOCK])
    return block[BLOCK_DYNAMIC_SHARED_BYTES]


@cuda.jit(device=True)
def give_way(thread):
    """Ends the thread where the launch is being stopped; else lets others run, where the thread is a fiber."""
    thread[THREAD_FUEL] = POLL_FUEL
    worker = words(thread[THREAD_WORKER])
    launch = words(worker[WORKER_LAUNCH])
    if load(launch, LAUNCH_STOP) != 0:
        worker[WORKER_STOPPED_SITE] = thread[THREAD_SITE]
        worker[WORKER_STOPPED_THREAD] = thread[THREAD_LINEAR]
        leave(thread)
    elif thread[THREAD_IS_FIBER] != 0:
        leave(thread)


def poll(thread, site):
    """Stands in every loop that may not end: the host can stop the thread there."""
    fuel = thread[THREAD_FUEL] - 1
    thread[THREAD_FUEL] = fuel
    if fuel < 0:
        thread[THREAD_SITE] = site
        give_way(thread)


def spin(thread, site):
    """Stands in loops that wait for another thread's atomic: every turn lets the others run."""
    thread[THREAD_SITE] = site
    give_way(thread)


def yield_(thread):
    give_way(thread)


@cuda.jit(device=True)
def record_exception(thread, launch, code):
    if compare_exchange(launch, LAUNCH_EXCEPTION, 0, code) == 0:
        block = words(thread[THREAD_BLOCK])
        launch[LAUNCH_EXCEPTION_THREAD] = thread[THREAD_LINEAR]
        launch[LAUNCH_EXCEPTION_BLOCK] = block[BLOCK_LINEAR]


def exception(thread, code):
    """Records the first exception of the launch; codes below 1 are no exceptions (Numba's calling convention)."""
    if code > 0:
        worker = words(thread[THREAD_WORKER])
        record_exception(thread, words(worker[WORKER_LAUNCH]), code)


def stack_overflow(thread, code):
    """Records an exception, stops the launch, and leaves the thread for good: it cannot return through its frames."""
    worker = words(thread[THREAD_WORKER])
    launch = words(worker[WORKER_LAUNCH])
    record_exception(thread, launch, code)
    launch[LAUNCH_STOP] = 1
    leave(thread)


@cuda.jit(device=True)
def conversion_letter(position):
    """The address of the letter that ends the printf conversion whose percent sign is at `position`."""
    position += 1
    byte = byte_at(position)
    # flags, width, precision, length: space # + - . digits h l j t z
    while (
        (byte >= 43 and byte <= 57)
        or byte == 32
        or byte == 35
        or byte == 104
        or byte == 108
        or byte == 106
        or byte == 116
        or byte == 122
    ):
        position += 1
        byte = byte_at(position)
    return position


@cuda.jit(device=True)
def takes_word(letter_address):
    """Whether a conversion takes 8 bytes: a float, an address, or an integer of a long type; other integers take 4."""
    letter, before = byte_at(letter_address), byte_at(letter_address - 1)
    small = letter | 32
    floating = small == 97 or (small >= 101 and small <= 103)
    return (
        floating or letter == 115 or letter == 112 or before == 108 or before == 106 or before == 116 or before == 122
    )


@cuda.jit(device=True)
def copy_arguments(record, format_address, arguments_address):
    """Writes each argument as a word after a record's head, if there is a record; returns how many there are.

    The arguments are laid out as the members of a C structure.
    """
    count, offset = 0, 0
    position = format_address
    while byte_at(position) != 0:
        if byte_at(position) == 37:  # "%"
            letter_address = conversion_letter(position)
            letter = byte_at(letter_address)
            if letter != 37:
                if takes_word(letter_address):
                    offset = (offset + 7) // 8 * 8
                    value = words(arguments_address + offset)[0]
                    offset += 8
                else:
                    address = arguments_address + offset
                    value = words(address // 8 * 8)[0] >> (8 * (address % 8)) & 0xFFFFFFFF
                    if letter == 100 or letter == 105:  # signed
                        value = (value ^ 0x80000000) - 0x80000000
                    offset += 4
                if record != 0:
                    words(record)[2 + count] = value
                count += 1
            position = letter_address
        position += 1
    return count


def print_record(thread, format_address, arguments_address):
    """Appends format address and argument words to the print buffer, as the GPU's print queue does; the host prints."""
    worker = words(thread[THREAD_WORKER])
    launch = words(worker[WORKER_LAUNCH])
    count = copy_arguments(0, format_address, arguments_address)
    size = 8 * (count + 2)
    start = fetch_add(launch, LAUNCH_PRINT_USED, size)
    if start + size <= launch[LAUNCH_PRINT_CAPACITY]:
        record = words(launch[LAUNCH_PRINT_BUFFER] + start)
        record[0] = format_address
        record[1] = count
        copy_arguments(launch[LAUNCH_PRINT_BUFFER] + start, format_address, arguments_address)
    return count
