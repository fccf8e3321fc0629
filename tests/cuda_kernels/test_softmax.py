import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import softmax as kernels
from refkit.cuda_kernels import softmax_backward as backward_kernels
from refkit.reference.softmax import softmax, softmax_dx, softmax_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.softmax_naive, kernels.softmax_warp, kernels.softmax_block, kernels.softmax_online]
BACKWARD = [backward_kernels.softmax_dx_warp, backward_kernels.softmax_dx_block]
SHAPES = [(1, 1), (5, 37), (2, 300), (70, 3)]
INF, NAN = np.inf, np.nan


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def run(launch, x, *others, **config):
    y = empty(*x.shape, dtype=x.dtype)
    launch(x, *others, y, **config)
    return y.copy_to_host().astype(float)


@each(FORWARD)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward(launch, shape, put):
    x = normal(*shape) * 5
    expected = softmax(x.astype(float))
    np.testing.assert_allclose(run(launch, put(x), block=64), expected, rtol=3e-6)
    np.testing.assert_allclose(run(launch, put(x, "transposed"), block=64), expected, rtol=3e-6)


@each(FORWARD)
def test_16_bit_storage_is_rounded_once(launch, put):
    x = normal(4, 70, dtype=ml_dtypes.bfloat16)
    np.testing.assert_allclose(run(launch, put(x)), softmax(x.astype(float)), rtol=2**-8)


@each(FORWARD)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_nan_and_large_values(launch, put):
    rows = np.array(
        [
            [0, -INF, 0, -INF],
            [-INF, -INF, -INF, -INF],
            [INF, 0, -INF, 1],
            [NAN, 0, 1, 2],
            [-INF, NAN, -INF, -INF],
            [3e38, 3e38, -3e38, 0],
        ]
    )
    expected = [[0.5, 0, 0.5, 0], *[[NAN] * 4] * 4, [0.5, 0.5, 0, 0]]
    np.testing.assert_array_equal(run(launch, put(rows.astype(np.float32))), expected)


@each(FORWARD)
@pytest.mark.parametrize("order", [1, -1])
def test_rows_sorted_either_way_and_longer_than_a_block(launch, order, put):
    x = np.sort(normal(2, 3000) * 10, axis=1)[:, ::order].copy()
    # Ascending, every number is a new maximum of its thread.
    np.testing.assert_allclose(run(launch, put(x), block=32), softmax(x.astype(float)), rtol=1e-5)


@each(FORWARD)
def test_x_may_be_y(launch, put):
    x = normal(3, 50)
    array = put(x)
    launch(array, array)
    np.testing.assert_allclose(array.copy_to_host(), softmax(x.astype(float)), rtol=3e-6)


@each(FORWARD)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty_arrays(launch, shape, put):
    assert run(launch, put(np.zeros(shape, np.float32))).shape == shape


@each(BACKWARD)
@pytest.mark.parametrize("shape", SHAPES)
def test_dx(launch, shape, put):
    dy, y = normal(*shape), softmax(normal(*shape, seed=1).astype(float)).astype(np.float32)
    got = run(launch, put(dy), put(y, "strided"), block=64)
    np.testing.assert_allclose(got, softmax_dx(dy.astype(float), y.astype(float)), atol=1e-6)


@each(BACKWARD)
def test_dx_may_be_dy(launch, put):
    dy, y = normal(3, 50), normal(3, 50, seed=1)
    array = put(dy)
    launch(array, put(y), array)
    np.testing.assert_allclose(
        array.copy_to_host(), softmax_dx(dy.astype(float), y.astype(float)), rtol=1e-4, atol=1e-4
    )


@each(BACKWARD)
def test_forward_and_backward_are_adjoint(launch, put):
    x, dy = normal(6, 75), normal(6, 75, seed=1)
    y, dx = empty(6, 75), empty(6, 75)
    kernels.softmax_online(put(x), y)
    launch(put(dy), y, dx)
    assert_adjoint(softmax, lambda x, dy0: softmax_vjp(dy0, x), {"x": x}, dy, {"x": dx.copy_to_host()})


def test_wrong_arguments_are_named(put):
    x = put(normal(4, 3))
    with pytest.raises(ValueError, match=r"softmax_warp: y has shape \(3, 4\), expected \(4, 3\)"):
        kernels.softmax_warp(x, empty(3, 4))
    with pytest.raises(TypeError, match="softmax_naive: x has dtype float64"):
        kernels.softmax_naive(put(np.zeros((4, 3))), empty(4, 3))
    with pytest.raises(ValueError, match="block=48 must be a multiple of 32"):
        kernels.softmax_online(x, empty(4, 3), block=48)
    with pytest.raises(ValueError, match="dx"):
        backward_kernels.softmax_dx_block(x, x, x)
