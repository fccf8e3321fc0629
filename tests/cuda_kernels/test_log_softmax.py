import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import log_softmax as kernels
from refkit.cuda_kernels import log_softmax_backward as backward_kernels
from refkit.reference.log_softmax import log_softmax, log_softmax_dx, log_softmax_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.log_softmax_warp, kernels.log_softmax_online]
BACKWARD = [backward_kernels.log_softmax_dx_warp, backward_kernels.log_softmax_dx_block]
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
    np.testing.assert_allclose(run(launch, put(x, "transposed"), block=64), log_softmax(x.astype(float)), atol=5e-6)


@each(FORWARD)
def test_16_bit_storage_is_rounded_once(launch, put):
    x = normal(4, 70, dtype=ml_dtypes.bfloat16)
    np.testing.assert_allclose(run(launch, put(x)), log_softmax(x.astype(float)), rtol=2**-8)


@each(FORWARD)
def test_a_large_mean_costs_no_digits(launch, put):
    x = np.array([[1e6, 1e6 - 1, 1e6 - 2]], np.float32)
    # max + log s, rounded at the size of the maximum, would be off by up to 0.03.
    np.testing.assert_allclose(run(launch, put(x)), log_softmax(x.astype(float)), atol=1e-6)


@each(FORWARD)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_and_nan(launch, put):
    rows = np.array([[0, -INF, 0], [-INF, -INF, -INF], [INF, 0, -INF], [NAN, 0, 1], [-INF, NAN, -INF]], np.float32)
    half = -np.log(np.float32(2))
    np.testing.assert_allclose(run(launch, put(rows)), [[half, -INF, half], *[[NAN] * 3] * 4], rtol=1e-6)


@each(FORWARD)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty_arrays(launch, shape, put):
    assert run(launch, put(np.zeros(shape, np.float32))).shape == shape


@each(BACKWARD)
@pytest.mark.parametrize("shape", SHAPES)
def test_dx(launch, shape, put):
    dy, y = normal(*shape), log_softmax(normal(*shape, seed=1).astype(float)).astype(np.float32)
    got = run(launch, put(dy), put(y, "strided"), block=64)
    np.testing.assert_allclose(got, log_softmax_dx(dy.astype(float), y.astype(float)), atol=3e-6)


@each([*FORWARD, *BACKWARD])
def test_the_result_may_be_the_first_input(launch, put):
    first, y = normal(3, 50), normal(3, 50, seed=1)
    others = [put(y)] if launch in BACKWARD else []
    array = put(first)
    expected = run(launch, array, *others)
    launch(array, *others, array)
    np.testing.assert_array_equal(array.copy_to_host(), expected)


@each(BACKWARD)
def test_forward_and_backward_are_adjoint(launch, put):
    x, dy = normal(6, 75), normal(6, 75, seed=1)
    y, dx = empty(6, 75), empty(6, 75)
    kernels.log_softmax_online(put(x), y)
    launch(put(dy), y, dx)
    assert_adjoint(log_softmax, lambda x, dy0: log_softmax_vjp(dy0, x), {"x": x}, dy, {"x": dx.copy_to_host()})


def test_wrong_arguments_are_named(put):
    x = put(normal(4, 3))
    with pytest.raises(ValueError, match=r"log_softmax_warp: y has shape \(3, 4\), expected \(4, 3\)"):
        kernels.log_softmax_warp(x, empty(3, 4))
    with pytest.raises(ValueError, match="block=48 must be a multiple of 32"):
        backward_kernels.log_softmax_dx_block(x, x, empty(4, 3), block=48)
