"""The executor's `mma.sync` against the oracle, bit for bit."""

import numpy as np
import pytest

import refkit.cpu

from . import oracle
from .cases import CASES, run
from .draws import CLASSES, draw
from .tables import multiply


@pytest.mark.cpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_executor_agrees_with_the_oracle(case):
    count = 12 if case.a == "f64" else 60
    inputs = [draw(case, what, count) for what in CLASSES[: 1 if case.accumulator == "s32" else None]]
    a, b, c = (np.concatenate(parts) for parts in zip(*inputs))
    with refkit.cpu.emulate():
        got = multiply(case, run, a, b, c)
    wanted = oracle.multiply(case, a, b, c)
    if case.a == "f64":  # the payload of a NaN is the processor's own
        nan = np.isnan(wanted.view(np.float64))
        assert np.array_equal(nan, np.isnan(got.view(np.float64)))
        got, wanted = got[~nan], wanted[~nan]
    wrong = np.argwhere(got != wanted)
    assert len(wrong) == 0, (len(wrong), wrong[0], hex(got[tuple(wrong[0])]), hex(wanted[tuple(wrong[0])]))
