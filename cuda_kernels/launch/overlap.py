"""Do outputs share elements with other arguments? Exact, from addresses and strides; memory is never touched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

MAX_WORK: Any = 1_000_000  # NumPy's stubs know only 0 and -1
"""Candidate solutions that `numpy.shares_memory` may look at for one pair: some milliseconds."""


class Extent(NamedTuple):
    """An array's place in memory: bytes from `low` up to, not including, `high`; `start` is element (0, 0, ...)."""

    name: str
    written: bool
    low: int
    high: int
    start: int
    array: Any


def extent_of(name: str, array: Any, written: bool) -> Extent:
    """The bytes that a device array reaches; none where it has no elements."""
    shape, strides = array.shape, array.strides
    if 0 in shape:
        return Extent(name, written, 0, 0, 0, array)
    start = _address(array)
    low, high = start, start + array.dtype.itemsize
    for length, stride in zip(shape, strides):
        if stride > 0:
            high += (length - 1) * stride
        else:
            low += (length - 1) * stride
    return Extent(name, written, low, high, start, array)


def _address(array: Any) -> int:
    pointer = getattr(array, "device_ctypes_pointer", None)
    return int(array.ctypes.data if pointer is None else pointer.value)  # Numba's simulator has host arrays


def check_overlaps(launcher: str, extents: list[Extent], in_place: frozenset[frozenset[str]]) -> None:
    """ValueError where an output shares an element with another argument, or two of its own elements are one.

    The two of a pair in `in_place` may be the very same elements in the same order.
    """
    for place, output in enumerate(extents):
        if not output.written:
            continue
        if output.high - output.low > output.array.dtype.itemsize and not _nested(output.array):
            raise ValueError(
                f"{launcher}: {output.name} has shape {output.array.shape} and strides {output.array.strides}, "
                "so that elements share memory; an output needs memory of its own for each element"
            )
        for other_place, other in enumerate(extents):
            if other_place == place or (other.written and other_place < place):
                continue
            if output.low < other.high and other.low < output.high and _shared(output, other):
                allowed = frozenset((output.name, other.name)) in in_place
                if not (allowed and _same(output, other)):
                    raise _error(launcher, output, other, allowed)


def _nested(array: Any) -> bool:
    """Whether each axis steps over all that the axes with smaller strides reach: then no two elements are one."""
    reach = array.dtype.itemsize
    for stride, length in sorted((abs(stride), length) for stride, length in zip(array.strides, array.shape)):
        if length > 1:
            if stride < reach:
                return False
            reach += (length - 1) * stride
    return True


def _same(a: Extent, b: Extent) -> bool:
    x, y = a.array, b.array
    return a.start == b.start and x.shape == y.shape and x.strides == y.strides and x.dtype == y.dtype


def _shared(a: Extent, b: Extent) -> bool:
    try:
        return bool(np.shares_memory(_placed(a), _placed(b), max_work=MAX_WORK))
    except np.exceptions.TooHardError:
        return True


def _placed(extent: Extent) -> np.ndarray:
    """A NumPy array with the device array's address and strides, good for `numpy.shares_memory` and nothing else."""
    array = extent.array
    interface = {
        "data": (extent.start, True),
        "shape": array.shape,
        "strides": array.strides,
        "typestr": f"|V{array.dtype.itemsize}",
        "version": 3,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def _error(launcher: str, output: Extent, other: Extent, allowed: bool) -> ValueError:
    rule = "be the very same array or share no element" if allowed else "share no element"
    return ValueError(
        f"{launcher}: {output.name} overlaps {other.name} (both hold memory at "
        f"{max(output.low, other.low):#x}); expected them to {rule}"
    )
