"""Bank conflicts: how many wavefronts one shared-memory request of a warp takes.

Shared memory has 32 banks of 4 bytes. A request of up to 4 bytes per lane is served in one phase, one of 8 bytes in
two phases of half a warp, one of 16 bytes in four of a quarter warp. In a phase each bank delivers one word per
wavefront, and lanes that want the same word share it (CUDA C++ Programming Guide 13.1, "Shared Memory").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .fragment import LANES

BANKS = 32
WORD_BYTES = 4


@dataclass(frozen=True, eq=False)
class Access:
    """Requests of a warp for shared memory: what one instruction asks for, once or several times.

    offsets: bytes from an aligned start, (requests, 32) int64. bytes_per_lane: a power of two up to 16.
    active: which lanes take part, (requests, 32) bool.
    """

    offsets: np.ndarray
    bytes_per_lane: int
    active: np.ndarray

    @property
    def aligned(self) -> bool:
        """Whether every active lane's address is a multiple of what it moves."""
        return not np.any(self.offsets[self.active] % self.bytes_per_lane)

    @property
    def phases(self) -> int:
        """Phases of one request: the fewest wavefronts that a full warp can take."""
        return max(1, self.bytes_per_lane // WORD_BYTES)

    @property
    def wavefronts(self) -> np.ndarray:
        """Wavefronts of each request, (requests,) int64."""
        total = np.zeros(len(self.offsets), np.int64)
        lanes = LANES // self.phases
        for first in range(0, LANES, lanes):
            part = slice(first, first + lanes)
            for request, (offsets, active) in enumerate(zip(self.offsets[:, part], self.active[:, part])):
                total[request] += _fullest_bank(offsets[active], self.bytes_per_lane)
        return total

    @property
    def ways(self) -> int:
        """n of "n-way conflict", of the worst request: wavefronts per phase. 1 is free of conflicts."""
        return int(-(-self.wavefronts.max() // self.phases))


def access(offsets: Any, bytes_per_lane: int, active: Any = None) -> Access:
    """An `Access` of offsets (32,) or (requests, 32); all lanes take part unless `active` says otherwise."""
    at = np.atleast_2d(np.asarray(offsets, np.int64))
    takes_part = np.ones(at.shape, bool) if active is None else np.broadcast_to(np.asarray(active, bool), at.shape)
    return Access(at, bytes_per_lane, takes_part)


def _fullest_bank(offsets: np.ndarray, bytes_per_lane: int) -> int:
    """The most distinct words that one bank has to deliver."""
    words_per_lane = max(1, bytes_per_lane // WORD_BYTES)
    words = np.unique(offsets[:, None] // WORD_BYTES + np.arange(words_per_lane))
    return int(np.bincount(words % BANKS).max(initial=0))
