"""A named cause for a wrong output, read off the pattern of its error: where it sits, and what was written instead.

`diagnose` joins two observations, either of which may be missing: the *value* ("every wrong element is exactly half
of what is expected: a constant factor") and the *place* ("only the last column"). Each pattern is a function that
says what it sees in one clause, or nothing; the first that speaks wins. New patterns are added to `VALUES` and
`PLACES` below their like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Evidence:
    """One wrong output of one launch. All arrays have the output's shape and are float64, `wrong` and `unwritten`
    boolean.

    `old` is the former value of an `InOut` array.
    """

    got: np.ndarray
    expected: np.ndarray
    allowed: np.ndarray
    wrong: np.ndarray
    unwritten: np.ndarray | None = None
    old: np.ndarray | None = None
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    def close(self, left: np.ndarray, right: np.ndarray) -> bool:
        """True where `left` agrees with `right` on every wrong element, as closely as the error model asks."""
        with np.errstate(all="ignore"):
            slack = np.maximum(self.allowed, 1e-6 * np.abs(right))
            return bool(np.all((np.abs(left - right) <= slack)[self.wrong]))


def diagnose(evidence: Evidence) -> str:
    """What the error looks like, in one line; empty where nothing is wrong or no pattern fits."""
    if not evidence.wrong.any():
        return ""
    said = (_first(VALUES, evidence), _first(PLACES, evidence))
    return "; ".join(clause for clause in said if clause)


def _first(patterns: tuple[Callable[[Evidence], str], ...], evidence: Evidence) -> str:
    return next((said for pattern in patterns if (said := pattern(evidence))), "")


# What was written ---------------------------------------------------------------------------------------------------


def never_written(e: Evidence) -> str:
    if e.unwritten is None or not e.unwritten[e.wrong].all():
        return ""
    return "nothing was written at all" if e.unwritten.all() else "the wrong elements were never written"


def forgets_old_value(e: Evidence) -> str:
    if e.old is None or not np.any(e.old[e.wrong]):
        return ""
    if e.close(e.got, e.expected - e.old):
        return "the old value is overwritten instead of added to"
    return "the array is left as it was" if e.close(e.got, e.old) else ""


def all_nan(e: Evidence) -> str:
    if not np.isnan(e.got[e.wrong]).all():
        return ""
    return "" if np.isnan(e.expected[e.wrong]).any() else "the wrong elements are NaN"


def all_zero(e: Evidence) -> str:
    return "the wrong elements are 0" if not np.any(e.got[e.wrong]) and np.any(e.expected[e.wrong]) else ""


def negated(e: Evidence) -> str:
    return "the sign is wrong" if np.any(e.expected[e.wrong]) and e.close(e.got, -e.expected) else ""


def shifted_index(e: Evidence) -> str:
    """The neighbour's value: an index is off by one along an axis."""
    for axis in range(e.expected.ndim):
        if e.expected.shape[axis] < 2:
            continue
        for step in (1, -1):
            inside = np.zeros(e.expected.shape, bool)
            rows = [slice(None)] * e.expected.ndim
            rows[axis] = slice(None, -1) if step == 1 else slice(1, None)
            inside[tuple(rows)] = True
            seen = e.wrong & inside
            # One or two elements could agree by chance.
            if seen.sum() < max(3, 0.5 * e.wrong.sum()):
                continue
            neighbour = np.roll(e.expected, -step, axis)
            with np.errstate(all="ignore"):
                same = np.abs(e.got - neighbour) <= np.maximum(e.allowed, np.roll(e.allowed, -step, axis))
            if same[seen].all() and len(np.unique(e.expected[seen])) > 2:
                return f"each wrong element holds its neighbour's value: off by {step:+d} along {axis_name(e, axis)}"
    return ""


def transposed(e: Evidence) -> str:
    square = e.expected.ndim >= 2 and e.expected.shape[-1] == e.expected.shape[-2] > 1
    return "rows and columns are exchanged" if square and e.close(e.got, np.swapaxes(e.expected, -1, -2)) else ""


def constant_factor(e: Evidence) -> str:
    known = e.wrong & (e.expected != 0) & np.isfinite(e.got) & np.isfinite(e.expected)
    if known.sum() < max(2, 0.9 * (e.wrong & (e.expected != 0)).sum()):
        return ""
    factors = e.got[known] / e.expected[known]
    factor = float(np.median(factors))
    if (
        abs(factor - 1) < 2e-3
        or factor == 0
        or np.ptp(factors) > 2e-3 * abs(factor)
        or len(np.unique(e.expected[known])) < 2
    ):
        return ""
    return f"the wrong elements are the expected ones times {factor:.4g}{_fraction(factor)}"


def constant_offset(e: Evidence) -> str:
    with np.errstate(all="ignore"):
        offsets = (e.got - e.expected)[e.wrong]
    if offsets.size < 2 or not np.isfinite(offsets).all():
        return ""
    offset = float(np.median(offsets))
    spread = np.ptp(offsets)
    if spread > 2 * float(np.max(e.allowed[e.wrong])) + 1e-6 * abs(offset):
        return ""
    return f"the wrong elements are the expected ones plus {offset:.4g}"


def copy_of_input(e: Evidence) -> str:
    for name, array in e.inputs.items():
        if array.shape == e.got.shape and np.any(array[e.wrong]) and np.array_equal(e.got[e.wrong], array[e.wrong]):
            return f"the wrong elements are a copy of {name}"
    return ""


def everywhere_constant(e: Evidence) -> str:
    values = np.unique(e.got[e.wrong])
    if len(values) == 1 and e.wrong.sum() > 2 and len(np.unique(e.expected[e.wrong])) > 1:
        return f"every wrong element is {values[0]:.6g}"
    return ""


VALUES = (
    never_written,
    forgets_old_value,
    all_nan,
    all_zero,
    copy_of_input,
    negated,
    transposed,
    shifted_index,
    constant_factor,
    constant_offset,
    everywhere_constant,
)


def _fraction(factor: float) -> str:
    for numerator, denominator in ((1, 2), (1, 4), (1, 3), (2, 3), (3, 4), (1, 8)):
        if abs(factor * denominator - numerator) < 2e-3 * numerator:
            return f" ({numerator}/{denominator}: a part of the sum is missing)"
    return " (something is counted more than once)" if factor > 1 and abs(factor - round(factor)) < 2e-3 else ""


# Where it sits ------------------------------------------------------------------------------------------------------


def everywhere(e: Evidence) -> str:
    if e.wrong.size < 2 or not e.wrong.all():
        return ""
    return "every element is wrong"


def single_element(e: Evidence) -> str:
    if e.wrong.sum() != 1 or e.wrong.size < 2:
        return ""
    index = tuple(int(i) for i in np.argwhere(e.wrong)[0])
    last = all(i == size - 1 for i, size in zip(index, e.wrong.shape))
    first = not any(index)
    return f"only {'the last' if last else 'the first' if first else 'one'} element is wrong"


def along_an_axis(e: Evidence) -> str:
    """The axis on which the wrong indices are most telling, in words."""
    clauses = [clause for axis in range(e.wrong.ndim) if (clause := _axis_pattern(e, axis))]
    return " and ".join(clauses[:2])


def _axis_pattern(e: Evidence, axis: int) -> str:
    size = e.wrong.shape[axis]
    others = tuple(k for k in range(e.wrong.ndim) if k != axis)
    hit = np.flatnonzero(e.wrong.any(axis=others))
    name = axis_name(e, axis)
    if size < 2 or len(hit) == 0 or len(hit) == size:
        return ""
    if len(hit) == 1:
        which = {0: "the first", size - 1: "the last"}.get(int(hit[0]), "one")
        return f"only {which} {name} is wrong" + ("" if which != "one" else f" (number {hit[0]})")
    if len(hit) == size - 1 and size > 2:
        spared = int(np.setdiff1d(np.arange(size), hit)[0])
        if spared in (0, size - 1):
            return f"every {name} but the {'first' if spared == 0 else 'last'} is wrong"
    steps = np.unique(np.diff(hit))
    start, end = int(hit[0]), int(hit[-1])
    if len(steps) > 1:
        return ""
    if steps[0] > 1:
        return f"every {_ordinal(int(steps[0]))} {name} is wrong, starting with number {start}" if len(hit) > 2 else ""
    if end == size - 1:
        return f"{name}s from {start} on are wrong{_tile_note(e, start, size - start)}"
    return f"{name}s {start} to {end} are wrong{_tile_note(e, start, end + 1 - start)}"


def _tile_note(e: Evidence, start: int, count: int) -> str:
    """That the wrong stretch begins at a tile's edge, where a configuration value says how wide a tile is."""
    for key, value in e.config.items():
        if isinstance(value, int) and not isinstance(value, bool) and value > 1 and start and start % value == 0:
            part = "a partial tile" if count < value else "the edge of a tile"
            return f": {part} of {key}={value}"
    for width in (1024, 512, 256, 128, 64, 32):
        if start and start % width == 0:
            return f": {start} is a multiple of {width}"
    return ""


PLACES = (everywhere, single_element, along_an_axis)


def axis_name(e: Evidence, axis: int) -> str:
    """What `axis` is called: element, row and column, or axis k."""
    if e.wrong.ndim == 1:
        return "element"
    return ("row", "column")[axis] if e.wrong.ndim == 2 else f"index of axis {axis}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
