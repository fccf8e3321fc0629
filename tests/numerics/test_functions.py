"""Every NumPy function the model knows: the value is NumPy's, the error is that of a Monte Carlo of the same error."""

import numpy as np
import pytest

from refkit.numerics.functions import FUNCTIONS
from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked

MODEL = RoundingModel()
STD = 1e-5
SAMPLES = 4000
RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((3, 4)), 3)
Y = np.round(RNG.standard_normal((4, 5)), 3)
INDEX = np.array([2, 0, 2])


def assign(x, index, item):
    out = np.zeros_like(x)
    out[index] = item
    return out


def scattered(x, ufunc=np.add):
    out = np.zeros_like(x, shape=(3, 4))
    ufunc.at(out, INDEX, x)
    return out


def put_along(x):
    out = np.zeros_like(x)
    np.put_along_axis(out, np.array([[1], [0], [3]]), x[:, :1], axis=1)
    return out


def copied(x):
    out = np.empty_like(x)
    np.copyto(out, 0.5)
    np.copyto(out, x, where=X > 0)
    return out


def diagonal_filled(x):
    out = np.ones_like(x)
    np.fill_diagonal(out, x[0, 0])
    return out


CASES = {
    "sum": lambda x: np.sum(x, axis=1),
    "sum all": lambda x: x.sum(),
    "sum axes": lambda x: x.sum(axis=(0, 1), keepdims=True),
    "sum where": lambda x: np.sum(x, axis=0, where=X > 0),
    "sum initial": lambda x: np.sum(x, initial=2.0),
    "mean": lambda x: x.mean(axis=-1, keepdims=True),
    "mean all": np.mean,
    "mean where": lambda x: np.mean(x, where=X > 0),
    "prod": lambda x: np.prod(x, axis=1),
    "max": lambda x: x.max(axis=0),
    "min": lambda x: np.min(x),
    "max initial": lambda x: np.max(x, axis=1, initial=0.2),
    "ptp": lambda x: np.ptp(x, axis=1),
    "var": lambda x: np.var(x, axis=1),
    "var ddof": lambda x: x.var(axis=0, ddof=1, keepdims=True),
    "std": lambda x: x.std(axis=1),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "cumsum flat": np.cumsum,
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "diff": lambda x: np.diff(x, axis=0),
    "trace": np.trace,
    "reduceat": lambda x: np.add.reduceat(x, [0, 2], axis=1),
    "norm": np.linalg.norm,
    "norm axis": lambda x: np.linalg.norm(x, axis=1),
    "norm inf": lambda x: np.linalg.norm(x, np.inf, axis=1),
    "norm 1": lambda x: np.linalg.norm(x, 1, axis=0),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=1),
    "dot": lambda x: np.dot(x, Y),
    "matmul": lambda x: x @ Y,
    "matmul left": lambda x: Y.T @ x.T,
    "matvec": lambda x: x @ Y[:, 0],
    "vecmat": lambda x: Y[:3, 0] @ x,
    "vecvec": lambda x: x[0] @ Y[:, 0],
    "batched": lambda x: x[None, None] @ np.stack([Y, Y])[:, None],
    "tensordot": lambda x: np.tensordot(x, Y, axes=1),
    "tensordot axes": lambda x: np.tensordot(x, Y, axes=([1], [0])),
    "tensordot 0": lambda x: np.tensordot(x, Y, axes=0),
    "inner": lambda x: np.inner(x, Y.T),
    "outer": lambda x: np.outer(x, Y[0]),
    "vdot": lambda x: np.vdot(x, Y[:, :3]),
    "add.outer": lambda x: np.add.outer(x, Y[0]),
    "multi_dot": lambda x: np.linalg.multi_dot([x, Y, Y.T]),
    "einsum": lambda x: np.einsum("ij,jk->ik", x, Y),
    "einsum implicit": lambda x: np.einsum("ij,jk", x, Y),
    "einsum batch": lambda x: np.einsum("bi,bi->b", x, X),
    "einsum outer": lambda x: np.einsum("ij,kl->lkij", x, Y),
    "einsum sum": lambda x: np.einsum("ij->j", x),
    "einsum transpose": lambda x: np.einsum("ij->ji", x),
    "einsum three": lambda x: np.einsum("ij,jk,kl->il", x, Y, Y.T),
    "einsum ellipsis": lambda x: np.einsum("...j,jk->...k", x, Y),
    "einsum lone": lambda x: np.einsum("ij,kl->i", x, Y),
    "einsum attention": lambda x: np.einsum("hqd,hkd->hqk", x[None], X[None]),
    "concatenate": lambda x: np.concatenate([x, X], axis=1),
    "stack": lambda x: np.stack([x, X]),
    "vstack": lambda x: np.vstack([X, x]),
    "hstack": lambda x: np.hstack([X, x]),
    "append": lambda x: np.append(x, X),
    "split": lambda x: np.split(x, 2, axis=1)[1],
    "array_split": lambda x: np.array_split(x, 3, axis=1)[0],
    "split at": lambda x: np.split(x, [1, 3], axis=1)[2],
    "where": lambda x: np.where(X > 0, x, 0.5),
    "where other": lambda x: np.where(X > 0, -np.inf, x),
    "select": lambda x: np.select([X > 1, X > 0], [x, 2 * x], 0.25),
    "take": lambda x: np.take(x, INDEX, axis=0),
    "take_along_axis": lambda x: np.take_along_axis(x, INDEX[:, None], axis=1),
    "transpose": lambda x: np.transpose(x),
    "reshape": lambda x: np.reshape(x, (2, 6)),
    "ravel": np.ravel,
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "squeeze": lambda x: np.squeeze(x[None]),
    "flip": lambda x: np.flip(x, 1),
    "roll": lambda x: np.roll(x, 1, axis=1),
    "repeat": lambda x: np.repeat(x, 2, axis=1),
    "tile": lambda x: np.tile(x, 2),
    "tril": np.tril,
    "triu": lambda x: np.triu(x, 1),
    "diagonal": np.diagonal,
    "pad": lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3.0),
    "pad edge": lambda x: np.pad(x, 1, "edge"),
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "ones_like": lambda x: np.ones_like(x) * x,
    "full_like": lambda x: np.full_like(x, 2.0) - x,
    "assignment": lambda x: assign(x, (slice(1, 3), slice(None)), x[:2]),
    "mask": lambda x: assign(x, X > 0, 7.0) + x,
    "sort": lambda x: np.sort(x, axis=1),
    "partition": lambda x: np.partition(x, 2, axis=1),
    "clip": lambda x: np.clip(x, -0.25, 0.25),
    "clip method": lambda x: x.clip(min=0.0),
    "nan_to_num": np.nan_to_num,
    "round": lambda x: np.round(x) + x,
    "heaviside": lambda x: np.heaviside(x, 0.5) * x,
    "add.at": scattered,
    "subtract.at": lambda x: scattered(x, np.subtract),
    "maximum.at": lambda x: scattered(x, np.maximum),
    "put_along_axis": put_along,
    "copyto": copied,
    "fill_diagonal": diagonal_filled,
    "bincount": lambda x: np.bincount(INDEX, weights=x[:, 0], minlength=5),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, np.ones((2, 1, 1)))[0],
    "copy": np.copy,
    "meshed index": lambda x: x[np.ix_([0, 2], [1, 3])],
    "delete": lambda x: np.delete(x, 1, axis=0),
}


@pytest.mark.parametrize("name", CASES)
def test_value_is_numpys_and_error_is_that_of_a_monte_carlo(name):
    function = CASES[name]
    got = function(Tracked(X.copy(), MODEL, np.full(X.shape, STD**2)))
    expected = np.asarray(function(X.copy()))
    assert isinstance(got, Tracked)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.value, expected, rtol=1e-12, atol=1e-15)
    rng = np.random.default_rng(1)
    samples = np.stack([function(X + STD * rng.standard_normal(X.shape)) for _ in range(SAMPLES)])
    finite = np.isfinite(expected)
    observed = np.where(finite, np.std(np.where(finite, samples, 0.0), axis=0), 0.0)
    # The model takes the larger error near a tie, and where terms are correlated it may only be larger.
    loose = name in (
        "var",
        "var ddof",
        "std",
        "ptp",
        "max",
        "min",
        "maximum.accumulate",
        "einsum three",
        "multi_dot",
        "zeros_like",
        "full_like",
    )
    # The columns of a product share the errors of a row: the one thing that independent errors understate here.
    chained = name in ("einsum three", "multi_dot")
    np.testing.assert_array_less((0.7 if chained else 0.94) * observed, got.deviation + 1e-12)
    np.testing.assert_array_less(got.deviation, (2.0 if loose else 1.08) * observed + 1e-6)


def test_functions_of_shape_and_choice_are_numpys():
    x = Tracked(X, MODEL)
    assert np.shape(x) == (3, 4)
    assert np.ndim(x) == 2
    assert np.size(x) == 12
    assert np.size(x, 1) == 4
    for choice in (np.argmax, np.argmin, np.any, np.all, np.count_nonzero):
        assert choice(x) == choice(X)
    for choice in (np.argsort, lambda a: np.argmax(a, axis=1), np.nonzero, np.argwhere, lambda a: np.where(a > 0)):
        assert all(np.array_equal(a, b) for a, b in zip(np.atleast_1d(choice(x)), np.atleast_1d(choice(X))))


def test_likes_with_integer_dtypes_are_plain():
    x = Tracked(X, MODEL)
    counts = np.zeros_like(x, dtype=np.int64)
    assert type(counts) is np.ndarray
    assert counts.dtype == np.int64
    assert np.zeros_like(x, shape=(2, 5)).shape == (2, 5)
    assert np.full_like(x, 7, shape=3).value.tolist() == [7, 7, 7]


def test_nan_to_num_replaces_without_error():
    x = Tracked([np.nan, np.inf, 1.0], MODEL, np.full(3, STD**2))
    got = np.nan_to_num(x, posinf=5.0)
    assert got.value.tolist() == [0, 5, 1]
    assert got.deviation.tolist() == [0, 0, STD]


def test_what_has_no_rule_is_refused_by_name():
    x = Tracked(X, MODEL)
    for function in (np.fft.fft, np.linalg.svd, np.linalg.inv, np.gradient, np.median):
        with pytest.raises(CannotTrack, match=function.__name__):
            function(x)
    with pytest.raises(CannotTrack, match="plain array"):
        np.add.at(np.zeros((3, 4)), INDEX, x)
    with pytest.raises(CannotTrack, match="repeated"):
        np.einsum("ii->i", x[:, :3])


def test_no_rule_is_registered_for_nothing():
    assert None not in FUNCTIONS
    assert all(callable(rule) for rule in FUNCTIONS.values())


@pytest.mark.parametrize("axis", [0, 1, None])
def test_put_along_axis_of_more_elements_than_numpy_buffers_at_once(axis):
    rows = 8194
    indices = np.roll(np.arange(rows), 1)
    indices = indices if axis is None else indices[:, None] if axis == 0 else np.zeros((rows, 1), int)
    items = np.arange(rows, dtype=float).reshape(indices.shape)
    expected = np.zeros((rows, 1))
    np.put_along_axis(expected, indices, items, axis)
    tracked = np.zeros_like(Tracked(np.zeros((rows, 1)), MODEL))
    np.put_along_axis(tracked, indices, Tracked(items, MODEL), axis)
    np.testing.assert_array_equal(tracked.value, expected)
