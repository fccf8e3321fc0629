import numpy as np
import pytest

from refkit.reference.bias import bias, bias_vjp

RNG = np.random.default_rng(25)


@pytest.mark.parametrize(("T", "N"), [(1, 1), (5, 3), (2, 9)])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(T, N):
    x, dy, tx = (RNG.standard_normal((T, N)) for _ in range(3))
    b, tb = RNG.standard_normal((2, N))
    directional = np.sum(dy * bias(x + 1e-30j * tx, b + 1e-30j * tb).imag / 1e-30)
    dx, db = bias_vjp(dy)
    assert np.sum(dx * tx) + np.sum(db * tb) == pytest.approx(directional, rel=1e-12)


def test_forward_and_vjp_are_those_of_jax(jax):
    x, dy, b = RNG.standard_normal((6, 4)), RNG.standard_normal((6, 4)), RNG.standard_normal(4)
    y, pullback = jax.vjp(lambda x, b: x + b, x, b)
    np.testing.assert_array_equal(bias(x, b), y)
    for ours, theirs in zip(bias_vjp(dy), pullback(dy)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_no_rows_give_no_gradient():
    assert bias_vjp(np.zeros((0, 3)))[1].tolist() == [0, 0, 0]
