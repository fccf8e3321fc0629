"""Sectors of global memory: how many 32-byte pieces one request of a warp moves.

A warp's instruction is one request; it moves each distinct 32-byte sector that an active lane touches once.
(CUDA C++ Best Practices Guide 13.1, "Coalesced Access to Global Memory".)
"""

import numpy as np

SECTOR_BYTES = 32
_LAST = np.iinfo(np.int64).max


def sectors(addresses: np.ndarray, active: np.ndarray, bytes_per_lane: int) -> tuple[np.ndarray, np.ndarray]:
    """Sectors that each request moves, and the fewest that could hold the bytes which its lanes want.

    addresses: (requests, 32) int64. active: which lanes take part, (requests, 32).
    Returns two int64 arrays of shape (requests,).
    """
    first = addresses // SECTOR_BYTES
    last = (addresses + bytes_per_lane - 1) // SECTOR_BYTES
    touched = _distinct(np.concatenate([first, last], axis=1), np.concatenate([active, active], axis=1))
    wanted = _distinct(addresses, active) * bytes_per_lane
    return touched, -(-wanted // SECTOR_BYTES)


def _distinct(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """How many different values each row has among its active entries."""
    ordered = np.where(active, values, _LAST)
    ordered.sort(axis=1)
    valid = ordered != _LAST
    valid[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return valid.sum(axis=1)
