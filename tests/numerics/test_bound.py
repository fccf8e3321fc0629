"""`evaluate`: what it passes on, what it returns, and what it says about the kind of bound."""

import ml_dtypes
import numpy as np
import pytest

from refkit.numerics import Precision, error_ratio, evaluate
from refkit.numerics.tracked import Tracked

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 64)).astype(np.float32)


def one(reference, arguments, *args):
    (bounded,) = evaluate(reference, arguments, *args)
    return bounded


def test_floating_arrays_are_wrapped_and_the_rest_is_passed_on():
    seen = {}

    def reference(**arguments):
        seen.update(arguments)
        return arguments["x"] * 1

    index, label = np.arange(3), np.array([True])
    evaluate(
        reference, {"x": X, "low": X.astype(ml_dtypes.bfloat16), "index": index, "flag": label, "s": 0.5, "none": None}
    )
    assert isinstance(seen["x"], Tracked)
    assert isinstance(seen["low"], Tracked)
    assert seen["x"].exact
    assert seen["index"].tolist() == [0, 1, 2]
    assert seen["index"] is not index
    assert seen["s"] == 0.5
    assert seen["none"] is None


def test_the_arguments_are_not_changed_by_a_reference_that_writes():
    x, index = np.ones(3), np.arange(3)

    def reference(x, index):
        index += 1
        x[0] = 5.0
        return x

    assert one(reference, {"x": x, "index": index}).value.tolist() == [5, 1, 1]
    assert x.tolist() == [1, 1, 1]
    assert index.tolist() == [0, 1, 2]


def test_several_outputs_each_have_their_own_kind_and_format():
    y, count, flags = evaluate(
        lambda x: (x.sum(axis=1), (x > 0).sum(axis=1), x > 0), {"x": X}, None, [ml_dtypes.bfloat16, np.int64, bool]
    )
    assert [b.kind for b in (y, count, flags)] == ["tracked", "exact", "exact"]
    assert error_ratio(X.sum(axis=1).astype(ml_dtypes.bfloat16), y).max() <= 1
    assert error_ratio(X.sum(axis=1), y).max() <= 1
    assert count.value.dtype == np.int64
    assert flags.value.dtype == bool
    assert not count.allowed.any()


def test_a_list_of_outputs_is_taken_as_a_tuple():
    assert len(evaluate(lambda x: [x, x + x], {"x": X})) == 2


def test_a_wrong_number_of_dtypes_is_an_error():
    with pytest.raises(ValueError, match="returned 1 outputs, 2 were expected"):
        evaluate(lambda x: x, {"x": X}, None, [np.float32, np.float32])


def test_copies_are_exact_and_storage_adds_half_a_unit():
    assert not one(lambda x: x.T, {"x": X}).allowed.any()
    low = one(lambda x: x.T, {"x": X}, None, [ml_dtypes.bfloat16])
    stored = X.T.astype(ml_dtypes.bfloat16)
    assert 0.9 < error_ratio(stored, low).max() <= 1
    next_one = (stored.view(np.uint16) + 1).view(ml_dtypes.bfloat16)
    assert error_ratio(next_one, low).max() > 1.5


def test_storage_in_float16_allows_its_overflow_and_subnormals():
    x = np.array([70000.0, 65519.0, 3e-8, -1e6], np.float32)
    b = one(lambda x: x * 1.0, {"x": x}, None, [np.float16])
    with np.errstate(over="ignore"):
        assert error_ratio(x.astype(np.float16), b).max() <= 1
    assert error_ratio(np.array([65504.0, 60000.0, 0.0, np.inf], np.float16), b).tolist()[1:] > [1, 0, 1]
    assert error_ratio(np.array([0.0, 0, 0, 0]), b)[3] > 1


def test_nan_and_infinities_of_the_reference_are_demanded():
    x = np.array([-1.0, 0.0, np.inf, np.nan, 4.0], np.float32)
    b = one(lambda x: np.sqrt(x), {"x": x})
    with np.errstate(invalid="ignore"):
        got = np.sqrt(x)
    assert error_ratio(got, b).max() <= 1
    for i, wrong in ((0, 0.0), (2, 1.0), (3, 0.0), (4, np.nan), (4, np.inf)):
        changed = got.copy()
        changed[i] = wrong
        assert error_ratio(changed, b)[i] == np.inf


def test_an_integer_output_computed_in_floats_allows_its_error():
    b = one(lambda x: 10 * x, {"x": np.array([0.05, 1.0], np.float32)}, None, [np.int32])
    assert b.value.tolist() == [1, 10] or b.value.tolist() == [0, 10]
    assert error_ratio(np.array([1, 11]), b)[1] == np.inf


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: np.linalg.svd(x, compute_uv=False),
        lambda x: np.asarray(x).sum(axis=1),
        lambda x: np.median(x, axis=0),
        lambda x: np.array([float(row.sum()) for row in x]),
        lambda x: np.cumsum(x, axis=1)[np.argsort(np.zeros(8)), :][:, ::-1].view(np.ndarray),
    ],
    ids=["svd", "asarray", "median", "float", "view"],
)
def test_what_cannot_be_followed_is_estimated_and_says_so(reference):
    b = one(reference, {"x": X})
    assert b.kind == "estimated"
    assert b.reason
    np.testing.assert_allclose(b.value, reference(X.astype(np.float64)), rtol=1e-12)
    assert error_ratio(np.asarray(reference(X)), b).max() <= 1
    assert error_ratio(b.value * (1 + 1e-3) + 1e-3, b).max() > 1


def test_writing_a_tracked_result_into_a_plain_array_is_estimated():
    def scatter(x):
        out = np.zeros((4, 64))
        np.add.at(out, np.arange(8) % 4, x)
        return out

    b = one(scatter, {"x": X})
    assert (b.kind, "zeros_like" in b.reason) == ("estimated", True)
    assert error_ratio(scatter(X).astype(np.float32), b).max() <= 1


def test_a_plain_result_is_never_taken_for_exact():
    b = one(lambda x: np.sin(np.arange(5.0)), {"x": X})
    assert b.kind == "estimated"
    assert np.all(b.allowed >= np.abs(b.value) * 2.0**-25)
    assert error_ratio(np.sin(np.arange(5, dtype=np.float32)), b).max() <= 1


def test_the_references_own_exception_passes_through():
    def broken(x):
        raise ZeroDivisionError("of the reference")

    with pytest.raises(ZeroDivisionError, match="of the reference"):
        evaluate(broken, {"x": X})
    with pytest.raises(ValueError, match="mismatch"):
        evaluate(lambda x: x @ x, {"x": X})


def test_the_same_call_gives_the_same_bound():
    for reference in (lambda x: np.tanh(x @ x.T), lambda x: np.linalg.eigvalsh(np.asarray(x) @ np.asarray(x).T)):
        first, second = (one(reference, {"x": X}) for _ in range(2))
        assert np.array_equal(first.allowed, second.allowed)


def test_precision_sets_the_unit():
    widths = {
        name: np.median(one(lambda x: x.sum(axis=1), {"x": X}, Precision(accumulate=name), [np.float64]).allowed)
        for name in ("float64", "float32", "bfloat16")
    }
    assert widths["float32"] / widths["float64"] > 2.0**28
    assert widths["bfloat16"] / widths["float32"] == pytest.approx(2.0**16, rel=0.5)


def test_empty_and_scalar_outputs():
    assert one(lambda x: x[:0], {"x": X}).value.shape == (0, 64)
    total = one(lambda x: x.sum(), {"x": X})
    assert total.value.shape == total.allowed.shape == ()
    assert error_ratio(X.sum(), total) <= 1
