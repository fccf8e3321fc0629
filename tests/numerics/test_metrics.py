import ml_dtypes
import numpy as np
import pytest

from refkit.numerics.bounded import Bounded
from refkit.numerics.formats import float8_e4m3fn, float32
from refkit.numerics.metrics import error_ratio, relative_error, ulp_distance


def bounded(value, allowed, **more):
    value = np.asarray(value, np.float64)
    return Bounded(value, np.broadcast_to(np.asarray(allowed, np.float64), value.shape), "tracked", **more)


def test_the_ratio_is_error_over_allowed_and_zero_over_zero_is_zero():
    ratio = error_ratio(np.array([1.0, 1.5, 2.0, 3.0]), bounded([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 0.0, 0.0]))
    assert ratio.tolist() == [0.0, 0.5, 0.0, np.inf]


def test_nan_and_infinities_must_match():
    nan, inf = np.nan, np.inf
    value = [nan, inf, -inf, inf, inf, nan, 1.0, 1.0, 1.0]
    got = [nan, inf, -inf, -inf, 1.0, inf, nan, inf, -inf]
    expected = [0.0, 0.0, 0.0, inf, inf, inf, inf, inf, inf]
    assert error_ratio(np.array(got), bounded(value, 1.0)).tolist() == expected


def test_the_ratio_is_never_nan():
    values = np.array([0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    value, got, allowed = (x.ravel() for x in np.meshgrid(values, values, np.array([0.0, 1.0, np.inf, np.nan])))
    assert not np.isnan(error_ratio(got, bounded(value, allowed))).any()


def test_beyond_the_format_its_infinity_is_right_and_the_other_is_not():
    limits = {"overflow": float32.overflow_threshold, "max_finite": float32.max_finite}
    b = bounded([1e39, 1e39, -1e39, 3.40282346e38], [0.0, 0.0, 0.0, 1e32], **limits)
    assert error_ratio(np.array([np.inf, -np.inf, -np.inf, np.inf]), b).tolist() == [0.0, np.inf, 0.0, 0.0]
    assert error_ratio(np.zeros(4), b).min() > 1


def test_without_infinities_nan_or_the_largest_number_is_right():
    limits = {"overflow": float8_e4m3fn.overflow_threshold, "max_finite": 448.0, "has_infinity": False}
    b = bounded([500.0, 500.0, 500.0, -500.0], 0.0, **limits)
    assert error_ratio(np.array([np.nan, 448.0, -448.0, -448.0]), b).tolist() == [0.0, 0.0, np.inf, 0.0]


def test_exact_outputs_are_compared_for_equality():
    b = Bounded(np.array([1, 2, 2**53 + 1]), np.zeros(3), "exact")
    assert error_ratio(np.array([1, 3, 2**53]), b).tolist() == [0.0, np.inf, np.inf]


def test_a_wrong_shape_is_an_error_not_a_broadcast():
    with pytest.raises(ValueError, match=r"\(1,\).*\(3,\)"):
        error_ratio(np.zeros(1), bounded(np.zeros(3), 1.0))


def test_ulp_distance_counts_steps_across_zero_and_binades():
    one = np.float32(1)
    assert ulp_distance(np.nextafter(one, np.float32(2)), one) == 1
    assert ulp_distance(np.nextafter(one, np.float32(0)), one) == 1
    tiny = np.float32(2.0**-149)
    assert ulp_distance(tiny, -tiny) == 2
    assert ulp_distance(np.float32(0), -np.float32(0)) == 0
    assert ulp_distance(np.float32(2), one) == 2**23
    bf16 = np.array([1.0078125], ml_dtypes.bfloat16)
    assert ulp_distance(bf16, np.array([1.0])) == 1


def test_ulp_distance_of_what_is_not_finite():
    got = np.array([np.nan, np.nan, np.inf, 1.0], np.float32)
    assert ulp_distance(got, np.array([np.nan, 1.0, np.inf, np.inf])).tolist() == [0.0, np.inf, 0.0, np.inf]


def test_relative_error():
    got = relative_error(np.array([1.5, 0.0, 1.0, np.nan]), np.array([1.0, 0.0, 0.0, np.nan]))
    assert got.tolist() == [0.5, 0.0, np.inf, 0.0]
