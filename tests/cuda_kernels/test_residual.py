import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import residual as kernels
from refkit.reference.residual import residual, residual_vjp
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu


def values(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) * 2).astype(dtype)


def run(launch, *inputs, dtype=np.float32):
    out = cuda.to_device(np.full(inputs[0].shape, np.nan).astype(dtype))
    launch(*map(cuda.to_device, inputs), out)
    return out.copy_to_host().astype(np.float64)


@pytest.mark.parametrize("backward", [kernels.residual_backward, kernels.residual_backward_vectorised])
def test_adjoint_of_a_block_whose_branch_is_three_times_x(backward):
    x, dy = values(6, 10), values(6, 10, seed=1)
    dx = cuda.to_device(3 * dy)  # what the branch r = 3 x gave
    backward(cuda.to_device(dy), dx)
    assert_adjoint(
        lambda x: residual(x, 3 * x),
        lambda x, dy0: (3 * residual_vjp(dy0)[1] + residual_vjp(dy0)[0],),
        {"x": x},
        dy,
        {"x": dx.copy_to_host()},
    )


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_sums_are_rounded_once_to_the_storage_format(dtype):
    x, r = values(5, 40, dtype=dtype), values(5, 40, seed=1, dtype=dtype)
    right = (x.astype(np.float32) + r.astype(np.float32)).astype(dtype)
    for launch in (kernels.residual_forward, kernels.residual_forward_vectorised):
        np.testing.assert_array_equal(run(launch, x, r, dtype=dtype), right.astype(np.float64))
    for launch in (kernels.residual_backward, kernels.residual_backward_vectorised):
        dx = cuda.to_device(x)
        launch(cuda.to_device(r), dx)
        np.testing.assert_array_equal(dx.copy_to_host().view(np.uint8), right.view(np.uint8))


def test_dx_must_not_be_dy():
    x = cuda.to_device(values(4, 4))
    with pytest.raises(ValueError, match="dx overlaps dy"):
        kernels.residual_backward(x, x)
