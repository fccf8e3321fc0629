import numpy as np
import pytest

from refkit.reference.segment_sum import (
    segment_sum,
    segment_sum_by_ids,
    segment_sum_by_ids_vjp,
    segment_sum_vjp,
)

RNG = np.random.default_rng(16)
STEP = 1e-30


@pytest.mark.parametrize("offsets", [[0, 3, 3, 8], [2, 5], [0, 0], [8, 8, 8], [0, 8]])
def test_vjp_by_offsets_agrees_with_the_directional_derivative(offsets):
    offsets = np.array(offsets)
    x, tx, dy = RNG.standard_normal((8, 2)), RNG.standard_normal((8, 2)), RNG.standard_normal((len(offsets) - 1, 2))
    directional = np.sum(dy * segment_sum(x + 1j * STEP * tx, offsets).imag / STEP)
    assert np.sum(segment_sum_vjp(dy, offsets, 8) * tx) == pytest.approx(directional, rel=1e-12)


def test_offsets_cut_the_rows_and_what_lies_outside_is_left_out():
    x, offsets = RNG.standard_normal((9, 2)), np.array([1, 4, 4, 8])
    y = segment_sum(x, offsets)
    np.testing.assert_allclose(y, [x[1:4].sum(axis=0), [0, 0], x[4:8].sum(axis=0)], rtol=1e-12)
    dx = segment_sum_vjp(np.array([[1.0, 2], [3, 4], [5, 6]]), offsets, 9)
    assert dx[:, 0].tolist() == [0, 1, 1, 1, 5, 5, 5, 5, 0]


@pytest.mark.parametrize("S", [1, 4, 20])
def test_by_ids_agrees_with_jax(jax, S):
    ids = RNG.integers(-2, S + 2, 30)
    x, dy = RNG.standard_normal((30, 3)), RNG.standard_normal((S, 3))
    # JAX drops ids beyond the end; a negative one it counts from the end.
    dropped = np.where(ids < 0, S, ids)
    expected, vjp = jax.vjp(lambda x: jax.ops.segment_sum(x, dropped, num_segments=S), x)
    np.testing.assert_allclose(segment_sum_by_ids(x, ids, S), expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(segment_sum_by_ids_vjp(dy, ids), vjp(dy)[0], rtol=1e-10)


def test_sorted_ids_and_offsets_are_two_ways_to_say_the_same():
    ids = np.sort(RNG.integers(0, 6, 40))
    offsets = np.searchsorted(ids, np.arange(7))
    x, dy = RNG.standard_normal((40, 3)), RNG.standard_normal((6, 3))
    np.testing.assert_array_equal(segment_sum(x, offsets), segment_sum_by_ids(x, ids, 6))
    np.testing.assert_array_equal(segment_sum_vjp(dy, offsets, 40), segment_sum_by_ids_vjp(dy, ids))
