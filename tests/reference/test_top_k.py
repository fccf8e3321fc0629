import numpy as np
import pytest

from refkit.reference.top_k import top_k, top_k_vjp

RNG = np.random.default_rng(13)
STEP = 1e-30
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(("T", "C", "K"), [(1, 1, 1), (3, 7, 2), (4, 9, 9), (2, 5, 0), (0, 5, 2)])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(T, C, K):
    x, tx, dvalues = RNG.standard_normal((T, C)), RNG.standard_normal((T, C)), RNG.standard_normal((T, K))
    _, indices = top_k(x, K)
    # x with its step sorts as x does: the choice does not move.
    directional = np.sum(dvalues * np.take_along_axis(x + 1j * STEP * tx, indices, axis=1).imag / STEP)
    assert np.sum(top_k_vjp(dvalues, indices, C) * tx) == pytest.approx(directional, rel=1e-12)


@pytest.mark.parametrize("K", [1, 4, 20])
def test_values_indices_and_gradient_agree_with_jax(jax, K):
    x, dvalues = RNG.integers(-4, 5, (50, 20)).astype(float), RNG.standard_normal((50, K))
    values, indices = jax.lax.top_k(x, K)
    (dx,) = jax.vjp(lambda x: jax.lax.top_k(x, K)[0], x)[1](dvalues)

    got = top_k(x, K)
    np.testing.assert_array_equal(got.values, values)
    np.testing.assert_array_equal(got.indices, indices)
    np.testing.assert_array_equal(top_k_vjp(dvalues, got.indices, 20), dx)


def test_equal_numbers_stand_in_the_order_of_their_indices():
    assert top_k(np.array([[1.0, 3, 1, 3, 2, 3]]), 6).indices.tolist() == [[1, 3, 5, 4, 0, 2]]
    assert top_k(np.array([[-0.0, 0.0, -0.0]]), 3).indices.tolist() == [[0, 1, 2]]


def test_nan_is_larger_than_every_number():
    values, indices = top_k(np.array([[-INF, NAN, 5, INF, NAN, -INF]]), 6)
    assert indices.tolist() == [[1, 4, 3, 2, 0, 5]]
    np.testing.assert_array_equal(values, [[NAN, NAN, INF, 5, -INF, -INF]])
