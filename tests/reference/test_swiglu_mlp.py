import numpy as np
import pytest

from refkit.reference.swiglu_mlp import swiglu_mlp, swiglu_mlp_vjp

RNG = np.random.default_rng(22)
STEP = 1e-30
SIZES = [(1, 1, 1), (3, 5, 4), (6, 2, 9)]  # (M, K, I)


def draw(M, K, inner):
    return RNG.standard_normal((M, K)), RNG.standard_normal((K, 2 * inner)), RNG.standard_normal((inner, K))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["x", "w", "w_down"])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(sizes, which):
    inputs, dy = list(draw(*sizes)), RNG.standard_normal(sizes[:2])
    gradient = swiglu_mlp_vjp(dy, *inputs)[which]
    direction = RNG.standard_normal(inputs[which].shape)
    inputs[which] = inputs[which] + 1j * STEP * direction
    directional = np.sum(dy * swiglu_mlp(*inputs).y.imag / STEP)
    assert np.sum(gradient * direction) == pytest.approx(directional, rel=1e-11)


def test_forward_and_vjp_agree_with_jax(jax):
    x, w, w_down = draw(5, 3, 6)
    dy = RNG.standard_normal((5, 3))

    def independent(x, w, w_down):
        left, gate = jax.numpy.split(jax.numpy.einsum("mk,ki->mi", x, w), 2, axis=1)
        return jax.numpy.einsum("mi,ik->mk", left * jax.nn.silu(gate), w_down)

    y, vjp = jax.vjp(independent, x, w, w_down)
    np.testing.assert_allclose(swiglu_mlp(x, w, w_down).y, y, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(swiglu_mlp_vjp(dy, x, w, w_down), vjp(dy), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_what_is_saved_is_what_the_next_step_reads():
    x, w, w_down = draw(4, 3, 5)
    de, out, y = swiglu_mlp(x, w, w_down)
    np.testing.assert_array_equal(de, x @ w)
    np.testing.assert_array_equal(y, out @ w_down)
    assert out.shape == (4, 5)
