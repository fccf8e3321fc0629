"""One-hot probes: which element each register of each lane holds, of A, of B, and of C and D."""

import numpy as np
import pytest

import refkit.cpu

from .cases import BITS, CASES, Case, run
from .draws import FORMATS
from .oracle import NUMPY
from .tables import a_places, b_places, c_places, multiply

DISTINCT = [case for case in CASES if not case.saturates]


def one(kind: str) -> int:
    """The encoding of 1."""
    if kind in ("s8", "u8"):
        return 1
    exponent_bits, fraction_bits = FORMATS[kind]
    return (2 ** (exponent_bits - 1) - 1) << fraction_bits


def codes(kind: str, count: int) -> np.ndarray:
    """`count` encodings of distinct numbers that float32, and float16, hold exactly."""
    if kind in ("s8", "u8"):
        return np.arange(1, count + 1, dtype=np.uint8)
    _, fraction_bits = FORMATS[kind]
    step = 1 << max(0, fraction_bits - 3)
    return (one(kind) + step * np.arange(count)).astype(f"u{BITS[kind] // 8}")


def accumulated(encoded: np.ndarray, case: Case, kind: str) -> np.ndarray:
    """The numbers of `codes` as D would hold them."""
    if case.accumulator == "s32":
        return encoded.astype(np.uint32)
    numbers = encoded.view(NUMPY[kind]).astype(np.float64)
    return numbers.astype(NUMPY[case.accumulator]).view(f"u{BITS[case.accumulator] // 8}")


def unsigned(kind: str) -> np.dtype:
    return np.dtype(f"u{BITS[kind] // 8}")


@pytest.mark.cpu
@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: case.name)
def test_each_element_of_a_is_where_the_isa_says(case):
    """A is one-hot, row k of B holds a number of its own: it must fill the row of D that A's element is in."""
    count = case.m * case.k
    a = np.zeros((count, case.m, case.k), unsigned(case.a))
    rows, columns = (places.ravel() for places in a_places(case))
    a[np.arange(count), rows, columns] = one(case.a)
    marks = codes(case.b, case.k)
    b = np.broadcast_to(marks[None, :, None], (count, case.k, 8)).copy()
    with refkit.cpu.emulate():
        d = multiply(case, run, a, b, np.zeros((count, case.m, 8), unsigned(case.accumulator)))
    wanted = np.zeros_like(d)
    wanted[np.arange(count), rows] = accumulated(marks, case, case.b)[columns][:, None]
    assert np.array_equal(d, wanted)


@pytest.mark.cpu
@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: case.name)
def test_each_element_of_b_is_where_the_isa_says(case):
    count = case.k * 8
    b = np.zeros((count, case.k, 8), unsigned(case.b))
    rows, columns = (places.ravel() for places in b_places(case))
    b[np.arange(count), rows, columns] = one(case.b)
    marks = codes(case.a, case.k)
    a = np.broadcast_to(marks[None, None, :], (count, case.m, case.k)).copy()
    with refkit.cpu.emulate():
        d = multiply(case, run, a, b, np.zeros((count, case.m, 8), unsigned(case.accumulator)))
    wanted = np.zeros_like(d)
    wanted[np.arange(count), :, columns] = accumulated(marks, case, case.a)[rows][:, None]
    assert np.array_equal(d, wanted)


@pytest.mark.cpu
@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: case.name)
def test_each_element_of_c_is_where_the_isa_says(case):
    """C is one-hot, and all of A and B is 1: D is k everywhere, and k + 1 at C's element."""
    count = case.m * 8
    c = np.zeros((count, case.m, 8), unsigned(case.accumulator))
    rows, columns = (places.ravel() for places in c_places(case))
    unit = 1 if case.accumulator == "s32" else one(case.accumulator)
    c[np.arange(count), rows, columns] = unit
    a = np.full((count, case.m, case.k), one(case.a), unsigned(case.a))
    b = np.full((count, case.k, 8), one(case.b), unsigned(case.b))
    with refkit.cpu.emulate():
        d = multiply(case, run, a, b, c)
    sums = np.unique(d)
    assert len(sums) == 2
    assert np.array_equal(d == sums[1], c != 0)
