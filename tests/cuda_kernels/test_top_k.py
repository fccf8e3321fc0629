import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import top_k as kernels
from refkit.reference.top_k import top_k, top_k_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.top_k_naive, kernels.top_k_warp]
BACKWARD = [kernels.top_k_backward_naive, kernels.top_k_backward_warp]
SIZES = [(1, 1, 1), (5, 40, 3), (3, 33, 33), (4, 7, 0), (70, 2, 1), (0, 4, 2)]  # (T, C, K)
INF, NAN = np.inf, np.nan


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def run(launch, x, K, dtype=np.float32, index=np.int64):
    T = x.shape[0]
    values = cuda.to_device(np.full((T, K), 77).astype(dtype))
    indices = cuda.to_device(np.full((T, K), -7, index))
    launch(x, values, indices, block=64)
    return values.copy_to_host(), indices.copy_to_host()


@each(FORWARD)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "layout"), [(np.float32, "contiguous"), (ml_dtypes.bfloat16, "strided")])
def test_values_and_indices_with_many_ties(launch, size, dtype, layout, put):
    T, C, K = size
    x = np.random.default_rng(size).integers(-3, 4, (T, C)).astype(dtype)
    values, indices = run(launch, put(x, layout), K, dtype, np.int32)
    expected = top_k(x.astype(float), K)
    np.testing.assert_array_equal(values.astype(float), expected.values)
    np.testing.assert_array_equal(indices, expected.indices)


@each(FORWARD)
def test_equal_numbers_nan_and_infinities(launch, put):
    rows = [[-INF, NAN, 5, INF, NAN, -INF], [-0.0, 0.0, -0.0, 0.0, 1, -1], [-INF] * 6, [NAN] * 6]
    x = np.array(rows, np.float32)
    values, indices = run(launch, put(x), 6)
    assert indices.tolist() == [[1, 4, 3, 2, 0, 5], [4, 0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, axis=1))


@each(BACKWARD)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_backward_stores_the_gradients_and_zeros_elsewhere(launch, size, index, put):
    T, C, K = size
    rng = np.random.default_rng(size)
    indices = rng.permuted(np.tile(np.arange(C), (T, 1)), axis=1)[:, :K].astype(index)
    dvalues = rng.standard_normal((T, K)).astype(np.float32)
    dx = cuda.to_device(np.full((T, C), NAN, np.float32))
    launch(put(dvalues, "strided"), put(indices, "transposed"), dx, block=32)
    np.testing.assert_array_equal(dx.copy_to_host(), top_k_vjp(dvalues, indices, C))


@pytest.mark.parametrize("kernel", ["naive", "warp"])
def test_forward_and_backward_are_adjoint(kernel, put):
    rng = np.random.default_rng(0)
    # Values a whole number apart: no step of the difference quotient changes the order.
    x = rng.permuted(np.tile(np.arange(50, dtype=np.float32), (4, 1)), axis=1)
    dvalues = rng.standard_normal((4, 9)).astype(np.float32)
    _, indices = run(getattr(kernels, f"top_k_{kernel}"), put(x), 9)
    dx = cuda.to_device(np.full((4, 50), NAN, np.float32))
    getattr(kernels, f"top_k_backward_{kernel}")(put(dvalues), put(indices), dx)
    assert_adjoint(
        lambda x: top_k(x, 9).values,
        lambda x, dy0: (top_k_vjp(dy0, top_k(x, 9).indices, 50),),
        {"x": x},
        dvalues,
        {"x": dx.copy_to_host()},
    )


def test_wrong_arguments_are_named(put):
    x, three = put(np.zeros((2, 3), np.float32)), put(np.zeros((2, 3), np.int64))
    with pytest.raises(ValueError, match="K=4 exceeds the C=3 columns"):
        run(kernels.top_k_warp, x, 4)
    with pytest.raises(ValueError, match="K=3 exceeds the C=2 columns"):
        kernels.top_k_backward_naive(x, three, put(np.zeros((2, 2), np.float32)))
    with pytest.raises(TypeError, match="indices has dtype float32, expected int32 or int64"):
        kernels.top_k_naive(x, put(np.ones((2, 3), np.float32)), put(np.ones((2, 3), np.float32)))
