"""Device memory of the CPU executor: plain host memory, allocated in one place and found again by address."""

from __future__ import annotations

import bisect
import mmap
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import active

ALIGNMENT = 256
"""Bytes; what `cuMemAlloc` promises, so that vector loads find the same alignment as on a device."""

SPARSE_BYTES = 1 << 30
"""From this size on memory is only reserved: a page costs nothing until it is written, and reads as zero."""

_MAP_NORESERVE = 0x4000  # Linux; the mmap module names it from Python 3.13 on


def _sparse(nbytes: int) -> np.ndarray:
    """Reserved memory (uint8), which may be larger than the machine's."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)


def zeros(rows: int, columns: int) -> np.ndarray:
    """An int64 table of zeros that costs memory only where it is written, however large it is."""
    nbytes = 8 * rows * columns
    words = _sparse(nbytes).view(np.int64) if nbytes >= SPARSE_BYTES else np.zeros(rows * columns, np.int64)
    return words.reshape(rows, columns)


class _Blocks:
    """The live blocks of device memory, by address."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run inside a method that holds it
        self._starts: list[int] = []
        self._blocks: dict[int, weakref.ref[np.ndarray]] = {}
        self.written: dict[int, np.ndarray] = {}

    def add(self, block: np.ndarray) -> None:
        start = block.ctypes.data
        reference = weakref.ref(block, lambda gone: self._forget(start, gone))
        with self._lock:
            if start not in self._blocks:
                bisect.insort(self._starts, start)
            self._blocks[start] = reference

    def _forget(self, start: int, reference: weakref.ref[np.ndarray]) -> None:
        with self._lock:
            if self._blocks.get(start) is reference:
                del self._blocks[start]
                self.written.pop(start, None)
                self._starts.remove(start)

    def find(self, address: int) -> np.ndarray | None:
        with self._lock:
            place = bisect.bisect_right(self._starts, address) - 1
            block = self._blocks[self._starts[place]]() if place >= 0 else None
        if block is None or address >= block.ctypes.data + block.nbytes:
            return None
        return block


_blocks = _Blocks()


def allocate(nbytes: int) -> np.ndarray:
    """A new block of device memory: `nbytes` uninitialised bytes (uint8), aligned to `ALIGNMENT`.

    Every allocation of the executor goes through here. The memory lives as long as an array over it.
    """
    if nbytes < 0:
        raise ValueError(f"cannot allocate {nbytes} bytes of device memory")
    room = _sparse(nbytes + ALIGNMENT) if nbytes >= SPARSE_BYTES else np.empty(nbytes + ALIGNMENT, np.uint8)
    block = anchored(room, room.ctypes.data + -room.ctypes.data % ALIGNMENT, nbytes)
    if nbytes:
        _blocks.add(block)
        if _tracks_writes():
            _blocks.written[block.ctypes.data] = np.zeros(nbytes, np.uint8)
    return block


def _tracks_writes() -> bool:
    settings = active.settings()
    return settings is not None and "uninitialized" in settings.sanitize


def written(block: np.ndarray) -> np.ndarray | None:
    """Which bytes of a block have been written (uint8, 1 for written); None where that is not kept, which means all."""
    return _blocks.written.get(block.ctypes.data)


def mark_written(block: np.ndarray, flags: np.ndarray) -> None:
    """Adds the bytes whose flag is set to those written."""
    known = written(block)
    if known is not None:
        known |= flags.astype(np.uint8)


def mark_host_write(array: np.ndarray) -> None:
    """Notes that the host has written an array: all bytes from its lowest to its highest element count as written."""
    if array.size == 0 or not _blocks.written:
        return
    block = find(array.ctypes.data)
    known = written(block) if block is not None else None
    if block is not None and known is not None:
        before, after = extent(array.shape, array.strides, array.itemsize)
        offset = array.ctypes.data - block.ctypes.data
        known[offset - before : offset + after] = 1


def adopt(array: np.ndarray) -> np.ndarray:
    """The bytes (uint8) that `array` spans, as a block of device memory that shares them and keeps `array` alive."""
    if array.size == 0:
        return np.empty(0, np.uint8)
    before, after = extent(array.shape, array.strides, array.itemsize)
    low, high = array.ctypes.data - before, array.ctypes.data + after
    known = find(low)
    if known is not None and high <= known.ctypes.data + known.nbytes:
        return known
    block = anchored(array, low, high - low)
    _blocks.add(block)
    return block


def store(target: np.ndarray, value: Any) -> None:
    """Writes `value` into device memory from the host, converting as NumPy does."""
    target[...] = value
    mark_host_write(target)


def mark_bytes(address: int, nbytes: int) -> None:
    """Notes that the host has written `nbytes` bytes at an address."""
    block = find(address) if _blocks.written else None
    known = written(block) if block is not None else None
    if block is not None and known is not None:
        offset = address - block.ctypes.data
        known[offset : offset + nbytes] = 1


def find(address: int) -> np.ndarray | None:
    """The live block (uint8) that holds the byte at `address`, or None."""
    return _blocks.find(address)


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Bytes that an array reaches `(before, after)` the address of its element (0, 0, ...); (0, 0) if it is empty."""
    if 0 in shape:
        return 0, 0
    steps = [(length - 1) * stride for length, stride in zip(shape, strides)]
    return -sum(step for step in steps if step < 0), itemsize + sum(step for step in steps if step > 0)


def anchored(owner: np.ndarray, address: int, nbytes: int) -> np.ndarray:
    """`nbytes` bytes at `address` as a uint8 array whose base is `owner` (NumPy keeps the interface's object alive)."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    interface = {"data": (address, not owner.flags.writeable), "shape": (nbytes,), "typestr": "|u1", "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=interface, owner=owner))
