"""The fragment tables of the PTX ISA 9.1 as they stand there: row and column of element i of lane l, for each shape.

"groupID" is lane / 4, "threadID_in_group" is lane % 4; elements a0, a1, ... of a lane lie in its registers in order,
the first in the lowest bits. Written apart from the executor's own statement.
"""

from __future__ import annotations

import numpy as np

from .cases import BITS, Case

_LANE = np.arange(32)[:, None]
_GROUP, _THREAD = _LANE // 4, _LANE % 4


def _where(condition: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    return np.where(condition, yes, no)


def a_places(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the elements of A, each (32, elements per lane)."""
    g, t = _GROUP, _THREAD
    i = np.arange(case.m * case.k // 32)[None, :]
    key = (case.k, BITS[case.a])
    if key == (4, 64):
        return g + 0 * i, t + 0 * i
    if key == (4, 32):
        return _where(i == 0, g, g + 8), t + 0 * i
    if key == (8, 32):
        return _where((i == 0) | (i == 2), g, g + 8), _where(i < 2, t, t + 4)
    if key == (8, 16):
        return _where(i < 2, g, g + 8), t * 2 + (i & 1)
    if key == (16, 16):
        return _where((i < 2) | ((i >= 4) & (i < 6)), g, g + 8), _where(i < 4, t * 2 + (i & 1), t * 2 + (i & 1) + 8)
    if key == (32, 8):
        return _where((i < 4) | ((i >= 8) & (i < 12)), g, g + 8), _where(i < 8, t * 4 + (i & 3), t * 4 + (i & 3) + 16)
    raise ValueError(f"no table for {case}")


def b_places(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the elements of B, each (32, elements per lane)."""
    g, t = _GROUP, _THREAD
    i = np.arange(case.k * 8 // 32)[None, :]
    key = (case.k, BITS[case.b])
    if key in ((4, 64), (4, 32)):
        return t + 0 * i, g + 0 * i
    if key == (8, 32):
        return _where(i == 0, t, t + 4), g + 0 * i
    if key == (8, 16):
        return t * 2 + i, g + 0 * i
    if key == (16, 16):
        return _where(i < 2, t * 2 + (i & 1), t * 2 + (i & 1) + 8), g + 0 * i
    if key == (32, 8):
        return _where(i < 4, t * 4 + (i & 3), t * 4 + (i & 3) + 16), g + 0 * i
    raise ValueError(f"no table for {case}")


def c_places(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the elements of C and D, each (32, elements per lane)."""
    i = np.arange(case.m * 8 // 32)[None, :]
    return _where(i < 2, _GROUP, _GROUP + 8), _THREAD * 2 + (i & 1)


def _unsigned(bits: int) -> np.dtype:
    return np.dtype(f"u{bits // 8}")


def to_registers(encoded: np.ndarray, places: tuple[np.ndarray, np.ndarray], dtype: type) -> np.ndarray:
    """Matrices of encodings, (fragments, rows, columns), as registers, (fragments, 32, registers)."""
    held = np.ascontiguousarray(encoded[:, places[0], places[1]])
    return held.view(dtype)


def from_registers(registers: np.ndarray, places: tuple[np.ndarray, np.ndarray], bits: int, rows: int) -> np.ndarray:
    """The inverse of `to_registers` for C and D: matrices of encodings with 8 columns."""
    held = np.ascontiguousarray(registers).view(_unsigned(bits))
    matrices = np.zeros((len(held), rows, 8), held.dtype)
    matrices[:, places[0], places[1]] = held
    return matrices


def multiply(case: Case, run, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:  # type: ignore[no-untyped-def]
    """D as encodings, of matrices of encodings, through `run(case, a, b, c)` on registers."""
    a_type, b_type, c_type = case.dtypes
    d = run(
        case,
        to_registers(a, a_places(case), a_type),
        to_registers(b, b_places(case), b_type),
        to_registers(c, c_places(case), c_type),
    )
    return from_registers(d, c_places(case), BITS[case.accumulator], case.m)
