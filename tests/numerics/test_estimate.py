"""Noisy arrays, and how the estimated bound compares with the tracked one."""

import numpy as np
import pytest

from refkit.numerics import error_ratio, evaluate, soundness, summation
from refkit.numerics.estimate import _noisy, deviations
from refkit.numerics.rounding import LAMBDA, RoundingModel

MODEL = RoundingModel()


def noisy(x):
    return _noisy(np.asarray(x, np.float64), MODEL, np.random.default_rng(0))


def test_every_operation_commits_an_error_of_about_one_rounding():
    x = np.full(20_000, 1.1, np.float32)
    y = np.asarray(noisy(x) * noisy(x), np.float64) - x.astype(np.float64) ** 2
    assert 0.5 < np.std(y) / (1.21 * 2**-24 / np.sqrt(3)) < 2.5
    assert np.asarray(noisy(x) > 1).dtype == bool


def test_a_sum_commits_the_error_of_the_model():
    x = np.random.default_rng(1).random((500, 1000)).astype(np.float32)
    error = np.asarray(noisy(x).sum(axis=1), np.float64) - x.sum(axis=1, dtype=np.float64)
    (bounded,) = evaluate(lambda x: x.sum(axis=1), {"x": x})
    assert 0.5 < np.std(error) * LAMBDA / np.median(bounded.allowed) < 1.5


def test_noise_stays_in_the_array_through_in_place_and_at():
    x = noisy(np.ones(4))
    x += 0.3
    np.add.at(x, [0, 0], 0.5)
    np.testing.assert_allclose(np.asarray(x), [2.3, 1.3, 1.3, 1.3], rtol=1e-6)


@pytest.mark.parametrize("formula", [soundness.layer_norm_dx, soundness.rms_norm], ids=lambda f: f.__name__)
def test_the_estimate_is_of_the_size_of_the_tracked_bound(formula):
    rng = np.random.default_rng(0)
    x, gamma, dy = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 200), (200,), (16, 200)))
    arguments = {"x": x, "gamma": gamma, **({"dy": dy} if formula is soundness.layer_norm_dx else {})}
    (tracked,) = evaluate(formula, arguments)
    (spread,) = deviations(formula, arguments, MODEL, (tracked.value,))
    ratio = LAMBDA * spread / tracked.allowed
    assert 0.2 < np.median(ratio) < 3


def test_a_dropped_term_is_beyond_an_estimated_bound():
    x = np.random.default_rng(0).standard_normal((8, 4096)).astype(np.float32)
    (bounded,) = evaluate(lambda x: np.asarray(x + 0).sum(axis=1), {"x": x})
    assert bounded.kind == "estimated"
    assert error_ratio(summation.sequential(x), bounded).max() <= 1
    assert error_ratio(summation.sequential(x[:, :-1]), bounded).max() > 1
