import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import gelu as kernels
from refkit.reference.gelu import gelu_erf, gelu_erf_vjp, gelu_tanh, gelu_tanh_vjp
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = {
    "tanh": (gelu_tanh, kernels.gelu_tanh_forward, kernels.gelu_tanh_forward_vectorised),
    "erf": (gelu_erf, kernels.gelu_erf_forward, kernels.gelu_erf_forward_vectorised),
}
BACKWARD = {
    "tanh": (gelu_tanh, gelu_tanh_vjp, kernels.gelu_tanh_backward, kernels.gelu_tanh_backward_vectorised),
    "erf": (gelu_erf, gelu_erf_vjp, kernels.gelu_erf_backward, kernels.gelu_erf_backward_vectorised),
}
EACH = pytest.mark.parametrize("form", ["tanh", "erf"])


def values(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) * 2).astype(dtype)


def run(launch, *inputs, dtype=np.float32):
    out = cuda.to_device(np.full(inputs[0].shape, np.nan).astype(dtype))
    launch(*map(cuda.to_device, inputs), out)
    return out.copy_to_host().astype(np.float64)


@EACH
def test_adjoint(form):
    forward, vjp, *launchers = BACKWARD[form]
    x, dy = values(9, 14), values(9, 14, seed=1)
    for backward in launchers:
        assert_adjoint(forward, lambda x, dy0: (vjp(dy0, x),), {"x": x}, dy, {"x": run(backward, dy, x)})


@EACH
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_forward_rounds_once_to_the_storage_format(form, dtype):
    forward, *launchers = FORWARD[form]
    x = values(5, 40, dtype=dtype)
    rounding = {np.float32: 4e-6, ml_dtypes.bfloat16: 2**-8, np.float16: 2**-10}[dtype]
    for launch in launchers:
        # float16 holds nothing between 0 and 6e-8, half of which is the last bit of a subnormal.
        np.testing.assert_allclose(run(launch, x, dtype=dtype), forward(x.astype(np.float64)), rtol=rounding, atol=3e-8)


@EACH
def test_negative_tails_keep_their_digits(form):
    forward, launch, _ = FORWARD[form]
    x = np.linspace(-8, -4, 50).astype(np.float32)
    # The exponent of the tail is up to 60 and rounded to float32: 60 * 2^-23 of the result, where 1 + tanh gives 0.
    np.testing.assert_allclose(run(launch, x), forward(x.astype(np.float64)), rtol=3e-5)


@EACH
def test_values_far_out_stay_finite(form):
    _, launch, _ = FORWARD[form]
    _, _, backward, _ = BACKWARD[form]
    x = np.array([0, 30, -30, 1e25, -1e25, 3e38, -3e38], np.float32)
    np.testing.assert_array_equal(run(launch, x), np.maximum(x, 0).astype(np.float64))
    np.testing.assert_array_equal(run(backward, np.ones(7, np.float32), x), [0.5, 1, 0, 1, 0, 1, 0])
