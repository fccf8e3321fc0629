import numpy as np
import pytest

from refkit.reference.residual import residual, residual_accumulate, residual_vjp

RNG = np.random.default_rng(24)


def test_both_paths_of_a_residual_block_add_up(jax):
    """y = x + f(x) with f(x) = sin(x) * 3: its gradient is what f gives, plus dy."""
    x, dy = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 3))
    y, pullback = jax.vjp(lambda x: x + jax.numpy.sin(x) * 3, x)
    np.testing.assert_allclose(residual(x, np.sin(x) * 3), y, rtol=1e-12)
    through_the_branch = residual_vjp(dy)[1] * 3 * np.cos(x)
    np.testing.assert_allclose(residual_accumulate(dy, through_the_branch), pullback(dy)[0], rtol=1e-12)


def test_vjp_agrees_with_the_directional_derivative_of_the_forward():
    x, r, dy, tx, tr = (RNG.standard_normal((5, 4)) for _ in range(5))
    directional = np.sum(dy * residual(x + 1e-30j * tx, r + 1e-30j * tr).imag / 1e-30)
    dx, dr = residual_vjp(dy)
    assert np.sum(dx * tx) + np.sum(dr * tr) == pytest.approx(directional, rel=1e-12)
