"""Distributions: each has the property it is there for, and rounding to the storage format is exact."""

import ml_dtypes
import numpy as np
import pytest

from refkit.verify.values import DISTRIBUTIONS, SCALARS, fit, integer_bound, integers, mixture

SHAPE = (40, 65)


def draw(name, shape=SHAPE, seed=0):
    return DISTRIBUTIONS[name](np.random.default_rng(seed), shape)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (3, 0), (2, 3, 4)])
def test_shape_and_dtype(name, shape):
    for seed in range(6):
        drawn = np.asarray(draw(name, shape, seed))
        assert drawn.shape == shape
        assert drawn.dtype == np.float64


@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name != "nonfinite"])
def test_finite(name):
    for seed in range(20):
        assert np.isfinite(draw(name, seed=seed)).all()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_same_seed_same_values(name):
    assert np.array_equal(draw(name, seed=3), draw(name, seed=3), equal_nan=True)
    assert not np.array_equal(draw(name, seed=3), draw(name, seed=4))


def test_large_mean_loses_digits_of_a_float32_square():
    x = draw("large_mean", seed=1)
    assert abs(x.mean()) > 25 * x.std()


def test_cancellation_leaves_little_of_a_row():
    x = draw("cancellation")
    assert np.abs(x[:, :64].sum(axis=1)).max() < 0.01 * np.abs(x).sum(axis=1).min()


def test_peaked_has_one_element_far_above_each_row():
    x = np.sort(draw("peaked"), axis=1)
    assert (x[:, -1] - x[:, -2] > 10).all()


def test_constant_rows_have_no_variance_but_differ():
    x = draw("constant_rows")
    assert (x == x[:, :1]).all()
    assert len(set(x[:, 0])) > 1


def test_signed_zeros_hold_both_zeros():
    x = draw("signed_zeros")
    assert ((x == 0) & np.signbit(x)).any()
    assert ((x == 0) & ~np.signbit(x)).any()


def test_subnormals_are_subnormal_in_float32_and_float16():
    x = draw("subnormals")
    single, half = x.astype(np.float32), x.astype(np.float16)
    assert ((single != 0) & (np.abs(single) < np.finfo(np.float32).smallest_normal)).any()
    assert ((half != 0) & (np.abs(half) < np.finfo(np.float16).smallest_normal)).any()


def test_very_negative_has_a_tail():
    assert draw("very_negative").min() < -1000


def test_wide_spans_many_binades():
    x = np.abs(draw("wide"))
    assert x.max() / np.median(x) > 100
    assert np.median(x) / x.min() > 1000


def test_ties_repeat_the_maximum():
    x = draw("ties")
    assert (x == x.max()).sum() > 1


def test_positive_and_uniform_ranges():
    assert draw("positive").min() > 0
    uniform = draw("uniform", (100_000,))
    assert uniform.min() >= 0
    assert uniform.astype(ml_dtypes.bfloat16).astype(float).max() < 1


def test_nonfinite_holds_nan_and_infinities():
    seen = np.concatenate([draw("nonfinite", (8,), seed) for seed in range(40)])
    assert np.isnan(seen).any()
    assert np.isposinf(seen).any()
    assert np.isneginf(seen).any()
    assert np.isfinite(seen).mean() > 0.5


def test_mixture_shows_every_component():
    seeds = range(300)
    means = {abs(mixture(np.random.default_rng(seed), SHAPE).mean()) > 25 for seed in seeds}
    constant = {(x == x[:, :1]).all() for x in (mixture(np.random.default_rng(seed), SHAPE) for seed in seeds)}
    assert means == {True, False}
    assert constant == {True, False}


@pytest.mark.parametrize("terms", [1, 10, 300, 131_072, 2**23, 2**30])
@pytest.mark.parametrize(("significand", "factor"), [(24, 1.0), (24, 4.0), (11, 1.0), (53, 1.0)])
def test_integer_bound_keeps_sums_exact(terms, significand, factor):
    bound = integer_bound(terms, significand=significand, factor=factor)
    assert bound >= 1
    # From bound 1 on nothing smaller is left; the promise holds wherever it can.
    assert bound == 1 or bound**2 * terms * factor <= 2**significand


def test_integer_bound_fits_the_storage_format():
    assert integer_bound(1, storage_significand=2) <= 4
    assert integer_bound(1) == 8


def test_integers_reach_both_ends():
    x = integers(np.random.default_rng(0), (1000,), 3)
    assert set(x) == {-3, -2, -1, 0, 1, 2, 3}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_fit_rounds_to_nearest_in_the_format(dtype):
    x = np.random.default_rng(0).standard_normal(5000)
    stored = fit(x, np.dtype(dtype), 1e30).astype(np.float64)
    one_up = np.nextafter(fit(x, np.dtype(dtype), 1e30), np.dtype(dtype).type(10)).astype(np.float64)
    one_down = np.nextafter(fit(x, np.dtype(dtype), 1e30), np.dtype(dtype).type(-10)).astype(np.float64)
    assert (np.abs(x - stored) <= np.abs(x - one_up)).all()
    assert (np.abs(x - stored) <= np.abs(x - one_down)).all()


def test_fit_does_not_round_twice():
    # A hair above the midpoint of two bfloat16 numbers; by way of float32 it would become the midpoint and round down.
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(fit(x, np.dtype(ml_dtypes.bfloat16), 10.0)[0]) == 1 + 2.0**-7


def test_fit_scales_by_a_power_of_two():
    x = np.array([-1000.0, 3.0, np.inf])
    fitted = fit(x, np.dtype(np.float16), 128.0)
    assert fitted.tolist() == [-125.0, 0.375, np.inf]


def test_named_scalars_start_with_the_plainest():
    assert all(values[0] in (1, 1.0, 0.5) for values in SCALARS.values())
    assert min(SCALARS["positive"]) > 0
