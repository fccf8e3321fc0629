import numpy as np
import pytest

from refkit.reference.gelu import gelu_tanh
from refkit.reference.matmul import matmul, matmul_fused, matmul_vjp

RNG = np.random.default_rng(17)
STEP = 1e-30  # a complex step has no cancellation, so it can be as small as this
SHAPES = [((1,), (1,), (1,)), ((5,), (3,), (4,)), ((2, 5), (2, 11), (2, 3))]


def operands(m, k, n):
    """a (..., M, K), b (..., K, N) and dc (..., M, N), where the leading sizes of m, k and n are the batch."""
    batch = m[:-1]
    sizes = ((m[-1], k[-1]), (k[-1], n[-1]), (m[-1], n[-1]))
    return [RNG.standard_normal((*batch, *size)) for size in sizes]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(m, k, n):
    a, b, dc = operands(m, k, n)
    ta, tb, _ = operands(m, k, n)
    directional = np.sum(dc * matmul(a + 1j * STEP * ta, b + 1j * STEP * tb).imag / STEP)
    da, db = matmul_vjp(dc, a, b)
    assert np.sum(da * ta) + np.sum(db * tb) == pytest.approx(directional, rel=1e-12)


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_forward_and_vjp_agree_with_jax(m, k, n, jax):
    a, b, dc = operands(m, k, n)
    forward, vjp = jax.vjp(jax.numpy.matmul, a, b)
    np.testing.assert_allclose(matmul(a, b), forward, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(matmul_vjp(dc, a, b), vjp(dc), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_fused_product_agrees_with_jax(jax):
    a, b, residual = operands((6,), (5,), (7,))
    bias = RNG.standard_normal(7)
    expected = jax.nn.gelu(jax.numpy.matmul(a, b) + bias, approximate=True) + residual
    np.testing.assert_allclose(matmul_fused(a, b, bias, residual, "gelu_tanh"), expected, rtol=1e-10, atol=1e-12)


def test_each_part_of_a_fused_product_is_optional():
    a, b, residual = operands((6,), (5,), (7,))
    bias = RNG.standard_normal(7)
    np.testing.assert_array_equal(matmul_fused(a, b), a @ b)
    np.testing.assert_array_equal(matmul_fused(a, b, bias), a @ b + bias)
    np.testing.assert_array_equal(matmul_fused(a, b, residual=residual), a @ b + residual)
    np.testing.assert_array_equal(matmul_fused(a, b, activation="gelu_tanh"), gelu_tanh(a @ b))


def test_a_product_over_nothing_is_0():
    assert matmul(np.ones((2, 0)), np.ones((0, 3))).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert matmul(np.ones((0, 4)), np.ones((4, 3))).shape == (0, 3)
