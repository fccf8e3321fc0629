import numpy as np
import pytest

from refkit.reference.adamw import adamw

RNG = np.random.default_rng(27)
RULE = {"lr": 0.03, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}


def test_without_decay_the_steps_are_those_of_adam_in_jax(jax):
    from jax.example_libraries import optimizers

    start = RNG.standard_normal((4, 3))
    initial, update, parameters = optimizers.adam(RULE["lr"], RULE["beta1"], RULE["beta2"], RULE["eps"])
    theirs, ours = initial(start), (start, np.zeros_like(start), np.zeros_like(start))
    for step in range(1, 6):
        gradient = RNG.standard_normal((4, 3))
        theirs = update(step - 1, gradient, theirs)  # JAX counts steps from 0
        ours = adamw(*ours, gradient, **RULE, weight_decay=0.0, step=step)
        np.testing.assert_allclose(ours.master, parameters(theirs), rtol=1e-10)


def test_decay_shrinks_the_weights_beside_the_step_and_not_the_moments():
    w, m, gradient = RNG.standard_normal((3, 8))
    v = RNG.random(8)
    plain = adamw(w, m, v, gradient, **RULE, weight_decay=0.0, step=7)
    decayed = adamw(w, m, v, gradient, **RULE, weight_decay=0.1, step=7)
    np.testing.assert_allclose(decayed.master, plain.master - RULE["lr"] * 0.1 * w, rtol=1e-12)
    np.testing.assert_array_equal(decayed.m, plain.m)
    np.testing.assert_array_equal(decayed.v, plain.v)


def test_the_first_step_goes_lr_against_the_sign_of_the_gradient():
    gradient = np.array([3.0, -1e-3, 0.0])
    zeros = np.zeros(3)
    state = adamw(np.ones(3), zeros, zeros, gradient, **RULE, weight_decay=0.0, step=1)
    np.testing.assert_allclose(state.master, 1 - 0.03 * np.sign(gradient), rtol=1e-6)
    assert state.m.tolist() == pytest.approx((0.1 * gradient).tolist())
