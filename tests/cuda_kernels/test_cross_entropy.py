import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import cross_entropy as kernels
from refkit.cuda_kernels import cross_entropy_backward as backward_kernels
from refkit.reference.cross_entropy import cross_entropy, cross_entropy_dlogits, cross_entropy_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.cross_entropy_naive, kernels.cross_entropy_online]
BACKWARD = [backward_kernels.cross_entropy_backward_naive, backward_kernels.cross_entropy_backward_block]
REDUCTIONS = ["none", "mean", "sum"]
SHAPES = [(1, 1), (5, 37), (2, 300), (70, 3)]
IGNORED = -100
INF, NAN = np.inf, np.nan


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def some_labels(T, V, dtype=np.int64, seed=0):
    """Labels of which a quarter is ignored."""
    rng = np.random.default_rng((seed, T, V))
    return np.where(rng.random(T) < 0.25, IGNORED, rng.integers(V, size=T)).astype(dtype)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def run_forward(launch, logits, labels, *options, reduction="none", **config):
    T = logits.shape[0]
    loss, lse = empty(T if reduction == "none" else 1), empty(T)
    launch(logits, labels, loss, lse, *options, reduction=reduction, **config)
    return loss.copy_to_host(), lse.copy_to_host()


def run_backward(launch, dloss, logits, labels, lse, *options, **config):
    dlogits = empty(*logits.shape, dtype=logits.dtype)
    launch(dloss, logits, labels, lse, dlogits, *options, **config)
    return dlogits.copy_to_host().astype(float)


@each(FORWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_forward(launch, shape, smoothing, put):
    logits, labels = normal(*shape) * 5, some_labels(*shape)
    loss, lse = run_forward(launch, put(logits, "transposed"), put(labels, "strided"), IGNORED, smoothing, block=64)
    expected = cross_entropy(logits.astype(float), labels, IGNORED, np.float32(smoothing).item())
    np.testing.assert_allclose(loss, expected.loss, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(lse, expected.lse, rtol=2e-6, atol=2e-6)


@each(FORWARD)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reductions_of_bfloat16_logits(launch, reduction, put):
    logits, labels = normal(300, 20, dtype=ml_dtypes.bfloat16), some_labels(300, 20, np.int32)
    loss, _ = run_forward(launch, put(logits), put(labels), reduction=reduction)
    expected = cross_entropy(logits.astype(float), labels, reduction=reduction).loss
    np.testing.assert_allclose(loss, expected, rtol=2e-6)


@each(FORWARD)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_with_every_label_ignored_the_loss_is_0(launch, reduction, put):
    logits, labels = np.full((3, 4), NAN, np.float32), np.full(3, 2)
    loss, _ = run_forward(launch, put(logits), put(labels), 2, reduction=reduction)
    np.testing.assert_array_equal(loss, np.zeros(3 if reduction == "none" else 1))


@each(FORWARD)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_rows_have_no_loss(launch, reduction, put):
    logits, labels = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    loss, _ = run_forward(launch, put(logits), put(labels), reduction=reduction, check=True)
    np.testing.assert_array_equal(loss, np.zeros(0 if reduction == "none" else 1))


@each(FORWARD)
def test_rows_of_no_classes(launch, put):
    loss, lse = run_forward(launch, put(np.zeros((2, 0), np.float32)), put(np.array([IGNORED, 0])))
    np.testing.assert_array_equal(loss, [0, NAN])
    np.testing.assert_array_equal(lse, [-INF, -INF])


@each(FORWARD)
@pytest.mark.parametrize("wrong", [-1, 4, 2**40])
def test_a_label_out_of_range_gives_nan_in_its_row_alone(launch, wrong, put):
    logits, labels = normal(3, 4), np.array([1, wrong, 3])
    loss, lse = run_forward(launch, put(logits), put(labels))
    np.testing.assert_array_equal(np.isnan(loss), [False, True, False])
    assert np.isfinite(lse).all()
    assert np.isnan(run_forward(launch, put(logits), put(labels), reduction="mean")[0])


@each(FORWARD)
def test_check_names_the_first_wrong_row_and_writes_nothing(launch, put):
    labels = np.array([1, IGNORED, 7, -1, 0])
    loss, lse = put(np.full(5, 3, np.float32)), put(np.full(5, 3, np.float32))
    message = rf"{launch.__name__}: labels\[2\] is 7, expected ignore_index=-100 or a class from 0 to 3"
    with pytest.raises(IndexError, match=message):
        launch(put(normal(5, 4)), put(labels), loss, lse, check=True)
    np.testing.assert_array_equal([loss.copy_to_host(), lse.copy_to_host()], np.full((2, 5), 3))
    launch(put(normal(5, 4)), put(np.array([1, IGNORED, 3, 3, 0])), loss, lse, check=True)
    assert not (loss.copy_to_host() == 3).any()


@each(FORWARD)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_and_large_logits(launch, put):
    rows = np.array([[0, -INF], [0, -INF], [-INF, -INF], [INF, 0], [NAN, 0], [1e6, 1e6 - 1]], np.float32)
    labels = np.array([0, 1, 0, 1, 1, 1])
    loss, lse = run_forward(launch, put(rows), put(labels))
    np.testing.assert_allclose(loss, [0, INF, NAN, INF, NAN, 1 + np.log1p(np.exp(-1.0))], rtol=1e-6)
    np.testing.assert_allclose(lse, [0, 0, -INF, INF, NAN, 1e6], rtol=1e-6)


@each(BACKWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_backward(launch, shape, reduction, dtype, put):
    logits, labels = normal(*shape, dtype=dtype), some_labels(*shape)
    dloss = normal(shape[0] if reduction == "none" else 1, seed=1)
    lse = cross_entropy(logits.astype(float), labels).lse.astype(np.float32)
    options = (IGNORED, 0.25, reduction)
    got = run_backward(launch, put(dloss), put(logits, "strided"), put(labels), put(lse), *options, block=64)
    expected = cross_entropy_dlogits(dloss.astype(float), logits.astype(float), labels, lse.astype(float), *options)
    np.testing.assert_allclose(got, expected, rtol=2**-8 if dtype != np.float32 else 1e-5, atol=1e-6)


@each(BACKWARD)
def test_dlogits_may_be_logits_and_ignored_and_wrong_rows_are_told_apart(launch, put):
    logits, labels, lse = normal(3, 40), np.array([7, IGNORED, 40]), np.full(3, 4, np.float32)
    apart = run_backward(launch, put(np.ones(3, np.float32)), put(logits), put(labels), put(lse))
    array = put(logits)
    launch(put(np.ones(3, np.float32)), array, put(labels), put(lse), array)
    np.testing.assert_array_equal(array.copy_to_host(), apart)
    np.testing.assert_array_equal(apart[1], np.zeros(40))
    assert np.isnan(apart[2]).all()
    with pytest.raises(IndexError, match=r"labels\[2\] is 40, expected .* 0 to 39"):
        launch(put(np.ones(3, np.float32)), put(logits), put(labels), put(lse), array, check=True)


@each(BACKWARD)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_forward_and_backward_are_adjoint(launch, reduction, smoothing, put):
    logits, labels = normal(7, 45), some_labels(7, 45)
    dloss = normal(7 if reduction == "none" else 1, seed=2)
    options = (IGNORED, smoothing, reduction)
    _, lse = run_forward(kernels.cross_entropy_online, put(logits), put(labels), IGNORED, smoothing)
    dlogits = run_backward(launch, put(dloss), put(logits), put(labels), put(lse), *options)
    assert_adjoint(
        lambda logits: cross_entropy(logits, labels, *options).loss,
        lambda logits, dy0: cross_entropy_vjp(dy0, logits, labels, *options),
        {"logits": logits},
        dloss,
        {"logits": dlogits},
    )


def test_wrong_arguments_are_named(put):
    logits, labels, one, four = put(normal(4, 3)), put(np.zeros(4, np.int64)), empty(1), empty(4)
    launch, backward = kernels.cross_entropy_online, backward_kernels.cross_entropy_backward_block
    with pytest.raises(ValueError, match=r"loss has shape \(1,\), expected \(4,\) for reduction='none'"):
        launch(logits, labels, one, four)
    with pytest.raises(ValueError, match=r"dloss has shape \(4,\), expected \(1,\) for reduction='mean'"):
        backward(four, logits, labels, four, empty(4, 3), reduction="mean")
    with pytest.raises(ValueError, match="reduction='average', expected 'none', 'mean' or 'sum'"):
        launch(logits, labels, one, four, reduction="average")
    with pytest.raises(TypeError, match="labels has dtype float32, expected int32 or int64"):
        launch(logits, four, one, four)
    with pytest.raises(ValueError, match=r"labels has shape \(1,\), expected \(4,\)"):
        launch(logits, put(np.zeros(1, np.int64)), one, four)
