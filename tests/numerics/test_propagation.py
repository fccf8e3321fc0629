"""Errors that elements share since a broadcast: they cancel or add up in later sums, as a Monte Carlo says."""

import numpy as np
import pytest

from refkit.numerics import error_ratio, evaluate, summation
from refkit.numerics.propagation import MOST_SHARED, broadcast_axes, constant_axes
from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import Tracked

MODEL = RoundingModel()
STD = 1e-3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 40)) + 3
ROW = RNG.standard_normal((5, 1))
W = RNG.standard_normal((40, 3))

SUMS = {
    "cancels": lambda x, row: (x - row - (x - row).mean(axis=1, keepdims=True)).sum(axis=1),
    "adds up": lambda x, row: (x - row).sum(axis=1),
    "adds up, both axes": lambda x, row: (x * row).sum(),
    "independent over rows": lambda x, row: (x * row).sum(axis=0),
    "through a function": lambda x, row: np.exp(x / 10 * row).sum(axis=1),
    "negated": lambda x, row: (-(x * row) + x * row).sum(axis=1),
    "absolute": lambda x, row: np.abs(x * row).mean(axis=1),
    "quotient": lambda x, row: (x / (row + 9)).sum(axis=1),
    "where": lambda x, row: np.where(X > 3, x - row, 0.0).sum(axis=1),
    "product": lambda x, row: (x - row) @ W,
    "product from the right": lambda x, row: W.T @ (x - row).T,
    "reshaped": lambda x, row: (x - row).reshape(1, 5, 8, 5).sum(axis=(2, 3)),
    "reshaped product": lambda x, row: (x - row).reshape(5, 1, 40) @ W,
    "some columns": lambda x, row: (x - row)[1:4, ::3].sum(axis=1),
    "one row": lambda x, row: (x - row)[2].sum(),
    "chosen rows": lambda x, row: (x - row)[[3, 0]].sum(axis=1),
    "two rows apart": lambda x, row: ((x - row)[0] - (x - row)[1]).sum(),
    "there and back": lambda x, row: ((x - row).T.T + (x - row)).sum(axis=1),
    "lower triangle": lambda x, row: np.tril(x - row).sum(axis=1),
    "broadcast on purpose": lambda x, row: np.broadcast_to(row, (5, 40)).sum(axis=1),
    "repeated": lambda x, row: np.repeat(row, 4, axis=1).sum(axis=1),
    "gathered twice": lambda x, row: row[:, [0, 0, 0]].sum(axis=1),
    "squeezed": lambda x, row: np.squeeze((x - row)[:, None]).sum(axis=-1),
    "kept": lambda x, row: (x[None] - row[None]).sum(axis=0).sum(axis=1),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_over_a_shared_error(name):
    function = SUMS[name]
    got = function(Tracked(X, MODEL), Tracked(ROW, MODEL, np.full(ROW.shape, STD**2)))
    rng = np.random.default_rng(1)
    samples = np.stack([function(X, ROW + STD * rng.standard_normal(ROW.shape)) for _ in range(3000)])
    observed = samples.std(axis=0)
    if name in ("cancels", "negated"):
        # The two halves cancel but for the roundings, where independent errors would leave much.
        assert np.all(observed < 1e-9)
        assert np.all(got.deviation < 1e-3 * STD * np.sqrt(40) + 2e-5)
        return
    np.testing.assert_array_less(0.94 * observed, got.deviation)
    np.testing.assert_array_less(got.deviation, 1.06 * observed + 2e-5)


def test_the_error_of_a_mean_cancels_in_the_sum_of_what_is_centred():
    x = Tracked(X, MODEL)
    mean = Tracked(X.mean(axis=1, keepdims=True), MODEL, np.full((5, 1), STD**2))
    centred = x - mean
    # sum((x - mean)**2) has the slope -2 sum(x - mean) = 0 by the mean; independent errors would give 2 STD norm.
    total = (centred * centred).sum(axis=1)
    independent = 2 * STD * np.sqrt((centred.value**2).sum(axis=1))
    assert np.all(np.sqrt(total.variance) < 0.01 * independent)


def test_broadcast_axes_are_counted_from_the_last():
    assert broadcast_axes((5, 1), (5, 40)) == {-1}
    assert broadcast_axes((40,), (5, 40)) == {-2}
    assert broadcast_axes((), (5, 40)) == {-1, -2}
    assert broadcast_axes((5, 40), (5, 40)) == frozenset()
    assert broadcast_axes((1, 1), (1, 1)) == frozenset()


def test_many_shared_errors_are_bounded_in_number_and_none_is_lost():
    x = Tracked(np.zeros((2, 3)), MODEL)
    for _ in range(MOST_SHARED + 5):
        x = x + Tracked(np.zeros((2, 1)), MODEL, np.full((2, 1), STD**2))
    assert len(x.shared) == MOST_SHARED
    np.testing.assert_allclose(x.variance, (MOST_SHARED + 5) * STD**2)


GROWN = {
    "flattened": lambda x, row: (x - row).reshape(-1).sum(),
    "rows repeated": lambda x, row: np.repeat(row, 3, axis=0).sum(),
    "transposed against itself": lambda x, row: ((x - row)[:, :5].T + (x - row)[:, :5]).sum(),
    "gathered with doubles": lambda x, row: row[[0, 1, 0, 4, 1]].sum(axis=0),
}


@pytest.mark.parametrize("name", GROWN)
def test_where_axes_cannot_tell_shared_errors_apart_the_bound_grows(name):
    function = GROWN[name]
    got = function(Tracked(X, MODEL), Tracked(ROW, MODEL, np.full(ROW.shape, STD**2)))
    rng = np.random.default_rng(1)
    samples = np.stack([function(X, ROW + STD * rng.standard_normal(ROW.shape)) for _ in range(3000)])
    observed = samples.std(axis=0)
    np.testing.assert_array_less(0.94 * observed, got.deviation)
    np.testing.assert_array_less(got.deviation, 3 * observed)


def test_elements_that_only_move_keep_independent_errors():
    x = Tracked(X, MODEL, np.full(X.shape, STD**2))
    for moved in (x[::-1], x[[3, 1]], x.T, x.reshape(-1), np.roll(x, 2), np.tril(x), np.take(x, [4, 2], axis=1)):
        assert not moved.shared
        assert moved.independent is not None


EQUAL = {
    "none": lambda x, w: (x, w),
    "columns of w": lambda x, w: (x, np.broadcast_to(w[:, :1], w.shape)),
    "rows of w": lambda x, w: (x, np.broadcast_to(w[:1], w.shape)),
    "rows of x": lambda x, w: (np.broadcast_to(x[:1], x.shape), w),
    "all of w": lambda x, w: (x, np.broadcast_to(w[:1, :1], w.shape)),
}
CHAINS = {
    "product": lambda h, v, product: product(h, v),
    "product from the left": lambda h, v, product: product(v[: h.shape[0]].T, h),
    "weighted sum": lambda h, v, product: (h * v[:, 0]).sum(axis=1),
}


@pytest.mark.parametrize("equal", EQUAL)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("order", ["sequential", "lanes"])
def test_equal_elements_carry_equal_errors_through_a_second_product(equal, chain, order):
    """Equal columns are summed and rounded alike; weights of one sign add up what they have in common."""
    rng = np.random.default_rng(2)
    x, w = EQUAL[equal](rng.standard_normal((64, 97)), rng.standard_normal((97, 97)))
    arguments = {"x": x.astype(np.float32), "w": w.astype(np.float32), "v": rng.random((97, 16)).astype(np.float32)}
    second = CHAINS[chain]
    (bounded,) = evaluate(lambda x, w, v: second(x @ w, v, np.matmul), arguments)
    assert bounded.kind == "tracked"

    def product(a, b):
        return summation.matmul(np.ascontiguousarray(a), b, summation.ORDERS[order])

    x, w, v = arguments.values()
    got = second(product(x, w), v, product)
    assert 0 < error_ratio(got, bounded).max() < 0.7


def test_what_is_equal_cancels_where_the_signs_say_so():
    """The errors of a constant row are one number: their alternating sum is nothing, and is allowed next to nothing."""
    row = Tracked(np.full((3, 40), 1.25), MODEL, np.full((3, 40), STD**2))
    signs = np.resize([1.0, -1.0], 40)
    assert np.all((row @ signs[:, None]).deviation < 1e-2 * STD)
    np.testing.assert_allclose((row @ np.ones((40, 1))).deviation, 40 * STD, rtol=1e-3)


def test_constant_axes_are_those_of_more_than_one_equal_element():
    assert constant_axes(np.ones((3, 1, 2))) == {-1, -3}
    assert constant_axes(np.array([[1.0, 1.0], [2.0, 2.0]])) == {-1}
    assert constant_axes(np.array([[1.0, 1.0, 2.0]])) == frozenset()
    assert constant_axes(np.full((2, 2), np.nan)) == frozenset()
    assert constant_axes(np.ones((0, 4))) == frozenset()
    assert constant_axes(np.float64(1)) == frozenset()
