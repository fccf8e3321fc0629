"""Atomic operations, one thread after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "min": min,
    "max": max,
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda old, value: value,
    "inc": lambda old, value: 0 if old >= value else old + 1,
    "dec": lambda old, value: value if old == 0 or old > value else old - 1,
}


def apply(
    array: np.ndarray,
    places: tuple[np.ndarray, ...],
    active: np.ndarray,
    op: str,
    value: np.ndarray,
    comparand: np.ndarray | None = None,
) -> np.ndarray:
    """Update `array` in place for every active thread, and return what each found there (elsewhere 0).

    places: a NumPy index per axis, one element per thread. `cas` stores `value` where it finds `comparand`. Results are
    reduced modulo the width of the array's type.
    """
    found = np.zeros(len(active), array.dtype)
    for thread in np.flatnonzero(active):
        place = tuple(int(axis[thread]) for axis in places)
        old = int(array[place])
        found[thread] = old
        if comparand is not None:
            new = int(value[thread]) if old == int(comparand[thread]) else old
        else:
            new = _OPERATIONS[op](old, int(value[thread]))
        array[place] = _wrapped(new, array.dtype)
    return found


def _wrapped(value: int, dtype: np.dtype) -> int:
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
