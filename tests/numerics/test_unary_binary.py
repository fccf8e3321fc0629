"""Error rules of elementwise functions, against a Monte Carlo of the same error and against float32 itself."""

import numpy as np
import pytest
from scipy import special

from refkit.numerics import Precision, error_ratio, evaluate
from refkit.numerics.binary import BINARY
from refkit.numerics.rounding import LAMBDA, RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked
from refkit.numerics.unary import UNARY

MODEL = RoundingModel()
SMALL = 1e-6
SAMPLES = 20_000

SMOOTH = [f for f in UNARY if f not in (np.floor, np.ceil, np.trunc, np.rint, np.sign)]
POSITIVE = (np.sqrt, np.log, np.log2, np.log10, np.log1p)
WITHIN_ONE = (np.arcsin, np.arccos)


def points(function):
    if function in WITHIN_ONE:
        return np.array([-0.7, -0.2, 0.1, 0.6])
    x = np.array([0.3, 0.9, 1.7, 2.9])
    return x if function in POSITIVE else np.concatenate([-x, x])


def tracked(x, std=SMALL):
    x = np.asarray(x, np.float64)
    return Tracked(x, MODEL, np.full(x.shape, std**2))


def monte_carlo(function, *operands, std=SMALL, seed=0):
    """Standard deviation of `function` where each operand has independent errors of standard deviation `std`."""
    rng = np.random.default_rng(seed)
    disturbed = [np.asarray(x) + std * rng.standard_normal((SAMPLES, *np.shape(x))) for x in operands]
    return np.std(function(*disturbed), axis=0)


@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: f.__name__)
def test_the_error_of_an_operand_goes_through_the_derivative(function):
    x = points(function)
    got = function(tracked(x))
    assert np.array_equal(got.value, function(x))
    own = function(Tracked(x, MODEL)).deviation
    inherited = np.sqrt(got.deviation**2 - own**2)
    np.testing.assert_allclose(inherited, monte_carlo(function, x), rtol=0.03)


@pytest.mark.parametrize("function", SMOOTH, ids=lambda f: f.__name__)
def test_an_error_that_elements_share_goes_on_with_the_sign_of_the_derivative(function):
    x = points(function)
    got = function(x + tracked(np.zeros(1)))
    (part,) = got.shared.values()
    slope = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(np.broadcast_to(part.deviation, x.shape) / SMALL, slope, rtol=1e-4)


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_the_errors_of_two_operands_add_in_quadrature(function):
    x = np.array([0.3, 0.9, 1.7, 2.9])
    y = np.array([1.9, 0.2, 2.3, 0.7])
    if function is np.copysign:
        got = function(tracked(x), -np.ones(4))
        assert np.array_equal(got.value, -x)
        np.testing.assert_allclose(got.deviation, SMALL)
        return
    got = function(tracked(x), tracked(y))
    assert np.array_equal(got.value, function(x, y))
    own = function(Tracked(x, MODEL), Tracked(y, MODEL)).deviation
    inherited = np.sqrt(got.deviation**2 - own**2)
    np.testing.assert_allclose(inherited, monte_carlo(function, x, y), rtol=0.03)


def test_an_operand_used_twice_adds_linearly():
    x = tracked([1.5, -2.0])
    for got, expected in ((x * x, 2 * np.abs(x.value)), (x + x, 2), (np.square(x), 2 * np.abs(x.value)), (x - x, 0)):
        np.testing.assert_allclose(got.deviation / SMALL, np.broadcast_to(expected, 2), rtol=0.02)
    assert np.all((x / x).deviation == 0)
    np.testing.assert_allclose((x**3).deviation / SMALL, 3 * x.value**2, rtol=0.3)


def test_where_the_first_derivative_vanishes_the_second_counts():
    error = 1e-3
    square = Tracked(np.zeros(3), MODEL, np.full(3, error**2))
    assert np.all(LAMBDA * (square * square).deviation >= (LAMBDA * error) ** 2)
    cosine = np.cos(tracked(np.zeros(1), error))
    assert LAMBDA * cosine.deviation[0] >= 1 - np.cos(LAMBDA * error)
    # The mean shift of a square does not average away in a sum.
    total = (square * square).sum()
    assert LAMBDA * total.deviation >= 3 * (LAMBDA * error) ** 2


def test_an_error_larger_than_the_value_is_followed_by_the_change_of_the_function():
    x = tracked([1e-5], 1e-5)
    assert LAMBDA * np.sqrt(x).deviation[0] >= np.sqrt(9e-5) - np.sqrt(1e-5)
    assert LAMBDA * (1 / x).deviation[0] >= 1 / 2e-6 - 1e5
    assert LAMBDA * np.exp(tracked([0.0], 0.5)).deviation[0] >= np.expm1(4.0)


@pytest.mark.parametrize("function", [*UNARY], ids=lambda f: f.__name__)
def test_float32_functions_stay_within_the_bound(function):
    rng = np.random.default_rng(0)
    wide = np.exp2(rng.uniform(-140, 120, 4000)) * rng.choice([-1, 1], 4000)
    special_values = np.array([0.0, -0.0, 1.0, -1.0, 2.0**-149, 2.0**-126, 3e38, np.inf, -np.inf, np.nan])
    x = np.concatenate([wide, 3 * rng.standard_normal(4000), special_values]).astype(np.float32)
    if function in (np.sin, np.cos, np.tan):
        x = x[~(np.abs(x) > 1e4)]
    with np.errstate(all="ignore"):
        (bounded,) = evaluate(lambda x: function(x), {"x": x})
        ratio = error_ratio(function(x), bounded)
    assert bounded.kind == "tracked", bounded.reason
    assert ratio.max() <= 1, (x[ratio.argmax()], function(x[ratio.argmax()]), bounded.value[ratio.argmax()])


@pytest.mark.parametrize("function", [f for f in BINARY if f is not np.float_power], ids=lambda f: f.__name__)
def test_float32_functions_of_two_operands_stay_within_the_bound(function):
    rng = np.random.default_rng(1)
    x = np.exp2(rng.uniform(-60, 60, 5000)) * rng.choice([-1, 1], 5000)
    y = np.concatenate([np.exp2(rng.uniform(-60, 60, 2500)), rng.standard_normal(2500)])
    if function is np.power:
        x, y = np.abs(x), rng.standard_normal(5000)
    x, y = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        (bounded,) = evaluate(lambda x, y: function(x, y), {"x": x, "y": y})
        ratio = error_ratio(function(x, y), bounded)
    assert bounded.kind == "tracked", bounded.reason
    assert ratio.max() <= 1


def test_masks_of_minus_infinity_carry_no_error():
    x = tracked([-np.inf, 0.0, -np.inf])
    shifted = x - x.max()
    p = np.exp(shifted)
    assert p.value.tolist() == [0.0, 1.0, 0.0]
    assert np.all(np.isfinite(p.deviation))
    assert p.deviation[0] * LAMBDA < 1e-30


def test_overflow_inside_a_kernel_is_followed_to_its_limit():
    x = np.array([-100.0, -80.0], np.float32)
    with np.errstate(all="ignore"):
        (bounded,) = evaluate(lambda x: x / (1 + np.exp(-x)), {"x": x})
        got = x / (1 + np.exp(-x))
    assert got[0] == 0  # exp(100) is infinite in float32
    assert error_ratio(got, bounded).max() <= 1
    assert error_ratio(np.float32([0, 0]), bounded)[1] > 1


def test_jumps_have_an_error_only_where_the_operand_reaches_across():
    x = tracked([0.5, 1 - 1e-7, 1 + 1e-7], 1e-7)
    assert (np.floor(x).deviation * LAMBDA).tolist() == pytest.approx([0, 1, 1])
    assert np.sign(tracked([2.0])).deviation.tolist() == [0]


def test_maximum_takes_the_error_of_what_it_chooses():
    x = Tracked([1.0, 2.0, 3.0], MODEL, np.array([1e-12, 4e-12, 9e-12]))
    got = np.maximum(x, 2.0)
    np.testing.assert_allclose(got.deviation, [0, 2e-6, 3e-6])
    np.testing.assert_allclose(np.clip(x, 1.5, 2.5).deviation, [0, 2e-6, 0])


def test_constants_that_float32_cannot_hold_have_an_error_and_others_none():
    x = Tracked(np.ones(2), MODEL)
    assert np.all((x * 0.1).deviation / 0.1 > 1.3 * (x * 0.125).deviation / 0.125)
    assert np.all((x * np.float64(np.float32(0.1))).deviation < (x * 0.1).deviation)
    (bounded,) = evaluate(lambda x: 0.1 * x, {"x": np.ones(4, np.float32)})
    assert error_ratio(np.full(4, 0.1, np.float32), bounded).max() <= 1


def test_fast_math_widens_functions_and_lets_subnormals_flush():
    x = np.array([20.0, 1e-3], np.float32)
    plain, fast = (evaluate(lambda x: np.exp(x), {"x": x}, Precision(fast_math=f))[0] for f in (False, True))
    assert fast.allowed[0] > 5 * plain.allowed[0]
    tanh = evaluate(lambda x: np.tanh(x), {"x": x}, Precision(fast_math=True))[0]
    assert tanh.allowed[0] >= 2.0**-11
    subnormal = {"x": np.array([1e-39], np.float32)}
    for flag in (False, True):
        (bounded,) = evaluate(lambda x: x * np.float32(0.5), subnormal, Precision(fast_math=flag))
        assert (error_ratio(np.zeros(1, np.float32), bounded)[0] <= 1) == flag


def test_what_has_no_rule_is_refused():
    x = tracked([1.0])
    with pytest.raises(CannotTrack, match="gammaln"):
        special.gammaln(x)
    with pytest.raises(CannotTrack, match="where"):
        np.exp(x, where=[True])
