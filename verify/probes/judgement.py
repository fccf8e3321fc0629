"""From the facts of one-hot experiments to a verdict on each operand: does the layout data say what the device does?

An `mma` shows only which elements meet. So the row and the column of an element are read through what the data claims
of the other operands. Where claims and facts disagree, an operand is to blame if its repair makes everything agree;
among several, one that two exchanged registers explain, else all of them: the products cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from refkit.cuda_kernels.layouts import Fragment, LayoutError, MmaLayout, SharedMatrix, from_arrays
from refkit.cuda_kernels.layouts.shared_matrix import text_of
from refkit.verify.probes.naming import describe, is_one_exchange
from refkit.verify.probes.one_hot import UNKNOWN, Meetings, MmaFacts, MoveFacts


@dataclass(frozen=True)
class Found:
    """What an operand was found to hold: row and column by place, (lanes, registers, parts); UNKNOWN where unclear."""

    row: np.ndarray
    column: np.ndarray

    def fragment(self, like: Fragment) -> Fragment | None:
        """The fragment found, or None where it is not one."""
        if np.any(self.row == UNKNOWN) or np.any(self.column == UNKNOWN):
            return None
        try:
            return from_arrays(self.row, self.column, like.element_bits, like.register_bits)
        except LayoutError:
            return None

    def differs(self, claimed: Fragment) -> np.ndarray:
        """Which places hold something else than claimed, or nothing clear: (32, registers, parts) bool."""
        return (self.row != claimed.row_of) | (self.column != claimed.column_of)

    def to_text(self) -> tuple[str, ...]:
        """As the layout's own `to_text`, with `?` for what is not clear, and `-` for memory in which nothing lies."""
        return text_of(self.row, self.column)


@dataclass(frozen=True)
class OperandVerdict:
    """One operand: "passed" or "failed", what was claimed and found, and what is wrong in one line."""

    operand: str
    status: str
    claimed: Fragment | SharedMatrix
    found: Found
    message: str = ""


def judge_move(facts: MoveFacts, claimed: Fragment) -> OperandVerdict:
    """The verdict on a move, whose places show their elements directly."""
    found = Found(facts.row, facts.column)
    if not found.differs(claimed).any():
        return OperandVerdict("registers", "passed", claimed, found)
    return OperandVerdict("registers", "failed", claimed, found, describe("r", claimed, found.row, found.column))


def judge_mma(facts: MmaFacts, layout: MmaLayout) -> tuple[OperandVerdict, ...]:
    """The verdicts on A, B, C and D."""
    claims = {"A": layout.a, "B": layout.b, "D": layout.c}
    found = _found(facts, claims)
    wrong = [name for name in claims if found[name].differs(claims[name]).any()]
    blamed = _blamed(facts, claims, found, wrong)
    settled = dict(claims)
    for name in blamed[:1]:
        settled[name] = found[name].fragment(claims[name]) or claims[name]
    consequence = _found(facts, settled) if blamed else found
    verdicts = []
    for name in claims:
        shown = found[name] if name in (blamed or wrong) else consequence[name]
        verdicts.append(_verdict(name, claims[name], shown, blamed, wrong))
    verdicts.insert(2, _verdict_on_c(facts, layout.c, settled["D"]))
    return tuple(verdicts)


def _verdict(name: str, claimed: Fragment, found: Found, blamed: list[str], wrong: list[str]) -> OperandVerdict:
    if name not in (blamed or wrong):
        return OperandVerdict(name, "passed", claimed, found)
    message = describe(name.lower(), claimed, found.row, found.column)
    others = [other for other in blamed if other != name]
    if others:
        message += f" (or the data of {' and '.join(others)} is wrong in the same way: products cannot tell)"
    elif not blamed:
        message += " (no change to one operand's data alone makes them agree)"
    return OperandVerdict(name, "failed", claimed, found, message)


def _verdict_on_c(facts: MmaFacts, claimed: Fragment, d: Fragment) -> OperandVerdict:
    """C shows at places of D, whose elements are known by now."""
    found = _voted(claimed, facts.c, d.row_of.ravel()[facts.d_of_c], d.column_of.ravel()[facts.d_of_c], 1)
    if not found.differs(claimed).any():
        return OperandVerdict("C", "passed", claimed, found)
    return OperandVerdict("C", "failed", claimed, found, describe("c", claimed, found.row, found.column))


def _blamed(facts: MmaFacts, claims: Mapping[str, Fragment], found: Mapping[str, Found], wrong: list[str]) -> list[str]:
    """The operands of which each, repaired alone, would make everything agree, by one exchange if there are such."""
    simple: dict[str, bool] = {}
    for name in wrong:
        repaired = found[name].fragment(claims[name])
        if repaired is None or (repaired.rows, repaired.columns) != (claims[name].rows, claims[name].columns):
            continue
        settled = {**claims, name: repaired}
        again = _found(facts, settled)
        if not any(again[other].differs(settled[other]).any() for other in claims):
            simple[name] = is_one_exchange(claims[name], found[name].row, found[name].column)
    return [name for name in simple if simple[name] == max(simple.values())]


def _found(facts: MmaFacts, claims: Mapping[str, Fragment]) -> dict[str, Found]:
    """What each operand holds, seen through the claims on the two others."""
    a, b, d = claims["A"], claims["B"], claims["D"]
    by_a, by_b = _known(facts.by_a), _known(facts.by_b)
    return {
        "A": _voted(a, by_a.a, d.row_of.ravel()[by_a.d], b.row_of.ravel()[by_a.b], b.columns),
        "B": _voted(b, by_b.b, a.column_of.ravel()[by_b.a], d.column_of.ravel()[by_b.d], a.rows),
        "D": _voted(d, by_a.d, a.row_of.ravel()[by_a.a], b.column_of.ravel()[by_a.b], a.columns),
    }


def _known(meetings: Meetings) -> Meetings:
    """The meetings whose three elements are all known: what is left out is missed by the counts of `_voted`."""
    known = (meetings.a != UNKNOWN) & (meetings.b != UNKNOWN)
    return replace(meetings, a=meetings.a[known], b=meetings.b[known], d=meetings.d[known])


def _voted(like: Fragment, place: np.ndarray, row: np.ndarray, column: np.ndarray, votes: int) -> Found:
    """For each place the row and column on which exactly `votes` witnesses agree, else UNKNOWN."""
    size = like.rows * like.columns
    sound = np.bincount(place, minlength=size) == votes
    result = []
    for values in (row, column):
        least, most = np.full(size, np.iinfo(np.int64).max), np.full(size, UNKNOWN)
        np.minimum.at(least, place, values)
        np.maximum.at(most, place, values)
        result.append(np.where(sound & (least == most), most, UNKNOWN).reshape(like.row_of.shape))
    return Found(*result)
