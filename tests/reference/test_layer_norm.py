import numpy as np
import pytest

from refkit.reference.layer_norm import layer_norm, layer_norm_residual, layer_norm_vjp

RNG = np.random.default_rng(11)
STEP = 1e-30


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 17)])
@pytest.mark.parametrize("with_gamma", [True, False])
@pytest.mark.parametrize("with_beta", [True, False])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(shape, with_gamma, with_beta):
    C = shape[1]
    x, dy, tx = (RNG.standard_normal(shape) for _ in range(3))
    gamma, beta, tgamma, tbeta = (RNG.standard_normal(C) for _ in range(4))
    stepped_gamma = gamma + 1j * STEP * tgamma if with_gamma else None
    stepped_beta = beta + 1j * STEP * tbeta if with_beta else None

    directional = np.sum(dy * layer_norm(x + 1j * STEP * tx, stepped_gamma, stepped_beta, 1e-3).y.imag / STEP)
    gradients = layer_norm_vjp(dy, x, gamma if with_gamma else None, 1e-3)
    predicted = np.sum(gradients.dx * tx)
    predicted += np.sum(gradients.dgamma * tgamma) if with_gamma else 0.0
    predicted += np.sum(gradients.dbeta * tbeta) if with_beta else 0.0

    assert predicted == pytest.approx(directional, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("with_parameters", [True, False])
def test_residual_form_and_its_gradients_agree_with_jax(jax, with_parameters):
    x, r, dy, dh = (RNG.standard_normal((5, 33)) for _ in range(4))
    gamma, beta = (RNG.standard_normal(33) if with_parameters else None for _ in range(2))

    def forward(x, r, gamma, beta):
        h = x + r
        y = jax.nn.standardize(h, axis=-1, epsilon=1e-3)
        return h, y if gamma is None else y * gamma + beta

    (h, y), vjp = jax.vjp(forward, x, r, gamma, beta)
    dx, dr, dgamma, dbeta = vjp((dh, dy))

    outputs = layer_norm_residual(x, r, gamma, beta, 1e-3)
    gradients = layer_norm_vjp(dy, outputs.h, gamma, 1e-3, dh)
    np.testing.assert_allclose(outputs.h, h, rtol=1e-10)
    np.testing.assert_allclose(outputs.y, y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients.dx, dx, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients.dx, dr, rtol=1e-10, atol=1e-12)
    if with_parameters:
        np.testing.assert_allclose(gradients.dgamma, dgamma, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(gradients.dbeta, dbeta, rtol=1e-10, atol=1e-12)


def test_normalised_rows_have_mean_0_and_variance_1_even_with_a_large_mean():
    x = RNG.standard_normal((6, 400)) * 3 + 1e6
    y, mean, rstd = layer_norm(x, eps=0.0)
    np.testing.assert_allclose(y.mean(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(y.var(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(mean, x.mean(axis=1))
    np.testing.assert_allclose(rstd, 1 / x.std(axis=1), rtol=1e-9)


def test_gamma_alone_is_not_ignored():
    x, gamma = RNG.standard_normal((2, 8)), RNG.standard_normal(8)
    np.testing.assert_allclose(layer_norm(x, gamma).y, layer_norm(x).y * gamma)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_mean_over_no_columns_is_undefined():
    y, mean, rstd = layer_norm(np.ones((2, 0)))
    assert y.shape == (2, 0)
    assert np.isnan(mean).all()
    assert np.isnan(rstd).all()
