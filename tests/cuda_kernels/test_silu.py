import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import silu as kernels
from refkit.reference.silu import silu, silu_vjp
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu


def values(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) * 2).astype(dtype)


def run(launch, *inputs, dtype=np.float32):
    out = cuda.to_device(np.full(inputs[0].shape, np.nan).astype(dtype))
    launch(*map(cuda.to_device, inputs), out)
    return out.copy_to_host().astype(np.float64)


@pytest.mark.parametrize("backward", [kernels.silu_backward, kernels.silu_backward_vectorised])
def test_adjoint(backward):
    x, dy = values(9, 14), values(9, 14, seed=1)
    assert_adjoint(silu, lambda x, dy0: (silu_vjp(dy0, x),), {"x": x}, dy, {"x": run(backward, dy, x)})


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_forward_rounds_once_to_the_storage_format(dtype):
    x = values(5, 40, dtype=dtype)
    for launch in (kernels.silu_forward, kernels.silu_forward_vectorised):
        y = run(launch, x, dtype=dtype)
        rounding = {np.float32: 1e-6, ml_dtypes.bfloat16: 2**-8, np.float16: 2**-10}[dtype]
        np.testing.assert_allclose(y, silu(x.astype(np.float64)), rtol=rounding)


def test_values_far_out_stay_finite():
    x = np.array([0, 90, -90, 3e38, -3e38], np.float32)
    with np.errstate(under="ignore"):
        np.testing.assert_allclose(run(kernels.silu_forward, x), silu(x.astype(np.float64)), rtol=1e-5, atol=1e-36)
    derivative = run(kernels.silu_backward, np.ones(5, np.float32), x)
    np.testing.assert_allclose(derivative, [0.5, 1, 0, 1, 0], atol=1e-36)
