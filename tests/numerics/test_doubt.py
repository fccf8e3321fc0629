"""Masks of computed values: either decision is right where the error reaches across, and only there."""

import numpy as np
import pytest

from refkit.numerics import error_ratio, evaluate
from refkit.numerics.doubt import Doubtful, doubt_of, with_doubt
from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import Tracked

MODEL = RoundingModel()


def nearly_zero():
    return Tracked([-1.0, 1e-9, 1.0], MODEL, np.full(3, 1e-16))


def test_a_comparison_is_in_doubt_only_where_the_errors_reach():
    mask = nearly_zero() > 0
    assert isinstance(mask, Doubtful)
    assert np.asarray(mask).tolist() == [False, True, True]
    assert doubt_of(mask).tolist() == [False, True, False]
    assert type(nearly_zero() > 0.5) is np.ndarray
    assert type(Tracked([0.0], MODEL) > 0) is np.ndarray


def test_doubt_goes_through_logic_and_indexing_and_stops_at_counts():
    mask = nearly_zero() > 0
    for combined in (
        ~mask,
        mask & np.array([True, True, True]),
        np.array([False, False, True]) | mask,
        np.logical_not(mask),
    ):
        assert doubt_of(combined).tolist() == [False, True, False]
    assert doubt_of(mask[1:]).tolist() == [True, False]
    assert doubt_of(mask[None]).shape == (1, 3)
    assert type(mask[2:]) is np.ndarray
    assert mask.sum() == 2


@pytest.mark.parametrize(
    "mask",
    [lambda pre, dy: dy * (pre > 0), lambda pre, dy: np.where(pre > 0, dy, 0.0), lambda pre, dy: (pre > 0) * dy],
    ids=["product", "where", "mask first"],
)
def test_a_relu_mask_may_go_either_way_at_zero_and_nowhere_else(mask):
    x = np.array([[1.0, 3e-8], [1.0, -1.0], [1.0, 1.0]], np.float32)
    w = np.array([0.1, -0.1], np.float32) * np.array([1, 1e7], np.float32)
    dy = np.array([2.0, 3.0, 5.0], np.float32)
    x[0, 1] = np.float32(1e-7)  # 0.1 - 1e6 * 1e-7, which rounding decides
    (bounded,) = evaluate(lambda x, w, dy: mask(x @ w, dy), {"x": x, "w": w, "dy": dy})
    assert bounded.kind == "tracked"
    for first in (0.0, 2.0):
        assert error_ratio(np.array([first, 3.0, 0.0], np.float32), bounded).max() <= 1
    assert error_ratio(np.array([2.0, 0.0, 0.0], np.float32), bounded)[1] > 1
    assert error_ratio(np.array([2.0, 3.0, 5.0], np.float32), bounded)[2] > 1


def test_no_doubt_is_a_plain_array():
    plain = np.array([True, False])
    assert with_doubt(plain, np.zeros(2, bool)) is plain
