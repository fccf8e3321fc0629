"""A name for how a layout found differs from the one claimed: which registers, parts or lanes are exchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refkit.cuda_kernels.layouts import LANES, Fragment


def describe(letter: str, claimed: Fragment, row: np.ndarray, column: np.ndarray) -> str:
    """One line: what is exchanged, if that explains all of it, and the first place that differs.

    letter: what registers are called, "a" for a0, a1, ... row, column: found by place, negative where unclear.
    """
    differs = (row != claimed.row_of) | (column != claimed.column_of)
    lane, register, part = (int(i) for i in np.argwhere(differs)[0])
    held = (int(row[lane, register, part]), int(column[lane, register, part]))
    says = (int(claimed.row_of[lane, register, part]), int(claimed.column_of[lane, register, part]))
    place = f"{_holder(claimed)} {lane} {letter}{register}" + (f" part {part}" if claimed.parts > 1 else "")
    shown = "nothing clear" if min(held) < 0 else f"{held}"
    first = f"{place} holds {shown}, the layout data says {says}"
    cause = _cause(letter, claimed, row, column)
    return f"{cause}: {first}" if cause else f"{int(differs.sum())} of {differs.size} places differ: {first}"


def _holder(claimed: Fragment) -> str:
    return "lane" if len(claimed.elements) == LANES else "thread"


def _cause(letter: str, claimed: Fragment, row: np.ndarray, column: np.ndarray) -> str:
    for axis, name in ((1, "register"), (2, "part"), (0, _holder(claimed))):
        order = _permutation(claimed, row, column, axis)
        if order is None:
            continue
        label = letter if name == "register" else f"{name} "
        return _cycles(order, label, name)
    if np.array_equal(row, claimed.column_of) and np.array_equal(column, claimed.row_of):
        return "rows and columns are exchanged"
    return ""


def is_one_exchange(claimed: Fragment, row: np.ndarray, column: np.ndarray) -> bool:
    """Whether all that differs is two registers, or two parts of each register, exchanged."""
    orders = (_permutation(claimed, row, column, axis) for axis in (1, 2))
    return any(order is not None and sum(i != source for i, source in enumerate(order)) == 2 for order in orders)


def _permutation(claimed: Fragment, row: np.ndarray, column: np.ndarray, axis: int) -> list[int] | None:
    """`order` with found[i] = claimed[order[i]] along an axis of (lanes, registers, parts); None if there is none."""
    found = np.moveaxis(np.stack([row, column]), axis + 1, 0)
    claims = np.moveaxis(np.stack([claimed.row_of, claimed.column_of]), axis + 1, 0)
    order = []
    for held in found:
        same = [i for i, claim in enumerate(claims) if np.array_equal(held, claim)]
        if not same:
            return None
        order.append(same[0])
    return order


def _cycles(order: Sequence[int], label: str, name: str) -> str:
    moved = [i for i, source in enumerate(order) if i != source]
    pairs = [(i, order[i]) for i in moved if order[order[i]] == i and i < order[i]]
    if 2 * len(pairs) == len(moved) and len(pairs) <= 4:
        listed = ", ".join(f"{label}{i} and {label}{j}" for i, j in pairs)
        return f"{'' if name != 'register' else 'registers '}{listed} are exchanged"
    if len(moved) <= 8:
        return ", ".join(f"{label}{i} holds what the data says of {label}{order[i]}" for i in moved)
    return f"{len(moved)} {name}s hold what the data says of others"
