import numpy as np
import pytest

from refkit.reference.relu import relu, relu_vjp

RNG = np.random.default_rng(23)


def test_vjp_agrees_with_the_directional_derivative_of_the_forward():
    x, dy, t = (RNG.standard_normal((6, 5)) for _ in range(3))
    x += 1e-2 * np.sign(x)  # no element crosses 0 within the step
    step = 1e-4
    directional = np.sum(dy * (relu(x + step * t) - relu(x - step * t))) / (2 * step)
    assert np.sum(relu_vjp(dy, x) * t) == pytest.approx(directional, rel=1e-10)


def test_forward_and_vjp_are_those_of_jax_the_derivative_at_0_included(jax):
    x = np.concatenate([RNG.standard_normal(50), [0.0, -0.0]])
    dy = RNG.standard_normal(52)
    y, pullback = jax.vjp(jax.nn.relu, x)
    np.testing.assert_array_equal(relu(x), y)
    np.testing.assert_array_equal(relu_vjp(dy, x), pullback(dy)[0])


def test_nan_stays_nan():
    assert np.isnan(relu(np.array([np.nan]))[0])
    assert relu_vjp(np.array([3.0]), np.array([np.nan]))[0] == 0


def test_y_serves_the_backward_pass_as_well_as_x():
    x, dy = RNG.standard_normal(30), RNG.standard_normal(30)
    np.testing.assert_array_equal(relu_vjp(dy, relu(x)), relu_vjp(dy, x))
