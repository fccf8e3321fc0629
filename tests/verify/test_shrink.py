"""Shrinking: as small as the fault allows, within its limits, and the same for the same seed."""

import time

from refkit.verify.case import Case
from refkit.verify.shrink import shrink
from tests.verify import kernels

SPEC = kernels.spec_of(kernels.right)
LARGE = Case(dims={"R": 33, "C": 29}, layouts={"x": "strided", "s": "offset"}, values="mixture", seed=123_456_789)


def test_dims_end_at_the_boundary_of_the_fault():
    small = shrink(SPEC, LARGE, lambda case: case.dims["R"] >= 5 and case.dims["C"] >= 3, seconds=20)
    assert small.dims == {"R": 5, "C": 3}
    assert not small.layouts
    assert (small.values, small.seed) == ("normal", 0)


def test_a_layout_that_the_fault_needs_is_kept():
    small = shrink(SPEC, LARGE, lambda case: case.layout("x") == "strided", seconds=20)
    assert dict(small.layouts) == {"x": "strided"}
    assert small.dims == {"R": 1, "C": 1}


def test_the_case_itself_is_the_answer_where_nothing_smaller_fails():
    assert shrink(SPEC, LARGE, lambda case: case == LARGE, seconds=20) == LARGE


def test_time_is_bounded():
    def slow(case: Case) -> bool:
        time.sleep(0.05)
        return case.dims["R"] > 2

    started = time.monotonic()
    shrink(SPEC, LARGE, slow, seconds=0.3)
    assert time.monotonic() - started < 3


def test_the_same_seed_gives_the_same_case():
    def fails(case: Case) -> bool:
        return case.dims["R"] * case.dims["C"] >= 60

    first = shrink(SPEC, LARGE, fails, seconds=20, seed=4)
    assert fails(first)
    assert first == shrink(SPEC, LARGE, fails, seconds=20, seed=4)
