import numpy as np
import pytest

from refkit.reference.routing import (
    expert_order,
    gate,
    gate_vjp,
    permute,
    permute_vjp,
    unpermute,
    unpermute_vjp,
)

RNG = np.random.default_rng(14)
STEP = 1e-30
SIZES = [(1, 1, 1, 1), (5, 4, 2, 3), (9, 3, 3, 2), (0, 4, 2, 3)]  # (T, E, K, D)


def softmax_of_chosen(logits, experts):
    weights = np.exp(np.take_along_axis(logits, experts, axis=1))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("T", "E", "K", "D"), SIZES)
def test_gate_vjp_agrees_with_the_directional_derivative(T, E, K, D):
    logits, direction, dgates = RNG.standard_normal((T, E)), RNG.standard_normal((T, E)), RNG.standard_normal((T, K))
    experts, gates = gate(logits, K)
    moved = softmax_of_chosen(logits + 1j * STEP * direction, experts)
    np.testing.assert_allclose(gates, moved.real, rtol=1e-13)
    directional = np.sum(dgates * moved.imag / STEP)
    assert np.sum(gate_vjp(dgates, gates, experts, E) * direction) == pytest.approx(directional, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize(("T", "E", "K", "D"), SIZES)
def test_row_vjps_agree_with_directional_derivatives(T, E, K, D):
    position = expert_order(RNG.integers(0, E, (T, K)), E).position
    x, tx, dy = (RNG.standard_normal((T, D)) for _ in range(3))
    rows, trows, drows = (RNG.standard_normal((T * K, D)) for _ in range(3))
    gates, tgates = (RNG.standard_normal((T, K)) for _ in range(2))

    directional = np.sum(drows * permute(x + 1j * STEP * tx, position).imag / STEP)
    assert np.sum(permute_vjp(drows, position) * tx) == pytest.approx(directional, rel=1e-11)

    moved = unpermute(rows + 1j * STEP * trows, gates + 1j * STEP * tgates, position)
    gradients = unpermute_vjp(dy, rows, gates, position)
    predicted = np.sum(gradients.drows * trows) + np.sum(gradients.dgates * tgates)
    assert predicted == pytest.approx(np.sum(dy * moved.imag / STEP), rel=1e-11)


def test_a_layer_of_experts_and_its_gradients_agree_with_jax(jax):
    T, E, K, D = 12, 5, 2, 6
    x, w, logits, dy = (RNG.standard_normal(shape) for shape in ((T, D), (E, D), (T, E), (T, D)))

    def forward(x, logits):
        """Every expert scales by its own row of w, and is looked up, not permuted."""
        chosen, experts = jax.lax.top_k(logits, K)
        gates = jax.nn.softmax(chosen, axis=-1)
        return jax.numpy.einsum("tk,tkd->td", gates, x[:, None, :] * w[experts])

    y, vjp = jax.vjp(forward, x, logits)
    dx, dlogits = vjp(dy)

    experts, gates = gate(logits, K)
    position, token, offsets = expert_order(experts, E)
    weights = np.repeat(w, np.diff(offsets), axis=0)
    rows = permute(x, position) * weights
    np.testing.assert_array_equal(permute(x, position), x[token])
    np.testing.assert_allclose(unpermute(rows, gates, position), y, rtol=1e-10, atol=1e-12)
    drows, dgates = unpermute_vjp(dy, rows, gates, position)
    np.testing.assert_allclose(permute_vjp(drows * weights, position), dx, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gate_vjp(dgates, gates, experts, E), dlogits, rtol=1e-10, atol=1e-12)


def test_pairs_are_sorted_by_expert_and_stay_in_their_order():
    position, token, offsets = expert_order(np.array([[3, 0], [0, 3], [3, 1]]), 5)
    assert position.tolist() == [[3, 0], [1, 4], [5, 2]]
    assert token.tolist() == [0, 1, 2, 0, 1, 2]
    assert offsets.tolist() == [0, 2, 3, 3, 6, 6]  # experts 2 and 4 have no rows


def test_softmax_of_the_chosen_is_the_renormalised_softmax_over_all():
    logits = RNG.standard_normal((7, 6)) * 300
    every = np.exp(logits - logits.max(axis=1, keepdims=True))
    experts, gates = gate(logits, 3)
    chosen = np.take_along_axis(every / every.sum(axis=1, keepdims=True), experts, axis=1)
    np.testing.assert_allclose(gates, chosen / chosen.sum(axis=1, keepdims=True), rtol=1e-12)
    assert (np.diff(gates, axis=1) <= 0).all()


def test_no_tokens():
    experts, gates = gate(np.zeros((0, 4)), 2)
    position, token, offsets = expert_order(experts, 4)
    assert offsets.tolist() == [0, 0, 0, 0, 0]
    assert token.shape == (0,)
    assert unpermute(permute(np.zeros((0, 3)), position), gates, position).shape == (0, 3)
