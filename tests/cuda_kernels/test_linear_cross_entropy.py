import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import linear_cross_entropy as kernels
from refkit.cuda_kernels.linear_cross_entropy_backward import linear_cross_entropy_backward_chunked as backward
from refkit.reference.linear_cross_entropy import (
    linear_cross_entropy,
    linear_cross_entropy_gradients,
    linear_cross_entropy_vjp,
)

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

TILES = {"block_m": 16, "block_n": 16, "block_k": 8, "thread_m": 4, "thread_n": 4, "block": 64}
FORWARD = {
    "chunked": lambda *args, **config: kernels.linear_cross_entropy_chunked(*args, chunk=20, **TILES, **config),
    "one_chunk": lambda *args, **config: kernels.linear_cross_entropy_chunked(*args, chunk=1000, **TILES, **config),
    "fused": lambda *args, **config: kernels.linear_cross_entropy_fused(*args, tile=8, **config),
}
IGNORED = -100
SHAPES = [(1, 1, 1), (9, 17, 60), (5, 3, 41), (20, 0, 5)]


def each_forward():
    return pytest.mark.parametrize("launch", FORWARD.values(), ids=FORWARD)


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def some_labels(T, V, dtype=np.int64):
    """Labels of which a quarter is ignored."""
    rng = np.random.default_rng((T, V))
    return np.where(rng.random(T) < 0.25, IGNORED, rng.integers(V, size=T)).astype(dtype)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def run_forward(launch, x, w, labels, *options, reduction="none", **config):
    T = x.shape[0]
    loss, lse = empty(T if reduction == "none" else 1), empty(T)
    launch(x, w, labels, loss, lse, *options, reduction=reduction, **config)
    return loss.copy_to_host(), lse.copy_to_host()


@each_forward()
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_forward(launch, shape, smoothing, put):
    T, K, V = shape
    x, w, labels = normal(T, K), normal(K, V, seed=1), some_labels(T, V)
    # w as the transpose of an embedding (V, K).
    loss, lse = run_forward(launch, put(x), put(w, "transposed"), put(labels), IGNORED, smoothing)
    expected = linear_cross_entropy(x.astype(float), w.astype(float), labels, IGNORED, smoothing)
    np.testing.assert_allclose(loss, expected.loss, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, expected.lse, rtol=1e-5, atol=1e-5)


@each_forward()
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions_in_16_bits(launch, reduction, put):
    x, w = (normal(*s, dtype=ml_dtypes.bfloat16) for s in ((9, 17), (17, 60)))
    labels = some_labels(9, 60, np.int32)
    loss, _ = run_forward(launch, put(x), put(w), put(labels), reduction=reduction)
    expected = linear_cross_entropy(x.astype(float), w.astype(float), labels, reduction=reduction).loss
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@each_forward()
def test_logits_far_from_0_keep_the_digits_of_the_loss(launch, put):
    # Logits 4096 + 0 .. 29, exact in float32: the first chunk's maximum is below the last one's.
    x, w = np.array([[4096.0, 1.0]], np.float32), np.stack([np.ones(30), np.arange(30.0)]).astype(np.float32)
    loss, _ = run_forward(launch, put(x), put(w), put(np.array([3])), IGNORED, 0.5)
    expected = linear_cross_entropy(x.astype(float), w.astype(float), np.array([3]), IGNORED, 0.5).loss
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


@each_forward()
def test_wrong_labels_and_no_classes(launch, put):
    x, w, labels = put(normal(3, 4)), put(normal(4, 30)), put(np.array([29, 30, -1]))
    np.testing.assert_array_equal(np.isnan(run_forward(launch, x, w, labels)[0]), [False, True, True])
    with pytest.raises(IndexError, match=r"labels\[1\] is 30, expected ignore_index=-100 or a class from 0 to 29"):
        run_forward(launch, x, w, labels, check=True)
    loss, lse = run_forward(launch, x, put(np.zeros((4, 0), np.float32)), put(np.array([IGNORED, 0, 0])))
    np.testing.assert_array_equal(loss, [0, np.nan, np.nan])
    np.testing.assert_array_equal(lse, np.full(3, -np.inf))


@each_forward()
def test_no_rows(launch, put):
    none = put(np.zeros((0, 4), np.float32)), put(normal(4, 30)), put(np.zeros(0, np.int64))
    np.testing.assert_array_equal(run_forward(launch, *none, reduction="mean")[0], [0])


@pytest.mark.parametrize("chunk", [20, 1000])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_backward_writes_dx_and_adds_to_dw(chunk, shape, dtype, put):
    T, K, V = shape
    x, w, labels = normal(T, K, dtype=dtype), normal(K, V, seed=1, dtype=dtype), some_labels(T, V)
    dloss, held = normal(T, seed=2), normal(K, V, seed=3)
    lse = linear_cross_entropy(x.astype(float), w.astype(float), labels).lse.astype(np.float32)
    dx, dw = empty(T, K, dtype=dtype), put(held)
    backward(put(dloss), put(x), put(w), put(labels), put(lse), dx, dw, IGNORED, 0.125, chunk=chunk, **TILES)
    wide = (array.astype(float) for array in (dloss, x, w))
    expected = linear_cross_entropy_gradients(*wide, labels, lse.astype(float), IGNORED, 0.125)
    rounding = 2**-8 if dtype != np.float32 else 0
    np.testing.assert_allclose(dx.copy_to_host().astype(float), expected.dx, rtol=rounding, atol=1e-4)
    np.testing.assert_allclose(dw.copy_to_host(), held + expected.dw, atol=1e-4)


def test_without_classes_dx_is_0(put):
    dx, dw = empty(3, 4), empty(4, 0)
    labels, lse = put(np.full(3, IGNORED)), put(np.full(3, -np.inf, np.float32))
    backward(put(normal(3)), put(normal(3, 4)), put(np.zeros((4, 0), np.float32)), labels, lse, dx, dw, **TILES)
    np.testing.assert_array_equal(dx.copy_to_host(), np.zeros((3, 4)))


@pytest.mark.parametrize(("reduction", "smoothing"), [("none", 0.1), ("mean", 0.0), ("sum", 0.0)])
def test_forward_and_backward_are_adjoint(reduction, smoothing, put):
    T, K, V = 7, 12, 45
    x, w, labels = normal(T, K), normal(K, V, seed=1) / 4, some_labels(T, V)
    dloss = normal(T if reduction == "none" else 1, seed=2)
    options = (IGNORED, smoothing, reduction)
    _, lse = run_forward(FORWARD["chunked"], put(x), put(w), put(labels), IGNORED, smoothing)
    dx, dw = empty(T, K), put(np.zeros((K, V), np.float32))
    backward(put(dloss), put(x), put(w), put(labels), put(lse), dx, dw, *options, chunk=20, **TILES)
    assert_adjoint(
        lambda x, w: linear_cross_entropy(x, w, labels, *options).loss,
        lambda x, w, dy0: tuple(linear_cross_entropy_vjp(dy0, x, w, labels, *options)),
        {"x": x, "w": w},
        dloss,
        {"x": dx.copy_to_host(), "w": dw.copy_to_host()},
    )


def test_wrong_arguments_are_named(put):
    x, w, labels, four = put(normal(4, 3)), put(normal(3, 5)), put(np.zeros(4, np.int64)), empty(4)
    with pytest.raises(ValueError, match=r"linear_cross_entropy_chunked: chunk=0, expected at least 1"):
        kernels.linear_cross_entropy_chunked(x, w, labels, empty(4), four, chunk=0)
    with pytest.raises(ValueError, match="tile=33, expected 1 to 32"):
        kernels.linear_cross_entropy_fused(x, w, labels, empty(4), four, tile=33)
    with pytest.raises(TypeError, match="dw has dtype bfloat16, expected float32"):
        backward(four, x, w, labels, empty(4), empty(4, 3), empty(3, 5, dtype=ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match=r"dloss has shape \(4,\), expected \(1,\) for reduction='sum'"):
        backward(four, x, w, labels, empty(4), empty(4, 3), empty(3, 5), reduction="sum")
