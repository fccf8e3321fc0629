"""Errors that elements of an array have in common, and what becomes of them when the elements move.

An error is shared where an operand was broadcast: one random number per element of the operand. `groups` says which one
each element of the array has, so that an error meets itself again after any rearrangement, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

Array = np.ndarray
Move = Callable[[Array], Array]
Key = tuple[object, object]
"""What names a shared error: the array it comes from, and which of its elements stands where."""


@dataclass(frozen=True, eq=False)
class Shared:
    """An error that elements have in common: its signed `deviation`, which broadcasts to the array, times a random
    number that is the same along `axes` (counted from the last as -1). `groups` numbers the random numbers: integers
    that broadcast to the array, of length 1 along `axes`."""

    deviation: Array
    axes: frozenset[int]
    groups: Array

    def scaled(self, slope: Array | float) -> Shared:
        """Return the same error times a slope."""
        return replace(self, deviation=slope * self.deviation)


def numbered(shape: tuple[int, ...]) -> Array:
    """Return a number for each element of an array of `shape`."""
    return np.arange(int(np.prod(shape))).reshape(shape)


def key(token: object, groups: Array) -> Key:
    """Return the name of an error that comes from the array named `token`."""
    leading = next((i for i, n in enumerate(groups.shape) if n != 1), groups.ndim)
    stripped = groups.reshape(groups.shape[leading:])
    if np.array_equal(stripped, numbered(stripped.shape)):
        return token, stripped.shape
    return token, (stripped.shape, stripped.tobytes())


def moved(part: Shared, name: Key, shape: tuple[int, ...], move: Move) -> tuple[Key, Shared]:
    """Return a shared error of an array of `shape`, and its name, after `move` has rearranged the array."""
    deviation = move(np.broadcast_to(part.deviation, shape))
    return _grouped(name[0], deviation, move(np.broadcast_to(part.groups + 1, shape)))


def repeated(token: object, variance: Array, move: Move) -> tuple[Key, Shared] | None:
    """Return what independent errors become where `move` repeats elements; None where it repeats none."""
    groups = move(numbered(variance.shape) + 1)
    if _all_differ(groups):
        return None
    return _grouped(token, np.sqrt(move(variance)), groups)


def _grouped(token: object, deviation: Array, groups: Array) -> tuple[Key, Shared]:
    """Return an error whose random numbers are numbered from 1 in `groups`; 0 is an element without error.

    Where axes cannot tell the groups apart (a flattened array), the errors are counted as one number that adds up
    along each axis on which a group lies in several places: never too little.
    """
    axes: frozenset[int] = frozenset()
    left = groups
    for axis in range(-1, -groups.ndim - 1, -1):
        if left.shape[axis] > 1 and _is_constant(left, axis):
            left = left.max(axis=axis, keepdims=True)
            axes |= {axis}
    if _all_differ(left):
        return key(token, left - 1), Shared(deviation, axes, left - 1)
    axes = _axes_within_groups(groups)
    shape = tuple(1 if i - groups.ndim in axes else n for i, n in enumerate(groups.shape))
    return key(object(), numbered(shape)), Shared(np.abs(deviation), axes, numbered(shape))


def _is_constant(groups: Array, axis: int) -> bool:
    largest = groups.max(axis=axis, keepdims=True, initial=0)
    return bool(((groups == largest) | (groups == 0)).all())


def _all_differ(groups: Array) -> bool:
    present = groups[groups > 0]
    return present.size == 0 or int(np.bincount(present).max()) <= 1


def _axes_within_groups(groups: Array) -> frozenset[int]:
    """Return the axes along which two elements of one group lie apart."""
    flat = groups.ravel()
    axes = set()
    for axis, place in enumerate(np.indices(groups.shape).reshape(groups.ndim, -1)):
        first, last = np.full(flat.max() + 1, groups.size), np.full(flat.max() + 1, -1)
        np.minimum.at(first, flat, place)
        np.maximum.at(last, flat, place)
        if (last[1:] > first[1:])[last[1:] >= 0].any():
            axes.add(axis - groups.ndim)
    return frozenset(axes)
