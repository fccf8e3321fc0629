"""The kinds of values, and the arrays that hold them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np


class Kind(enum.Enum):
    """The type of a value; the name by which Numba knows it."""

    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    FLOAT32 = "float32"
    BOOLEAN = "boolean"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type that holds it."""
        return np.dtype("bool" if self is Kind.BOOLEAN else self.value)

    @property
    def bits(self) -> int:
        """The width of an integer."""
        return self.dtype.itemsize * 8


INTEGERS = (Kind.INT32, Kind.INT64, Kind.UINT32)

FLOAT_LIMIT = 512
"""The largest magnitude of a float32 that a variable, an array or a function holds; all float32 values are integers."""


@dataclass(frozen=True)
class Array:
    """An array that a kernel names.

    space: `input` (global, read only), `rows` (global, one row a thread), `own` (global, one element a thread, for
    atomics), `sums` (global, atomics of any thread), `local`, `shared` or `dynamic` (shared, sized by the launch).
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    space: str
