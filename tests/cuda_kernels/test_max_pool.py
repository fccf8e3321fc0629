import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import max_pool as kernels
from refkit.reference.max_pool import max_pool, max_pool_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

BACKWARD = [kernels.max_pool_backward_gather, kernels.max_pool_backward_atomic]
WINDOWS = [  # window, stride, padding
    ((2, 2), (2, 2), (0, 0)),
    ((3, 2), (2, 1), (1, 0)),
    ((1, 3), (4, 5), (0, 1)),
    ((5, 4), (1, 1), (4, 3)),
]
PLANES = (2, 3, 7, 8)
INF, NAN = np.inf, np.nan


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, 99).astype(dtype))


def pooled(x, windows, put, dtype=np.float32, index=np.int64):
    shape = max_pool(x.astype(float), *windows).y.shape
    y, argmax = empty(*shape, dtype=dtype), empty(*shape, dtype=index)
    kernels.max_pool(put(x), y, argmax, *windows, block=64)
    return y.copy_to_host(), argmax.copy_to_host()


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize(("dtype", "index"), [(np.float32, np.int64), (ml_dtypes.bfloat16, np.int32)])
def test_forward_with_many_ties(windows, dtype, index, put):
    x = np.random.default_rng(0).integers(-2, 3, PLANES).astype(dtype)
    expected = max_pool(x.astype(float), *windows)
    y, argmax = pooled(x, windows, put, dtype, index)
    np.testing.assert_array_equal(y.astype(float), expected.y)
    np.testing.assert_array_equal(argmax, expected.argmax)


def test_padding_never_wins_and_the_first_nan_does(put):
    x = np.array([[-INF, -INF, NAN, 3], [-INF, -INF, 2, NAN]], np.float32).reshape(1, 1, 2, 4)
    y, argmax = pooled(x, ((2, 2), (2, 2), (1, 1)), put)
    assert argmax.ravel().tolist() == [0, 2, 3, 4, 6, 7]
    np.testing.assert_array_equal(y.ravel(), [-INF, NAN, 3, -INF, 2, NAN])


@each(BACKWARD)
@pytest.mark.parametrize("windows", WINDOWS)
def test_backward_adds_up_where_windows_overlap(launch, windows, put):
    rng = np.random.default_rng(1)
    _, argmax = max_pool(rng.standard_normal(PLANES), *windows)
    dy = rng.integers(-3, 4, argmax.shape).astype(np.float32)  # sums are exact in any order
    dx = empty(*PLANES)
    launch(put(dy, "strided"), put(argmax), dx, *windows, block=64)
    np.testing.assert_array_equal(dx.copy_to_host(), max_pool_vjp(dy, argmax, *PLANES[2:]))


@each(BACKWARD)
def test_forward_and_backward_are_adjoint(launch, put):
    windows = WINDOWS[1]
    rng = np.random.default_rng(2)
    x = rng.permutation(np.prod(PLANES)).reshape(PLANES).astype(np.float32)  # a whole number apart
    y, argmax = pooled(x, windows, put)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    dx = empty(*PLANES)
    launch(put(dy), put(argmax), dx, *windows)
    assert_adjoint(
        lambda x: max_pool(x, *windows).y,
        lambda x, dy0: (max_pool_vjp(dy0, max_pool(x, *windows).argmax, *PLANES[2:]),),
        {"x": x},
        dy,
        {"x": dx.copy_to_host()},
    )


@each(BACKWARD)
def test_no_planes(launch, put):
    dx = empty(0, 3, 4, 4)
    launch(empty(0, 3, 2, 2), empty(0, 3, 2, 2, dtype=np.int64), dx, (2, 2), (2, 2))
    assert dx.copy_to_host().shape == (0, 3, 4, 4)


def test_wrong_arguments_are_named(put):
    x, y, argmax = empty(1, 1, 4, 4), empty(1, 1, 2, 2), empty(1, 1, 2, 2, dtype=np.int64)
    with pytest.raises(ValueError, match=r"pooled planes are \(2, 2\), expected \(3, 3\)"):
        kernels.max_pool(x, y, argmax, (2, 2), (1, 1))
    with pytest.raises(ValueError, match="padding=2 along one axis"):
        kernels.max_pool(x, y, argmax, (2, 2), (1, 1), (2, 0))
    with pytest.raises(ValueError, match=r"window of 9 exceeds the 4 \+ 2 \* 0 elements"):
        kernels.max_pool_backward_gather(y, argmax, x, (2, 9), (1, 1))
    with pytest.raises(TypeError, match="dx has dtype bfloat16, expected float32"):
        kernels.max_pool_backward_atomic(y, argmax, empty(1, 1, 4, 4, dtype=ml_dtypes.bfloat16), (2, 2), (2, 2))
