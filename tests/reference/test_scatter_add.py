import numpy as np
import pytest

from refkit.reference.scatter_add import embedding_backward, gather, gather_vjp, scatter_add

RNG = np.random.default_rng(3)
STEP = 1e-30


@pytest.mark.parametrize(("V", "D", "count"), [(1, 1, 4), (5, 3, 1), (4, 6, 9)])
def test_scatter_add_is_the_vjp_of_gather(V, D, count):
    index = RNG.integers(0, V, count)
    x, tx, dy = RNG.standard_normal((V, D)), RNG.standard_normal((V, D)), RNG.standard_normal((count, D))

    directional = np.sum(dy * gather(x + 1j * STEP * tx, index).imag / STEP)

    assert np.sum(gather_vjp(dy, index, V) * tx) == pytest.approx(directional, rel=1e-12)


@pytest.mark.parametrize(("V", "D", "count"), [(1, 1, 4), (5, 3, 1), (4, 6, 9)])
def test_gather_and_scatter_add_agree_with_jax(jax, V, D, count):
    index = RNG.integers(0, V, count)
    x, old, dy = RNG.standard_normal((V, D)), RNG.standard_normal((V, D)), RNG.standard_normal((count, D))
    y, vjp = jax.vjp(lambda x: x.at[index].get(), jax.numpy.asarray(x))
    np.testing.assert_array_equal(gather(x, index), y)
    np.testing.assert_allclose(gather_vjp(dy, index, V), vjp(dy)[0], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(
        scatter_add(old, index, dy), jax.numpy.asarray(old).at[index].add(dy), rtol=1e-10, atol=1e-13
    )


def test_duplicates_add_up_and_the_old_value_stays_in_the_sum():
    old = np.full((3, 2), 100.0)
    total = scatter_add(old, np.array([2, 0, 2]), np.array([[1.0, 2], [10, 20], [3, 4]]))
    assert total.tolist() == [[110, 120], [100, 100], [104, 106]]
    assert (old == 100).all()


def test_the_padding_row_gets_no_gradient():
    dy, index = np.ones((4, 1)), np.array([0, 1, 0, 2])
    assert embedding_backward(np.zeros((3, 1)), index, dy, padding_idx=0).tolist() == [[0], [1], [1]]
    assert embedding_backward(np.zeros((3, 1)), index, dy, padding_idx=-1).tolist() == [[2], [1], [1]]
