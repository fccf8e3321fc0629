import numpy as np
import pytest

from refkit.reference.silu import silu, silu_vjp

RNG = np.random.default_rng(21)
FORMS = {"silu": (silu, silu_vjp, lambda jax, x: jax.nn.silu(x))}
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


def test_values_far_out():
    x = np.array([0.0, 800.0, -800.0, -1e300])
    np.testing.assert_array_equal(silu(x), [0, 800, 0, 0])
    np.testing.assert_array_equal(silu_vjp(np.ones(4), x), [0.5, 1, 0, 0])
