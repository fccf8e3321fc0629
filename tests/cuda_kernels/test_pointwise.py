"""What the pointwise launchers share: one or two axes, any strides, 128 bits at a time where the arrays allow it."""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32

import refkit.cpu
from refkit.cuda_kernels import gelu, pointwise, relu, residual, silu
from refkit.cuda_kernels.launch import read, write

pytestmark = pytest.mark.cpu

FORMATS = [np.float32, ml_dtypes.bfloat16, np.float16]
LAYOUTS = ["contiguous", "strided", "transposed"]


@cuda.jit(device=True)
def twice_plus_one(x):
    return float32(2) * x + float32(1)


@cuda.jit(device=True)
def difference(a, b):
    return a - b


@pointwise.pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def unary(x, y, vectorised=True, *, stream=None):
    launch = pointwise.launch_vectorised if vectorised else pointwise.launch_elementwise
    launch(twice_plus_one, (x,), y, 32, stream)


@pointwise.pointwise_launcher(a=read, b=read, y=write)
def binary(a, b, y, vectorised=True, *, stream=None):
    launch = pointwise.launch_vectorised if vectorised else pointwise.launch_elementwise
    launch(difference, (a, b), y, 32, stream)


def integers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).integers(-8, 9, shape).astype(dtype)


def empty(shape, dtype):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (300,), (1, 1), (5, 7), (3, 128), (40, 1)])
def test_every_element_once_whatever_the_shape(shape, dtype, vectorised, put):
    x, b = integers(*shape, dtype=dtype), integers(*shape, dtype=dtype, seed=1)
    y, z = empty(shape, dtype), empty(shape, dtype)
    unary(put(x), y, vectorised)
    binary(put(x), put(b), z, vectorised)
    np.testing.assert_array_equal(y.copy_to_host().astype(float), 2 * x.astype(float) + 1)
    np.testing.assert_array_equal(z.copy_to_host().astype(float), x.astype(float) - b.astype(float))


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(33,), (6, 50)])
def test_any_strides_on_both_sides(shape, layout, vectorised, put):
    a, b = integers(*shape), integers(*shape, seed=1)
    y = put(np.full(shape, np.nan, np.float32), layout)
    binary(put(a, "strided"), put(b, layout), y, vectorised)
    np.testing.assert_array_equal(y.copy_to_host(), a - b)


def test_an_array_off_the_16_byte_grid_takes_the_plain_kernel():
    x = integers(65)
    whole, y = cuda.to_device(x), empty(64, np.float32)
    assert not pointwise.in_vectors(whole[1:], y)
    assert pointwise.in_vectors(whole[4:], y)
    with refkit.cpu.emulate(sanitize=("memory",)):
        unary(cuda.to_device(x)[1:], y)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * x[1:] + 1)


def test_arrays_of_different_formats_take_the_plain_kernel(put):
    x, y = integers(4, 16, dtype=np.float16), empty((4, 16), np.float32)
    unary(put(x), y)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * x.astype(np.float32) + 1)


def test_in_place_where_the_launcher_says_so(put):
    x = integers(6, 9)
    array = put(x)
    unary(array, array)
    np.testing.assert_array_equal(array.copy_to_host(), 2 * x + 1)
    with pytest.raises(ValueError, match="y overlaps a"):
        binary(array, put(x), array)


def test_nothing_is_launched_for_arrays_of_no_elements(put):
    for shape in ((0,), (0, 5), (5, 0)):
        unary(put(np.zeros(shape, np.float32)), empty(shape, np.float32))


def test_wrong_arguments_are_named_before_a_launch(put):
    x, y = put(integers(4, 3)), empty((4, 3), np.float32)
    with pytest.raises(ValueError, match=r"unary: y has shape \(3, 4\), expected \(4, 3\) = \(M, N\)"):
        unary(x, empty((3, 4), np.float32))
    with pytest.raises(ValueError, match=r"unary: y has shape \(4, 3\), expected 1 axes \(N,\)"):
        unary(put(integers(12)), y)
    with pytest.raises(ValueError, match=r"unary: x has shape \(2, 2, 2\), expected 2 axes \(M, N\)"):
        unary(put(integers(2, 2, 2)), y)
    with pytest.raises(TypeError, match="unary: x has dtype int32, expected float32, bfloat16 or float16"):
        unary(put(np.zeros((4, 3), np.int32)), y)
    with pytest.raises(TypeError, match="unary: x is None"):
        unary(None, y)
    with pytest.raises(TypeError, match="unary: missing a required argument: 'x'"):
        unary(y=y)


@pytest.mark.parametrize(
    "launch",
    [
        silu.silu_forward,
        gelu.gelu_tanh_forward,
        gelu.gelu_erf_forward,
        relu.relu_forward,
        silu.silu_backward,
        gelu.gelu_tanh_backward,
        gelu.gelu_erf_backward,
        relu.relu_backward,
        residual.residual_forward,
    ],
    ids=lambda launch: launch.__name__,
)
def test_the_vectorised_form_gives_the_same_numbers_and_takes_a_stream(launch, put):
    module = {"silu": silu, "gelu": gelu, "relu": relu, "residual": residual}[launch.__name__.split("_")[0]]
    vectorised = getattr(module, f"{launch.__name__}_vectorised")
    rng = np.random.default_rng(3)
    inputs = [put((rng.standard_normal((7, 33)) * 3).astype(np.float32)) for _ in range(len(launch.arrays) - 1)]
    y, z, stream = empty((7, 33), np.float32), empty((7, 33), np.float32), cuda.stream()
    launch(*inputs, y)
    vectorised(*inputs, z, stream=stream)
    stream.synchronize()
    assert np.isfinite(y.copy_to_host()).all()
    # The compiler may fuse a multiplication and an addition in one form alone: some roundings apart.
    np.testing.assert_allclose(z.copy_to_host(), y.copy_to_host(), rtol=2e-6, atol=1e-7)
