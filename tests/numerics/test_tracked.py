"""The tracked array itself: it moves its error with its elements, and never leaves silently."""

import copy

import numpy as np
import pytest

from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked, as_tracked

MODEL = RoundingModel()


def numbered(*shape):
    """An array whose error at each element is that element's own number times 1e-6."""
    value = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    return Tracked(value, MODEL, (1e-6 * value) ** 2, 1e-9 * value)


def assert_moved_together(x):
    np.testing.assert_allclose(np.sqrt(x.variance), 1e-6 * x.value)
    np.testing.assert_allclose(x.drift, 1e-9 * x.value)


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, 3),
        (slice(None), 2),
        (..., None),
        [2, 0, 0],
        np.array([True, False, True]),
        (np.arange(3), [0, 1, 3]),
        (slice(None), slice(None, None, -1)),
        np.eye(3, 4, dtype=bool),
    ],
    ids=str,
)
def test_indexing_moves_value_and_error_alike(index):
    x = numbered(3, 4)
    got = x[index]
    assert np.array_equal(got.value, x.value[index])
    assert_moved_together(got)


@pytest.mark.parametrize("index", [1, (slice(None), 1), np.array([True, False, True]), ([0, 0], [1, 2])], ids=str)
def test_assignment_writes_value_and_error(index):
    x, y = numbered(3, 4), numbered(3, 4) * 1
    expected = y.value.copy()
    expected[index] = x.value[index] * 0 + 50
    y[index] = numbered(50)[49]
    assert np.array_equal(y.value, expected)
    assert np.all(np.sqrt(y.variance)[index] == np.sqrt(np.float64((1e-6 * 50.0) ** 2)))
    y[index] = 2.0
    assert np.all(y.variance[index] == 0)
    assert np.all(y.drift[index] == 0)


def test_assignment_gives_an_exact_array_an_error():
    x = Tracked(np.zeros((2, 3)), MODEL)
    assert x.exact
    x[0] = numbered(3)
    assert not x.exact
    np.testing.assert_allclose(x.deviation[0], numbered(3).deviation)
    assert np.all(x.deviation[1] == 0)


def test_assignment_through_a_view_reaches_the_array_or_is_refused():
    x = numbered(2, 3)
    x[0][:] = 7.0
    assert np.all(x.value[0] == 7)
    assert np.all(x.variance[0] == 0)
    exact = Tracked(np.zeros((2, 3)), MODEL)
    with pytest.raises(CannotTrack, match="view"):
        exact[0][:] = numbered(3)


def test_in_place_operators_write_into_the_array():
    x = numbered(3)
    view = x
    x += numbered(3)
    assert view is x
    assert np.array_equal(view.value, [2.0, 4.0, 6.0])
    assert view.deviation[2] > 4e-6


@pytest.mark.parametrize(
    "leave",
    [
        np.asarray,
        float,
        int,
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: np.zeros(3)[x],
        lambda x: range(x),
        lambda x: np.zeros(1).__setitem__(0, x),
        lambda x: np.add(x, 1, out=np.zeros(())),
    ],
)
def test_leaving_the_tracked_array_raises(leave):
    with pytest.raises((CannotTrack, IndexError, TypeError, ValueError)):
        leave(Tracked(1.0, MODEL))


def test_tracked_arrays_are_not_indices():
    with pytest.raises(CannotTrack, match="index"):
        numbered(3)[numbered(1)]


def test_it_has_the_interface_of_an_array():
    x = numbered(2, 3)
    assert (x.shape, x.ndim, x.size, len(x), x.dtype) == ((2, 3), 2, 6, 2, np.float64)
    for moved, expected in (
        (x.T, x.value.T),
        (x.mT, x.value.mT),
        (x.reshape(3, 2), x.value.reshape(3, 2)),
        (x.reshape((-1,)), x.value.reshape(-1)),
        (x.transpose(1, 0), x.value.T),
        (x.swapaxes(0, 1), x.value.T),
        (x.ravel(), x.value.ravel()),
        (x.flatten(), x.value.ravel()),
        (x[None].squeeze(0), x.value),
        (x.copy(), x.value),
        (copy.deepcopy(x), x.value),
        (x.take([1], axis=1), x.value[:, [1]]),
        (x.repeat(2, axis=0), x.value.repeat(2, 0)),
    ):
        assert np.array_equal(moved.value, expected)
        assert_moved_together(moved)
    assert [row.value.tolist() for row in x] == x.value.tolist()
    assert bool(Tracked(2.0, MODEL))
    assert "deviation" in repr(x)
    x.fill(3.0)
    assert np.all(x.value == 3)
    assert np.all(x.deviation == 0)


def test_a_copy_does_not_share_memory():
    x = numbered(3)
    y = x.copy()
    y[0] = 9.0
    assert x.value[0] == 1
    assert x.variance[0] > 0


def test_comparisons_give_plain_booleans():
    x = numbered(3)
    assert type(x > 2.5) is np.ndarray
    assert (x > 2.5).tolist() == [False, False, True]
    assert np.isnan(x).tolist() == [False] * 3
    assert ((x == 1) | (x == 3)).tolist() == [True, False, True]


def test_constants_are_exact_where_the_format_holds_them():
    assert as_tracked(0.5, MODEL).exact
    assert as_tracked(np.arange(5), MODEL).exact
    assert as_tracked(np.array([np.inf, np.nan]), MODEL).exact
    assert as_tracked(0.1, MODEL).deviation == pytest.approx(0.1 * 2**-24 / np.sqrt(3))
    with pytest.raises(CannotTrack, match="complex128"):
        as_tracked(1j, MODEL)


def test_astype_rounds_and_integers_are_plain():
    x = numbered(3) / 3
    low = x.astype(np.float16)
    assert np.array_equal(low.value, (np.arange(1, 4) / 3).astype(np.float16))
    assert np.all(low.deviation > 2.0**-13 * low.value)
    assert x.astype(np.float32).value.tolist() == x.value.tolist()
    assert x.astype(np.int32).dtype == np.int32
    assert Tracked([0.5, 0.25], MODEL).astype("bfloat16").exact
