import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import grad_norm as kernels
from refkit.cuda_kernels.sum_of_squares import sum_of_squares_two_stage
from refkit.reference.grad_norm import clip_grad_norm, grad_norm

pytestmark = pytest.mark.cpu


def values(*shape, dtype=np.float32):
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def nothing():
    return cuda.to_device(np.full(1, np.nan, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("shape", [(1,), (4001,), (20, 33)])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_norm_and_clipped_gradient(shape, dtype, max_norm):
    gradient = values(*shape, dtype=dtype)
    array, norm = cuda.to_device(gradient), nothing()
    kernels.clip_grad_norm(array, norm, max_norm)
    expected, expected_norm = clip_grad_norm(gradient.astype(np.float64), max_norm)
    np.testing.assert_allclose(norm.copy_to_host(), expected_norm, rtol=1e-6)
    rounding = {np.float32: 1e-6, ml_dtypes.bfloat16: 2**-8, np.float16: 2**-10}[dtype]
    np.testing.assert_allclose(array.copy_to_host().astype(float), expected, rtol=rounding, atol=3e-8)
    if max_norm > 1e5:
        assert array.copy_to_host().tobytes() == gradient.tobytes()


def test_the_norm_of_several_tensors_scales_each_of_them():
    a, b = values(50), values(6, 7)
    total, norm = cuda.to_device(np.zeros(1, np.float32)), nothing()
    arrays = [cuda.to_device(a), cuda.to_device(b)]
    for array in arrays:
        sum_of_squares_two_stage(array, total)
    kernels.root(total, norm)
    for array in arrays:
        kernels.clip_by_norm(array, norm, 0.25)
    whole = np.concatenate([a, b.ravel()])
    assert norm.copy_to_host()[0] == pytest.approx(grad_norm(whole.astype(float))[0], rel=1e-6)
    clipped = np.concatenate([array.copy_to_host().ravel() for array in arrays])
    assert np.linalg.norm(clipped) == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (9,), (4, 5)])
def test_a_gradient_of_zeros_or_nothing_has_norm_0_and_stays(shape):
    array, norm = cuda.to_device(np.zeros(shape, np.float32)), nothing()
    kernels.clip_grad_norm(array, norm, 1.0)
    assert norm.copy_to_host().tolist() == [0]
    assert not array.copy_to_host().any()


def test_nan_is_not_hidden_and_an_infinite_norm_leaves_zeros():
    for bad, expected in ((np.nan, np.nan), (np.inf, 0.0)):
        array, norm = cuda.to_device(np.array([1, bad, 2], np.float32)), nothing()
        kernels.clip_grad_norm(array, norm, 1.0)
        np.testing.assert_array_equal(norm.copy_to_host(), [bad])
        np.testing.assert_array_equal(array.copy_to_host()[[0, 2]], [expected, expected])


def test_strided_gradients(put):
    gradient, norm = values(8, 9), nothing()
    kernels.grad_norm(put(gradient, "strided"), norm)
    assert norm.copy_to_host()[0] == pytest.approx(grad_norm(gradient.astype(float))[0], rel=1e-6)


def test_wrong_arguments_are_named(put):
    with pytest.raises(ValueError, match=r"max_norm=-1\.0 must be at least 0"):
        kernels.clip_grad_norm(put(values(3)), nothing(), -1.0)
    with pytest.raises(ValueError, match="max_norm=nan must be at least 0"):
        kernels.clip_by_norm(put(values(3)), nothing(), float("nan"))
    with pytest.raises(TypeError, match="norm has dtype float16"):
        kernels.grad_norm(put(values(3)), put(np.zeros(1, np.float16)))
