import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import adamw as kernels
from refkit.reference.adamw import adamw

pytestmark = pytest.mark.cpu

LAUNCHERS = pytest.mark.parametrize("launch", [kernels.adamw, kernels.adamw_vectorised], ids=["plain", "vectorised"])
RULE = (0.02, 0.9, 0.95, 1e-8)


def state(*shape, seed=0):
    rng = np.random.default_rng((seed, *shape))
    w, m, v = rng.standard_normal((3, *shape)).astype(np.float32)
    return w, m, v * v


def wide(array):
    return np.asarray(array, np.float64)


@LAUNCHERS
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("shape", [(1,), (203,), (5, 16), (3, 7)])
@pytest.mark.parametrize(("weight_decay", "step"), [(0.1, 1), (0.0, 500)])
def test_one_step(launch, shape, dtype, weight_decay, step):
    before = state(*shape)
    gradient = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    arrays = [cuda.to_device(array) for array in before]
    parameters = cuda.to_device(np.full(shape, np.nan).astype(dtype))
    launch(*arrays, cuda.to_device(gradient), parameters, *RULE, weight_decay, step, block=32)
    expected = adamw(*map(wide, before), wide(gradient), *RULE, weight_decay, step)
    after = [array.copy_to_host() for array in arrays]
    for got, right in zip(after, expected):
        np.testing.assert_allclose(got, right, rtol=2e-6, atol=1e-7)
    np.testing.assert_array_equal(wide(parameters.copy_to_host()), wide(after[0].astype(dtype)))


@LAUNCHERS
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_without_parameters_the_master_weights_are_all(launch, dtype):
    before, gradient = state(70), np.ones(70, dtype)
    arrays = [cuda.to_device(array) for array in before]
    launch(*arrays, cuda.to_device(gradient), None, *RULE, 0.1, 3)
    expected = adamw(*map(wide, before), wide(gradient), *RULE, 0.1, 3)
    np.testing.assert_allclose(arrays[0].copy_to_host(), expected.master, rtol=2e-6, atol=1e-7)


@LAUNCHERS
def test_strided_arrays_and_mixed_formats(launch, put):
    before, gradient = state(6, 16), np.random.default_rng(2).standard_normal((6, 16)).astype(np.float32)
    arrays = [put(array, layout) for array, layout in zip(before, ("strided", "transposed", "contiguous"))]
    parameters = put(np.zeros((6, 16), ml_dtypes.bfloat16), "strided")
    launch(*arrays, put(gradient, "strided"), parameters, *RULE, 0.01, 2)
    expected = adamw(*map(wide, before), wide(gradient), *RULE, 0.01, 2)
    np.testing.assert_allclose(arrays[0].copy_to_host(), expected.master, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(wide(parameters.copy_to_host()), expected.master, rtol=2**-8)


def test_a_second_run_gives_the_same_bits_and_both_forms_the_same_numbers():
    gradient, results = np.random.default_rng(3).standard_normal(203).astype(np.float16), []
    for launch in (kernels.adamw, kernels.adamw, kernels.adamw_vectorised):
        arrays = [cuda.to_device(array) for array in state(203)]
        parameters = cuda.to_device(np.zeros(203, np.float16))
        launch(*arrays, cuda.to_device(gradient), parameters, *RULE, 0.1, 9)
        results.append(np.stack([array.copy_to_host().astype(np.float32) for array in (*arrays, parameters)]))
    assert results[0].tobytes() == results[1].tobytes()
    # The compiler may fuse a multiplication and an addition in one form alone: a rounding apart.
    np.testing.assert_allclose(results[2][:3], results[0][:3], rtol=1e-6, atol=1e-7)


def test_a_gradient_of_zeros_from_zeros_only_decays():
    weights, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    master, m, v = (cuda.to_device(array) for array in (weights, zeros, zeros))
    kernels.adamw(master, m, v, cuda.to_device(zeros), None, 0.5, 0.9, 0.99, 1e-8, 0.25, 1)
    np.testing.assert_array_equal(master.copy_to_host(), np.full(8, 0.875, np.float32))


def test_wrong_arguments_are_named():
    arrays = [cuda.to_device(array) for array in state(4)]
    gradient = cuda.to_device(np.ones(4, np.float32))
    with pytest.raises(ValueError, match="step=0 must be at least 1"):
        kernels.adamw(*arrays, gradient, None, *RULE, 0.1, 0)
    with pytest.raises(ValueError, match=r"beta2=1\.0 must lie between 0 and 1"):
        kernels.adamw(*arrays, gradient, None, 0.1, 0.9, 1.0, 1e-8, 0.1, 1)
    with pytest.raises(TypeError, match="master has dtype float16, expected float32"):
        kernels.adamw(cuda.to_device(np.ones(4, np.float16)), *arrays[1:], gradient, None, *RULE, 0.1, 1)
    with pytest.raises(ValueError, match="overlaps"):
        kernels.adamw(arrays[0], arrays[1], arrays[1], gradient, None, *RULE, 0.1, 1)
