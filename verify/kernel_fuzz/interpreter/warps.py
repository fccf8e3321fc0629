"""Shuffles, votes and matches over the active threads of each warp."""

from __future__ import annotations

import numpy as np

from .state import WARP, Threads


def groups(threads: Threads, active: np.ndarray) -> list[np.ndarray]:
    """The active threads of each warp that has any, lanes ascending."""
    members = np.flatnonzero(active)
    warps = threads.warp_of[members]
    return [members[warps == warp] for warp in np.unique(warps)]


def shuffle(threads: Threads, active: np.ndarray, mode: str, value: np.ndarray, operand: np.ndarray) -> np.ndarray:
    """What each active thread receives, after PTX `shfl.sync` with a segment of a whole warp.

    operand: int64, a lane, a distance or a lane mask, of which the instruction reads the lowest five bits. `first` and
    `last` read the least and the greatest active lane.
    """
    result = value.copy()
    lane = threads.in_block % WARP
    for members in groups(threads, active):
        at_lane = dict(zip(lane[members].tolist(), members.tolist()))
        for thread in members.tolist():
            own = int(lane[thread])
            distance = int(operand[thread]) & (WARP - 1)
            source = {
                "idx": int(operand[thread]) % int(threads.lanes[thread]),
                "up": own - distance if distance <= own else own,
                "down": own + distance if own + distance < WARP else own,
                "xor": own ^ distance,
                "first": min(at_lane),
                "last": max(at_lane),
            }[mode]
            result[thread] = value[at_lane[source]]
    return result


def mask_of(threads: Threads, members: np.ndarray) -> np.int32:
    """The lanes of `members` as the bits of an int32."""
    total = sum(1 << int(lane) for lane in threads.in_block[members] % WARP)
    return np.uint32(total).astype(np.int32)


def vote(threads: Threads, active: np.ndarray, mode: str, predicate: np.ndarray) -> np.ndarray:
    """The outcome for each thread, of kind boolean, for `ballot` int32."""
    result: np.ndarray = np.zeros(threads.count, np.int32 if mode == "ballot" else np.bool_)
    for members in groups(threads, active):
        said = predicate[members]
        if mode == "ballot":
            result[members] = mask_of(threads, members[said])
        else:
            result[members] = {"all": said.all(), "any": said.any(), "eq": said.all() or not said.any()}[mode]
    return result


def match_any(threads: Threads, active: np.ndarray, value: np.ndarray) -> np.ndarray:
    """For each active thread, the lanes that hold its value."""
    result = np.zeros(threads.count, np.int32)
    for members in groups(threads, active):
        for thread in members:
            result[thread] = mask_of(threads, members[value[members] == value[thread]])
    return result


def match_all(threads: Threads, active: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mask where all active threads of a warp hold one value, else 0; and whether they do."""
    mask, agree = np.zeros(threads.count, np.int32), np.zeros(threads.count, np.bool_)
    for members in groups(threads, active):
        if (value[members] == value[members[0]]).all():
            mask[members], agree[members] = mask_of(threads, members), True
    return mask, agree
