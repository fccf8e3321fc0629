"""Completes warp operations: shuffles, votes, matches, syncwarp, activemask, collectives (PTX ISA 9.1, shfl.sync, ...).

An operation completes when every lane that its mask names and that has not exited waits with the same mask and the same
operation; the program point does not matter. A collective (`mma`, `ldmatrix`) takes all 32 lanes, at one program point.
"""

from numba import cuda

from .layout import (
    AT_ACTIVEMASK,
    AT_WARP_OPERATION,
    COLLECTIVE,
    EXITED,
    MATCH_ALL,
    MATCH_ANY,
    RUNNABLE,
    SHUFFLE_DOWN,
    SHUFFLE_UP,
    SHUFFLE_XOR,
    THREAD_CLAMP,
    THREAD_MASK,
    THREAD_OPERATION,
    THREAD_PREDICATE,
    THREAD_RESULT,
    THREAD_SITE,
    THREAD_SOURCE,
    THREAD_STATE,
    THREAD_VALUE,
    THREAD_WORDS,
    THREAD_WORKER,
    VOTE_ALL,
    VOTE_ANY,
    VOTE_BALLOT,
    VOTE_EQUAL,
    WARP_SIZE,
    WARP_SYNC,
    WORKER_RANDOM,
    WORKER_SANITIZER,
)
from .primitives import call_address, words
from .randomness import next_random
from .watch import report_absent_lane, warp_synchronised

LANE_BYTES = 8 * THREAD_WORDS
UNDEFINED_VALUE = 0x7FFFFFFF  # a NaN: what a shuffle reads from a lane that takes no part


@cuda.jit(device=True)
def waiting_lanes(first, count, mask, operation):
    """The lanes that wait with this mask and operation; 0 while a lane named in the mask has not arrived."""
    arrived = 0
    for lane in range(count):
        if (mask >> lane) & 1:
            thread = words(first + lane * LANE_BYTES)
            if (
                thread[THREAD_STATE] == AT_WARP_OPERATION
                and thread[THREAD_MASK] == mask
                and thread[THREAD_OPERATION] == operation
            ):
                arrived |= 1 << lane
            elif thread[THREAD_STATE] != EXITED:
                return 0
    return arrived


@cuda.jit(device=True)
def collective_lanes(first, count, operation):
    """All 32 lanes once each of them waits at the same collective in the same place; 0 until then."""
    if count < WARP_SIZE:
        return 0
    site = words(first)[THREAD_SITE]
    for lane in range(count):
        thread = words(first + lane * LANE_BYTES)
        if (
            thread[THREAD_STATE] != AT_WARP_OPERATION
            or thread[THREAD_OPERATION] != operation
            or thread[THREAD_SITE] != site
        ):
            return 0
    return 0xFFFFFFFF


@cuda.jit(device=True)
def shuffle_lane(first, lane, arrived):
    """Gives one lane the value that its shuffle reads."""
    thread = words(first + lane * LANE_BYTES)
    clamp = thread[THREAD_CLAMP]
    bound, segment = clamp & 31, (clamp >> 8) & 31
    operand = thread[THREAD_SOURCE] & 31
    last = (lane & segment) | (bound & ~segment)
    operation = thread[THREAD_OPERATION]
    if operation == SHUFFLE_UP:
        source = lane - operand
        in_range = source >= last
    elif operation == SHUFFLE_DOWN:
        source = lane + operand
        in_range = source <= last
    elif operation == SHUFFLE_XOR:
        source = lane ^ operand
        in_range = source <= last
    else:
        source = (lane & segment) | (operand & ~segment)
        in_range = source <= last
    if not in_range:
        source = lane
    if (arrived >> source) & 1:
        sender = words(first + source * LANE_BYTES)
        thread[THREAD_RESULT] = sender[THREAD_VALUE]
    else:
        thread[THREAD_RESULT] = UNDEFINED_VALUE
        if words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0:
            report_absent_lane(thread, source)
    thread[THREAD_PREDICATE] = 1 if in_range else 0


@cuda.jit(device=True)
def matching_lanes(first, count, arrived, value):
    """The lanes among `arrived` whose value is `value`."""
    result = 0
    for lane in range(count):
        if (arrived >> lane) & 1:
            thread = words(first + lane * LANE_BYTES)
            if thread[THREAD_VALUE] == value:
                result |= 1 << lane
    return result


@cuda.jit(device=True)
def ballot_of(first, count, arrived):
    """The lanes among `arrived` whose predicate is true."""
    result = 0
    for lane in range(count):
        if (arrived >> lane) & 1:
            thread = words(first + lane * LANE_BYTES)
            if thread[THREAD_VALUE] & 1:
                result |= 1 << lane
    return result


@cuda.jit(device=True)
def give_results(first, count, arrived, operation):
    """Stores the result of a complete operation in every lane that takes part."""
    if operation >= COLLECTIVE:
        call_address(operation, words(first), words(first))
        return
    ballot = 0
    if operation >= VOTE_ALL and operation <= VOTE_BALLOT:
        ballot = ballot_of(first, count, arrived)
    for lane in range(count):
        if (arrived >> lane) & 1:
            thread = words(first + lane * LANE_BYTES)
            if operation <= SHUFFLE_XOR:
                shuffle_lane(first, lane, arrived)
            elif operation <= VOTE_BALLOT:
                thread[THREAD_RESULT] = ballot
                holds = ballot == arrived
                if operation == VOTE_ANY:
                    holds = ballot != 0
                elif operation == VOTE_EQUAL:
                    holds = ballot == arrived or ballot == 0
                thread[THREAD_PREDICATE] = 1 if holds else 0
            elif operation == MATCH_ANY or operation == MATCH_ALL:
                same = matching_lanes(first, count, arrived, thread[THREAD_VALUE])
                if operation == MATCH_ALL and same != arrived:
                    same = 0
                thread[THREAD_RESULT] = same
                thread[THREAD_PREDICATE] = 1 if same == arrived else 0


@cuda.jit(device=True)
def complete_warp_operations(first, count):
    """Completes every operation of a warp for which all lanes have arrived; returns how many lanes became runnable."""
    released = 0
    tried_mask, tried_operation = -1, -1
    for lane in range(count):
        thread = words(first + lane * LANE_BYTES)
        if thread[THREAD_STATE] == AT_WARP_OPERATION:
            mask, operation = thread[THREAD_MASK], thread[THREAD_OPERATION]
            if mask != tried_mask or operation != tried_operation:  # most often all lanes wait for the same
                if operation >= COLLECTIVE:
                    arrived = collective_lanes(first, count, operation)
                else:
                    arrived = waiting_lanes(first, count, mask, operation)
                if (arrived >> lane) & 1:
                    give_results(first, count, arrived, operation)
                    if operation == WARP_SYNC and words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0:
                        warp_synchronised(first, count, arrived)
                    for other in range(count):
                        if (arrived >> other) & 1:
                            member = words(first + other * LANE_BYTES)
                            member[THREAD_STATE] = RUNNABLE
                            released += 1
                else:
                    tried_mask, tried_operation = mask, operation
    return released


@cuda.jit(device=True)
def complete_activemasks(first, count):
    """Answers activemask: the lanes that wait at the same source line, once no other lane of the warp can run.

    Under a seeded schedule each lane gets a random part of them, itself included.
    """
    released = 0
    for lane in range(count):
        thread = words(first + lane * LANE_BYTES)
        if thread[THREAD_STATE] == AT_ACTIVEMASK:
            mask = 0
            for other in range(count):
                member = words(first + other * LANE_BYTES)
                if member[THREAD_STATE] == AT_ACTIVEMASK and member[THREAD_SITE] == thread[THREAD_SITE]:
                    mask |= 1 << other
            worker = words(thread[THREAD_WORKER])
            if worker[WORKER_RANDOM] != 0:  # any subset of the converged lanes is a right answer
                chosen = next_random(worker) | next_random(worker)
                mask &= chosen if (chosen >> lane) & 1 else ~chosen
            for other in range(count):
                if (mask >> other) & 1:
                    member = words(first + other * LANE_BYTES)
                    member[THREAD_RESULT] = mask
                    member[THREAD_STATE] = RUNNABLE
                    released += 1
    return released
