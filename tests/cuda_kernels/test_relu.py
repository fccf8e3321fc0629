import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import relu as kernels
from refkit.reference.relu import relu, relu_vjp
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu


def values(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) * 2).astype(dtype)


def run(launch, *inputs, dtype=np.float32):
    out = cuda.to_device(np.full(inputs[0].shape, np.nan).astype(dtype))
    launch(*map(cuda.to_device, inputs), out)
    return out.copy_to_host().astype(np.float64)


@pytest.mark.parametrize("backward", [kernels.relu_backward, kernels.relu_backward_vectorised])
def test_adjoint(backward):
    x, dy = values(9, 14), values(9, 14, seed=1)
    x += np.sign(x) * np.float32(0.01)  # no element crosses 0 within a difference step
    assert_adjoint(relu, lambda x, dy0: (relu_vjp(dy0, x),), {"x": x}, dy, {"x": run(backward, dy, x)})


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_exact_in_every_format_with_y_for_x_as_well(dtype):
    x, dy = values(5, 40, dtype=dtype), values(5, 40, seed=1, dtype=dtype)
    x[0, :4] = [0.0, -0.0, np.inf, -np.inf]
    y = run(kernels.relu_forward, x, dtype=dtype)
    np.testing.assert_array_equal(y, relu(x.astype(np.float64)))
    for given in (x, y.astype(dtype)):
        dx = run(kernels.relu_backward_vectorised, dy, given, dtype=dtype)
        np.testing.assert_array_equal(dx, relu_vjp(dy.astype(np.float64), x.astype(np.float64)))


def test_nan_goes_through():
    assert np.isnan(run(kernels.relu_forward, np.array([np.nan], np.float32)))[0]
