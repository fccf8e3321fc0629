import numpy as np
import pytest

from refkit.reference.sum_of_squares import sum_of_squares, sum_of_squares_vjp

RNG = np.random.default_rng(29)


def test_vjp_agrees_with_the_directional_derivative_of_the_forward():
    x, t, dtotal = RNG.standard_normal((4, 6)), RNG.standard_normal((4, 6)), RNG.standard_normal(1)
    directional = np.sum(dtotal * sum_of_squares(x + 1e-30j * t).imag / 1e-30)
    assert np.sum(sum_of_squares_vjp(dtotal, x) * t) == pytest.approx(directional, rel=1e-12)


def test_forward_and_vjp_are_those_of_jax(jax):
    x, dtotal = RNG.standard_normal((4, 6)), RNG.standard_normal(1)
    total, pullback = jax.vjp(lambda x: jax.numpy.sum(jax.numpy.square(x))[None], x)
    np.testing.assert_allclose(sum_of_squares(x), total, rtol=1e-12)
    np.testing.assert_allclose(sum_of_squares_vjp(dtotal, x), pullback(dtotal)[0], rtol=1e-12)


def test_no_elements_have_sum_0():
    assert sum_of_squares(np.zeros((0, 3))).tolist() == [0]
