"""Judging outputs: the worst element, its wording, the coarse map and the sensitivity."""

import math

import ml_dtypes
import numpy as np
import pytest

from refkit.numerics.bounded import Bounded
from refkit.verify.judge import MOST_COUNTED, coarse_map, judge, relative_rms, ulp_counts


def bounded(value, allowed, kind="tracked"):
    value = np.asarray(value, np.float64)
    return Bounded(value, np.broadcast_to(np.asarray(allowed, np.float64), value.shape), kind)


def test_the_worst_element_is_named_with_what_was_allowed():
    got = np.array([[1.0, 2.0], [3.0, 4.5]], np.float32)
    judgement = judge({"y": bounded([[1, 2], [3, 4]], 0.25)}, {"y": got})
    assert not judgement.holds
    assert judgement.worst_ratio == 2.0
    worst = judgement.outputs[0].worst()
    assert (worst.index, worst.got, worst.expected, worst.allowed) == ((1, 1), 4.5, 4.0, 0.25)
    assert (
        judgement.outputs[0].describe() == "y[1, 1] is 4.5, expected 4 (allowed error 0.25); 1 of 4 elements is wrong"
    )


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_never_hold_against_a_finite_value(wrong):
    judgement = judge({"y": bounded([1.0, 2.0], 1e9)}, {"y": np.array([1.0, wrong], np.float32)})
    assert not judgement.holds
    assert judgement.outputs[0].worst_index == (1,)
    assert judgement.outputs[0].wrong.tolist() == [False, True]


def test_every_output_is_judged_and_the_weakest_bound_named():
    expectation = {"y": bounded([1.0], 0.1), "mean": bounded([1.0], 0.1, "estimated")}
    judgement = judge(expectation, {"y": np.ones(1, np.float32), "mean": np.zeros(1, np.float32)})
    assert judgement.worst.name == "mean"
    assert not judgement.holds
    assert judgement.bound == "estimated"


def test_exact_outputs_are_compared_for_equality():
    expected = {"n": Bounded(np.array([3, 4]), np.zeros(2), "exact")}
    assert judge(expected, {"n": np.array([3, 4], np.int32)}).holds
    assert not judge(expected, {"n": np.array([3, 5], np.int32)}).holds


def test_the_sensitivity_is_that_of_a_typical_computed_element():
    # 0 is expected once (says nothing), and one element is copied, not computed.
    got = np.array([2.0, 4.0, 0.0, 7.0], np.float32)
    judgement = judge({"y": bounded([2.0, 4.0, 0.0, 7.0], [0.2, 0.4, 0.1, 0.0])}, {"y": got})
    assert judgement.sensitivity() == {"y": pytest.approx(0.1)}
    exact = judge({"y": bounded([2.0], 0.0, "exact")}, {"y": np.array([2.0], np.float32)})
    assert exact.sensitivity() == {"y": 2.0**-24}
    coarse = judge({"y": bounded([2.0], 1e-6)}, {"y": np.array([2.0], ml_dtypes.bfloat16)})
    assert coarse.sensitivity() == {"y": 2.0**-8}  # no finer than the storage format
    assert judge({"y": bounded([0.0], 0.1)}, {"y": np.zeros(1, np.float32)}).sensitivity() == {}


def test_the_coarse_map_keeps_the_largest_value_of_each_cell():
    matrix = np.zeros((100, 3))
    matrix[99, 2] = 5.0
    cells = coarse_map(matrix, 10)
    assert len(cells) == 10
    assert len(cells[0]) == 3
    assert cells[9][2] == 5.0
    assert sum(map(sum, cells)) == 5.0
    assert coarse_map(np.zeros((0, 4))) == ()


def test_empty_outputs_hold():
    judgement = judge({"y": bounded(np.zeros((0, 3)), 0.0)}, {"y": np.zeros((0, 3), np.float32)})
    assert judgement.holds
    assert judgement.worst_ratio == 0.0


def test_distances_in_units_in_the_last_place_are_counted_by_octaves():
    expected = np.full(7, 1.0)
    steps = np.array([0, 1, -1, 2, 3, 4, 1000])
    got = (expected.astype(np.float32).view(np.int32) + np.abs(steps)).astype(np.int32).view(np.float32)
    assert ulp_counts(got, expected) == {"0": 1, "1": 2, "2": 2, "4": 1, "512": 1}
    assert ulp_counts(np.array([math.nan, 1.0], np.float32), np.array([1.0, 1.0])) == {"0": 1, "inf": 1}
    assert ulp_counts(np.array([3, 4]), np.array([3, 5])) == {}
    assert ulp_counts(np.zeros((0, 3), np.float32), np.zeros((0, 3))) == {}


def test_of_a_large_output_an_even_choice_is_counted():
    counts = ulp_counts(np.ones((4, MOST_COUNTED), np.float32), np.ones((4, MOST_COUNTED)))
    assert counts == {"0": MOST_COUNTED}


def test_the_error_of_an_output_is_relative_to_its_own_size():
    assert relative_rms(np.array([3.0, 4.0]), np.array([30.0, 40.0])) == pytest.approx(0.1)
    assert relative_rms(np.array([1e-200, math.nan]), np.array([1e-199, 1.0])) == pytest.approx(0.1)
    assert relative_rms(np.array([1.0]), np.array([0.0])) is None
    worst = judge({"y": bounded([4.0, 4.0], 0.4)}, {"y": np.array([4.1, 3.9], np.float32)}).outputs[0].worst()
    assert worst.rms_error == pytest.approx(0.025)
    assert worst.rms_allowed == pytest.approx(0.1)
    assert sum(worst.ulps.values()) == 2
