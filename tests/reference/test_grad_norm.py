import numpy as np
import pytest

from refkit.reference.grad_norm import clip_by_norm, clip_grad_norm, grad_norm

RNG = np.random.default_rng(28)


def test_norm_and_clipped_gradient_are_those_of_jax(jax):
    from jax.example_libraries import optimizers

    gradient = RNG.standard_normal((7, 5))
    assert grad_norm(gradient)[0] == pytest.approx(float(optimizers.l2_norm(gradient)), rel=1e-12)
    for max_norm in (0.5, 100.0):
        # JAX leaves the 1e-6 out, which at a norm near 6 changes the seventh digit of the factor.
        clipped, _ = clip_grad_norm(gradient, max_norm)
        factor = 1 if max_norm > 50 else grad_norm(gradient)[0] / (grad_norm(gradient)[0] + 1e-6)
        theirs = np.asarray(optimizers.clip_grads(gradient, max_norm))
        np.testing.assert_allclose(clipped, theirs * factor, rtol=1e-10)


def test_a_gradient_of_zeros_stays_as_it_is():
    clipped, norm = clip_grad_norm(np.zeros((3, 2)), 1.0)
    assert norm.tolist() == [0]
    assert not clipped.any()
    assert grad_norm(np.zeros((0, 2))).tolist() == [0]


def test_the_norm_of_all_tensors_scales_each():
    a, b = RNG.standard_normal(9), RNG.standard_normal((4, 4))
    norm = grad_norm(np.concatenate([a, b.ravel()]))
    clipped = np.concatenate([clip_by_norm(a, norm, 0.7), clip_by_norm(b, norm, 0.7).ravel()])
    assert np.linalg.norm(clipped) == pytest.approx(0.7, rel=1e-6)
