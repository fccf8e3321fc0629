import numpy as np
import pytest

from refkit.reference.rms_norm import rms_norm, rms_norm_dx, rms_norm_residual, rms_norm_vjp

RNG = np.random.default_rng(12)
STEP = 1e-30


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 17)])
@pytest.mark.parametrize("with_gamma", [True, False])
@pytest.mark.parametrize("with_dh", [True, False])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(shape, with_gamma, with_dh):
    x, dy, tx, dh = (RNG.standard_normal(shape) for _ in range(4))
    gamma, tgamma = (RNG.standard_normal(shape[1]) for _ in range(2))
    stepped = x + 1j * STEP * tx
    stepped_gamma = gamma + 1j * STEP * tgamma if with_gamma else None

    directional = np.sum(dy * rms_norm(stepped, stepped_gamma, 1e-3).y.imag / STEP)
    directional += np.sum(dh * stepped.imag / STEP) if with_dh else 0.0
    gradients = rms_norm_vjp(dy, x, gamma if with_gamma else None, 1e-3, dh if with_dh else None)
    predicted = np.sum(gradients.dx * tx) + (np.sum(gradients.dgamma * tgamma) if with_gamma else 0.0)

    assert predicted == pytest.approx(directional, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("with_gamma", [True, False])
def test_residual_form_and_its_gradient_agree_with_jax(jax, with_gamma):
    x, r, dy, dh = (RNG.standard_normal((5, 33)) for _ in range(4))
    gamma = RNG.standard_normal(33) if with_gamma else None

    def forward(x, r, gamma):
        h = x + r
        y = h * jax.lax.rsqrt(jax.numpy.mean(jax.numpy.square(h), axis=-1, keepdims=True) + 1e-3)
        return h, y if gamma is None else y * gamma

    (h, y), vjp = jax.vjp(forward, x, r, gamma)
    dx, dr, dgamma = vjp((dh, dy))

    outputs = rms_norm_residual(x, r, gamma, 1e-3)
    gradients = rms_norm_vjp(dy, outputs.h, gamma, 1e-3, dh)
    np.testing.assert_allclose(outputs.h, h, rtol=1e-10)
    np.testing.assert_allclose(outputs.y, y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients.dx, dx, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients.dx, dr, rtol=1e-10, atol=1e-12)
    if with_gamma:
        np.testing.assert_allclose(gradients.dgamma, dgamma, rtol=1e-10, atol=1e-12)


def test_normalised_rows_have_mean_square_1_and_the_mean_stays_in():
    x = RNG.standard_normal((6, 400)) + 50
    y, rstd = rms_norm(x, eps=0.0)
    np.testing.assert_allclose((y * y).mean(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(y, x / np.sqrt((x * x).mean(axis=1, keepdims=True)), rtol=1e-12)
    np.testing.assert_allclose(y / x, np.repeat(rstd[:, None], 400, axis=1), rtol=1e-12)


def test_a_gradient_along_the_row_itself_vanishes_without_eps():
    x = RNG.standard_normal((3, 9))
    y, rstd = rms_norm(x, eps=0.0)
    np.testing.assert_allclose(rms_norm_dx(y, x, None, rstd), 0, atol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_mean_over_no_columns_is_undefined():
    y, rstd = rms_norm(np.ones((2, 0)))
    assert y.shape == (2, 0)
    assert np.isnan(rstd).all()
