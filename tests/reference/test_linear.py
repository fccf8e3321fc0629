import numpy as np
import pytest

from refkit.reference.linear import linear, linear_gelu, linear_vjp

RNG = np.random.default_rng(7)
STEP = 1e-30  # a complex step has no cancellation, so it can be as small as this


@pytest.mark.parametrize(("T", "K", "N"), [(1, 1, 1), (5, 3, 4), (7, 11, 2)])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(T, K, N):
    x, w, b, dy = (RNG.standard_normal(s) for s in ((T, K), (K, N), (N,), (T, N)))
    tx, tw, tb = (RNG.standard_normal(s) for s in ((T, K), (K, N), (N,)))

    directional = np.sum(dy * linear(x + 1j * STEP * tx, w + 1j * STEP * tw, b + 1j * STEP * tb).imag / STEP)
    dx, dw, db = linear_vjp(dy, x, w)

    assert np.sum(dx * tx) + np.sum(dw * tw) + np.sum(db * tb) == pytest.approx(directional, rel=1e-12)


def test_forward_is_a_sum_of_products_plus_the_bias():
    x, w, b = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([[1.0, -1.0], [10.0, 0.5]]), np.array([100.0, 0])
    assert linear(x, w).tolist() == [[21, 0], [43, -1], [65, -2]]
    assert linear(x, w, b).tolist() == [[121, 0], [143, -1], [165, -2]]


def test_contraction_over_nothing_leaves_the_bias():
    assert linear(np.ones((2, 0)), np.ones((0, 3)), np.arange(3.0)).tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(("T", "K", "N"), [(1, 1, 1), (5, 3, 4)])
def test_forward_and_vjp_agree_with_jax(T, K, N, jax):
    x, w, b, dy = (RNG.standard_normal(s) for s in ((T, K), (K, N), (N,), (T, N)))
    y, vjp = jax.vjp(lambda x, w, b: x @ w + b, *map(jax.numpy.asarray, (x, w, b)))
    np.testing.assert_allclose(linear(x, w, b), y, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(linear_vjp(dy, x, w), vjp(jax.numpy.asarray(dy)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_linear_gelu_agrees_with_jax(jax):
    x, w, b = (RNG.standard_normal(s) for s in ((5, 3), (3, 4), (4,)))
    h, y = linear_gelu(x, w, b)
    np.testing.assert_allclose(h, x @ w + b, rtol=1e-12)
    np.testing.assert_allclose(y, jax.nn.gelu(jax.numpy.asarray(x @ w + b), approximate=True), rtol=1e-10, atol=1e-12)
