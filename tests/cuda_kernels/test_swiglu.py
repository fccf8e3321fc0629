import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import swiglu as kernels
from refkit.reference.swiglu import swiglu, swiglu_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.swiglu_naive, kernels.swiglu_rows]
BACKWARD = [kernels.swiglu_backward_naive, kernels.swiglu_backward_rows]
SHAPES = [(1, 1), (3, 70), (33, 5)]  # (M, I)
ROUNDING = {np.float32: 2e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-10}


def normal(*shape, dtype=np.float32, seed=0):
    return (2 * np.random.default_rng((seed, *shape)).standard_normal(shape)).astype(dtype)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def wide(array):
    return array.astype(np.float64)


@pytest.mark.parametrize("launch", FORWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_forward(launch, shape, dtype, put):
    de, out = normal(shape[0], 2 * shape[1], dtype=dtype), empty(*shape, dtype=dtype)
    launch(put(de, "strided"), out, block=32)
    np.testing.assert_allclose(wide(out.copy_to_host()), swiglu(wide(de)), rtol=ROUNDING[dtype], atol=1e-7)


@pytest.mark.parametrize("launch", BACKWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_backward(launch, shape, dtype, put):
    merged = (shape[0], 2 * shape[1])
    dout, de, grad_de = normal(*shape, dtype=dtype, seed=1), normal(*merged, dtype=dtype), empty(*merged, dtype=dtype)
    launch(put(dout, "strided"), put(de, "transposed"), grad_de, block=32)
    expected = swiglu_vjp(wide(dout), wide(de))
    np.testing.assert_allclose(wide(grad_de.copy_to_host()), expected, rtol=ROUNDING[dtype], atol=2e-6)


@pytest.mark.parametrize("launch", BACKWARD)
def test_grad_de_may_replace_de(launch, put):
    dout, de = normal(5, 40, seed=1), normal(5, 80)
    apart, together = empty(5, 80), put(de)
    launch(put(dout), put(de), apart)
    launch(put(dout), together, together)
    np.testing.assert_array_equal(together.copy_to_host(), apart.copy_to_host())


def test_forward_and_backward_are_adjoint(put):
    de, dout, grad_de = normal(9, 34), normal(9, 17, seed=1), empty(9, 34)
    kernels.swiglu_backward_rows(put(dout), put(de), grad_de)
    assert_adjoint(swiglu, lambda de, dy0: (swiglu_vjp(dy0, de),), {"de": de}, dout, {"de": grad_de.copy_to_host()})


@pytest.mark.parametrize("launch", FORWARD)
def test_a_closed_gate_gives_nothing_and_an_infinite_one_shows(launch, put):
    out = empty(1, 3)
    launch(put(np.array([[2, 2, -1, -np.inf, -1e4, np.inf]], np.float32)), out)
    np.testing.assert_array_equal(out.copy_to_host(), [[np.nan, -0.0, -np.inf]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_inputs_launch_nothing(shape, put):
    merged = (shape[0], 2 * shape[1])
    for launch in FORWARD:
        launch(put(np.zeros(merged, np.float32)), empty(*shape))
    for launch in BACKWARD:
        launch(put(np.zeros(shape, np.float32)), put(np.zeros(merged, np.float32)), empty(*merged))


def test_wrong_arguments_are_named(put):
    de = put(normal(4, 6))
    with pytest.raises(ValueError, match="swiglu_rows: out"):
        kernels.swiglu_rows(de, empty(4, 2))
    with pytest.raises(ValueError, match="swiglu_naive: de"):
        kernels.swiglu_naive(put(normal(4, 5)), empty(4, 2))
    with pytest.raises(ValueError, match="out overlaps de"):
        kernels.swiglu_rows(de, de[:, :3])
    with pytest.raises(TypeError, match="out has dtype int32"):
        kernels.swiglu_rows(de, cuda.device_array((4, 3), np.int32))
    with pytest.raises(ValueError, match="block=33"):
        kernels.swiglu_rows(de, empty(4, 3), block=33)
