"""Warp requests out of the records of threads: lanes of a warp at the same access in the same turn of its loops."""

from dataclasses import dataclass

import numpy as np

from ..runtime.trace import SHARED

WARP_SIZE = 32


@dataclass(frozen=True)
class Requests:
    """The requests of one access instruction in one memory space.

    addresses: (requests, 32) int64, bytes; offsets in the block's shared memory where `shared`. active: (requests, 32).
    """

    shared: bool
    addresses: np.ndarray
    active: np.ndarray


def requests_of(addresses: np.ndarray, turns: np.ndarray, counts: np.ndarray) -> list[Requests]:
    """The requests that one access instruction made, per memory space.

    addresses, turns: what each thread recorded, (warps, 32, quota) int64. counts: how often each thread came here,
    (warps, 32); a thread recorded its first `quota` executions.

    Where lanes came here more often than was recorded, requests that such a lane may have had a part in after its
    record ended are left out.
    """
    quota = addresses.shape[2]
    recorded: np.ndarray = np.less(np.arange(quota), np.minimum(counts, quota)[:, :, None])
    if not recorded.any():
        return []
    grouped = _aligned(addresses, turns, recorded) or _by_turn(addresses, turns, recorded)
    warp, address, active = grouped
    cut = np.greater(counts[warp], quota)
    whole = np.flatnonzero(~(cut & ~active).any(axis=1))
    return _by_space(address[whole], active[whole])


def _aligned(
    addresses: np.ndarray, turns: np.ndarray, recorded: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The requests where all lanes of each warp that came here at all came in the same turns: no search is needed."""
    leader = np.argmax(np.any(recorded, axis=2), axis=1)
    rows = np.arange(len(recorded))
    took_part: np.ndarray = np.any(recorded, axis=2)
    same_count = (recorded == recorded[rows, leader][:, None, :]) | ~took_part[:, :, None]
    same_turn = (turns == turns[rows, leader][:, None, :]) | ~recorded
    if not (same_count.all() and same_turn.all()):
        return None
    warp, execution = np.nonzero(recorded.any(axis=1))
    return warp, addresses[warp, :, execution], recorded[warp, :, execution]


def _by_turn(
    addresses: np.ndarray, turns: np.ndarray, recorded: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The requests of lanes whose turns differ: records of a warp with the same turn belong together."""
    warp, lane, execution = np.nonzero(recorded)
    turn = turns[warp, lane, execution]
    order = np.lexsort((turn, warp))
    warp, lane, turn, address = warp[order], lane[order], turn[order], addresses[warp, lane, execution][order]
    starts = np.ones(len(warp), bool)
    starts[1:] = (warp[1:] != warp[:-1]) | (turn[1:] != turn[:-1])
    group = np.cumsum(starts) - 1
    gathered = np.zeros((group[-1] + 1, WARP_SIZE), np.int64)
    active = np.zeros(gathered.shape, bool)
    gathered[group, lane] = address
    active[group, lane] = True
    return warp[starts], gathered, active


def _by_space(addresses: np.ndarray, active: np.ndarray) -> list[Requests]:
    """One set of requests for global memory and one for shared: a generic pointer may be either, lane by lane."""
    in_shared = addresses >= SHARED
    found = []
    for shared in (False, True):
        lanes = active & (in_shared == shared)
        rows = lanes.any(axis=1)
        if rows.any():
            offset = SHARED if shared else 0
            found.append(Requests(shared, np.where(lanes, addresses - offset, 0)[rows], lanes[rows]))
    return found
