"""The records of one traced launch: room for them, and what they add up to per source line."""

import mmap
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime import layout
from ..runtime import trace as words
from . import banks, sectors
from .instrumentation import AccessSite
from .report import LineTraffic, MemoryReport, sorted_report
from .requests import Requests, requests_of

MOST_BLOCKS = 8
"""Blocks of a launch that are sampled, spread evenly over the grid from its first on."""
MOST_RECORDS = 1 << 23
"""Records of a launch (16 bytes each, touched only as they are written)."""
MOST_PER_SITE = 256
_MAP_NORESERVE = 0x4000  # Linux; the mmap module names it from Python 3.13 on
WIDEST = 16
"""Bytes that one lane moves in one request; wider accesses are several."""


class Recording:
    """The tables that the threads of one launch write into."""

    def __init__(self, sites: tuple[AccessSite, ...], blocks: int, threads: int) -> None:
        """blocks: of the grid; threads: per block."""
        self.sites, self.threads = sites, threads
        self.stride = -(-blocks // MOST_BLOCKS)
        self.sampled = -(-blocks // self.stride)
        rows = self.sampled * threads * max(1, len(sites))
        self.quota = int(np.clip(MOST_RECORDS // rows, 4, MOST_PER_SITE))
        shape = (self.sampled, threads, max(1, len(sites)))
        self.counts = np.zeros(shape, np.int64)
        size = rows * self.quota * words.RECORD_WORDS * 8
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        self.records = np.frombuffer(memory, np.int64).reshape(*shape, self.quota, words.RECORD_WORDS)
        self.block = np.zeros(words.TRACE_WORDS, np.int64)
        self.block[words.TRACE_COUNTS] = self.counts.ctypes.data
        self.block[words.TRACE_RECORDS] = self.records.ctypes.data
        self.block[words.TRACE_STRIDE] = self.stride
        self.block[words.TRACE_SITES] = shape[2]
        self.block[words.TRACE_QUOTA] = self.quota

    def attach(self, launch_block: np.ndarray) -> None:
        """Makes a launch write into this recording."""
        launch_block[layout.LAUNCH_TRACE] = self.block.ctypes.data

    def of_site(self, site: int) -> tuple[list[Requests], int]:
        """The requests of one access instruction, and about how often warps of the sampled blocks executed it."""
        counts = _per_warp(self.counts[:, :, site])
        if not counts.any():
            return [], 0
        used = min(self.quota, int(counts.max()))
        records = self.records[:, :, site, :used]
        addresses = _per_warp(records[..., words.RECORD_ADDRESS])
        turns = _per_warp(records[..., words.RECORD_TURN])
        requests = requests_of(addresses, turns, np.where(counts > self.quota, counts, np.minimum(counts, used)))
        seen = np.minimum(counts, self.quota).sum()
        made = sum(len(group.active) for group in requests)
        return requests, round(made * counts.sum() / seen)


def _per_warp(values: np.ndarray) -> np.ndarray:
    """(blocks, threads, ...) as (warps, 32, ...), the last warp of each block filled up with zeros."""
    _, threads, *rest = values.shape
    missing = -threads % layout.WARP_SIZE
    filled = np.pad(values, [(0, 0), (0, missing), *[(0, 0)] * len(rest)]) if missing else values
    return np.ascontiguousarray(filled).reshape(-1, layout.WARP_SIZE, *rest)


@dataclass
class _Sums:
    requests: int = 0
    executions: float = 0.0
    lanes: int = 0
    moved: int = 0
    fewest: int = 0
    worst: int = 0


_Key = tuple[str, str, int, str, str, int]


class Traffic:
    """The sums over all launches of a trace, by kernel, line, space, access and width."""

    def __init__(self) -> None:
        self._sums: dict[_Key, _Sums] = defaultdict(_Sums)

    def add(self, kernel: str, kernel_line: int, recording: Recording) -> None:
        """Adds what one launch of a kernel recorded. kernel_line: for accesses that carry no line of their own."""
        for index, site in enumerate(recording.sites):
            requests, executions = recording.of_site(index)
            made = sum(len(group.active) for group in requests)
            for group in requests:
                share = executions * len(group.active) / made
                self._add(kernel, site, site.line or kernel_line, group, share)

    def _add(self, kernel: str, site: AccessSite, line: int, group: Requests, executions: float) -> None:
        space = "shared" if group.shared else "global"
        sums = self._sums[kernel, site.file, line, space, site.access, site.bytes_per_lane]
        for start in range(0, site.bytes_per_lane, WIDEST):
            size = min(WIDEST, site.bytes_per_lane - start)
            if group.shared:
                shares = site.access != "atomic"
                moved, fewest = banks.bank_passes(group.addresses + start, group.active, size, shares_words=shares)
            else:
                moved, fewest = sectors.sectors(group.addresses + start, group.active, size)
            sums.requests += len(moved)
            sums.executions += executions
            sums.lanes += int(group.active.sum())
            sums.moved += int(moved.sum())
            sums.fewest += int(fewest.sum())
            sums.worst = max(sums.worst, int(moved.max()))

    def report(self) -> MemoryReport:
        """The lines so far, worst first."""
        return sorted_report([_line(key, sums) for key, sums in self._sums.items()])


def _line(key: _Key, sums: _Sums) -> LineTraffic:
    kernel, file, line, space, access, size = key
    mean, ideal = sums.moved / sums.requests, sums.fewest / sums.requests
    shared = space == "shared"
    figures: dict[str, Any] = (
        {"passes": mean, "worst_passes": sums.worst, "ideal_passes": ideal}
        if shared
        else {"sectors": mean, "ideal_sectors": ideal}
    )
    return LineTraffic(
        kernel=kernel,
        file=file,
        line=line,
        space=space,
        access=access,
        bytes_per_lane=size,
        requests=sums.requests,
        executions=round(sums.executions),
        lanes=sums.lanes / sums.requests,
        **figures,
    )
