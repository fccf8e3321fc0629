import numpy as np
import pytest

from refkit.reference.gelu import gelu_erf, gelu_erf_vjp, gelu_tanh, gelu_tanh_vjp

RNG = np.random.default_rng(22)
FORMS = {
    "tanh": (gelu_tanh, gelu_tanh_vjp, lambda jax, x: jax.nn.gelu(x, approximate=True)),
    "erf": (gelu_erf, gelu_erf_vjp, lambda jax, x: jax.nn.gelu(x, approximate=False)),
}
EACH = pytest.mark.parametrize(("forward", "vjp", "of_jax"), FORMS.values(), ids=FORMS.keys())


@EACH
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(forward, vjp, of_jax):
    x, dy, t = RNG.standard_normal((5, 7)) * 3, RNG.standard_normal((5, 7)), RNG.standard_normal((5, 7))

    def slope(step):
        return np.sum(dy * (forward(x + step * t) - forward(x - step * t))) / (2 * step)

    assert np.sum(vjp(dy, x) * t) == pytest.approx((4 * slope(5e-4) - slope(1e-3)) / 3, rel=1e-9)


@EACH
def test_forward_and_vjp_are_those_of_jax(forward, vjp, of_jax, jax):
    x = np.concatenate([RNG.standard_normal(40) * 4, [-30.0, -8.0, -1e-8, 0.0, 1e-8, 8.0, 30.0]])
    dy = RNG.standard_normal(x.shape)
    y, pullback = jax.vjp(lambda x: of_jax(jax, x), x)
    np.testing.assert_allclose(forward(x), y, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(vjp(dy, x), pullback(dy)[0], rtol=1e-10, atol=1e-13)


def test_the_tanh_form_is_the_one_with_tanh():
    x = np.linspace(-4, 4, 101)
    usual = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(gelu_tanh(x), usual, rtol=1e-10, atol=1e-15)


def test_the_tails_keep_their_digits():
    # 1 - P(-10) and 1 + tanh cancel to 0 here; P(-10) is 7.619853024160526e-24.
    assert gelu_erf(np.array([-10.0]))[0] == pytest.approx(-7.619853024160526e-23, rel=1e-12)
    assert -1e-30 < gelu_tanh(np.array([-10.0]))[0] < 0


def test_values_far_out():
    x = np.array([0.0, 1e30, -1e30])
    for forward in (gelu_erf, gelu_tanh):
        np.testing.assert_array_equal(forward(x), [0, 1e30, 0])
    np.testing.assert_array_equal(gelu_erf_vjp(np.ones(3), x), [0.5, 1, 0])
    np.testing.assert_array_equal(gelu_tanh_vjp(np.ones(3), x), [0.5, 1, 0])
