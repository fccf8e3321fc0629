import numpy as np
import pytest

from refkit.reference.embedding import embedding, embedding_vjp

RNG = np.random.default_rng(17)
STEP = 1e-30
B, L, V, D = 4, 6, 5, 3


@pytest.mark.parametrize("with_positions", [True, False])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(with_positions):
    tokens = RNG.integers(0, V, (B, L))
    table, ttable = RNG.standard_normal((V, D)), RNG.standard_normal((V, D))
    positions, tpositions = RNG.standard_normal((L, D)), RNG.standard_normal((L, D))
    dy = RNG.standard_normal((B, L, D))
    moved = embedding(
        tokens, table + 1j * STEP * ttable, positions + 1j * STEP * tpositions if with_positions else None
    )
    gradients = embedding_vjp(dy, tokens, V)
    predicted = np.sum(gradients.dtable * ttable)
    predicted += np.sum(gradients.dpositions * tpositions) if with_positions else 0.0
    assert predicted == pytest.approx(np.sum(dy * moved.imag / STEP), rel=1e-11)


def test_forward_and_gradients_agree_with_jax(jax):
    tokens = RNG.integers(0, V, (B, L))
    table, positions, dy = (RNG.standard_normal(shape) for shape in ((V, D), (L, D), (B, L, D)))
    y, vjp = jax.vjp(lambda table, positions: jax.numpy.take(table, tokens, axis=0) + positions, table, positions)
    dtable, dpositions = vjp(dy)
    np.testing.assert_allclose(embedding(tokens, table, positions), y, rtol=1e-10)
    gradients = embedding_vjp(dy, tokens, V)
    np.testing.assert_allclose(gradients.dtable, dtable, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(gradients.dpositions, dpositions, rtol=1e-10, atol=1e-13)


def test_the_padding_token_gives_its_row_no_gradient():
    dy = np.ones((1, 3, 2))
    gradients = embedding_vjp(dy, np.array([[1, 0, 1]]), 3, padding_idx=1)
    assert gradients.dtable.tolist() == [[1, 1], [0, 0], [0, 0]]
    assert gradients.dpositions.tolist() == [[1, 1], [1, 1], [1, 1]]
