import numpy as np
import pytest

from refkit.reference.swiglu import swiglu, swiglu_vjp

RNG = np.random.default_rng(21)
STEP = 1e-30


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 17)])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(shape):
    merged = (shape[0], 2 * shape[1])
    de, direction, dout = RNG.standard_normal(merged), RNG.standard_normal(merged), RNG.standard_normal(shape)
    directional = np.sum(dout * swiglu(de + 1j * STEP * direction).imag / STEP)
    assert np.sum(swiglu_vjp(dout, de) * direction) == pytest.approx(directional, rel=1e-12)


def test_forward_and_vjp_agree_with_jax(jax):
    de, dout = 3 * RNG.standard_normal((5, 14)), RNG.standard_normal((5, 7))

    def independent(de):
        return de[:, :7] * jax.nn.silu(de[:, 7:])

    out, vjp = jax.vjp(independent, de)
    np.testing.assert_allclose(swiglu(de), out, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(swiglu_vjp(dout, de), vjp(dout)[0], rtol=1e-10, atol=1e-12)


def test_left_comes_first_and_gate_second():
    np.testing.assert_array_equal(swiglu(np.array([[3.0, 5.0, 0.0, 1e4]])), [[0.0, 5e4]])


def test_a_gate_far_below_zero_closes_without_nan():
    de, dout = np.array([[2.0, 3.0, -1e4, -800.0]]), np.ones((1, 2))
    np.testing.assert_array_equal(swiglu(de), [[0.0, 0.0]])
    np.testing.assert_array_equal(swiglu_vjp(dout, de), [[0.0, 0.0, 0.0, 0.0]])
