"""Passes of shared memory: how often the 32 banks are read or written for one request of a warp.

Shared memory has 32 banks of 4 bytes. A request of 4 bytes per lane or fewer is served in one phase, one of 8 bytes in
two phases of half a warp, one of 16 bytes in four phases of a quarter warp. In each phase every bank delivers one word
per pass; lanes that want the same word share it. (CUDA C++ Programming Guide 13.1, "Shared Memory".)
"""

import numpy as np

BANKS = 32
WORD_BYTES = 4
WARP_SIZE = 32


def phases(bytes_per_lane: int) -> int:
    """Phases of one request: 1, 2 or 4 by the bytes that each lane moves (at most 16)."""
    return max(1, min(bytes_per_lane, 16) // WORD_BYTES)


def bank_passes(
    offsets: np.ndarray, active: np.ndarray, bytes_per_lane: int, *, shares_words: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Passes that each request takes, and the fewest that it could take: one per phase that has an active lane.

    offsets: bytes from the start of shared memory, (requests, 32) int64. active: which lanes take part, (requests, 32).
    shares_words: lanes with the same word are served together; atomics are not (each lane changes the word in turn).
    Returns two int64 arrays of shape (requests,).
    """
    count = phases(bytes_per_lane)
    words_per_lane = max(1, bytes_per_lane // WORD_BYTES)
    requests = len(offsets)
    passes = np.zeros(requests, np.int64)
    fewest = np.zeros(requests, np.int64)
    lanes = WARP_SIZE // count
    for phase in range(count):
        part = slice(phase * lanes, (phase + 1) * lanes)
        takes_part = np.repeat(active[:, part], words_per_lane, axis=1)
        first = offsets[:, part] // WORD_BYTES
        words = (first[:, :, None] + np.arange(words_per_lane)).reshape(requests, -1)
        passes += _largest_load(words, takes_part, shares_words)
        fewest += takes_part.any(axis=1)
    return passes, fewest


def _largest_load(words: np.ndarray, active: np.ndarray, shares_words: bool) -> np.ndarray:
    """The most (distinct) words that one bank holds of each row; 0 for a row without an active lane."""
    order = np.where(active, words, -1)
    order.sort(axis=1)
    counted = order >= 0
    if shares_words:
        counted[:, 1:] &= order[:, 1:] != order[:, :-1]
    row = np.arange(len(words))[:, None]
    bank = row * BANKS + order % BANKS
    load = np.bincount(bank[counted], minlength=len(words) * BANKS)
    return load.reshape(len(words), BANKS).max(axis=1, initial=0)
