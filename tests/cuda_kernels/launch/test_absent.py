"""Arrays that stand in for absent ones: made at the first launch, whatever device or context is there later."""

import numpy as np
import pytest
from numba import cuda
from numba.cuda.cudadrv import devicearray

import refkit.cpu
from refkit.cuda_kernels.gemm.epilogues import Operands, operands_or_bias
from refkit.cuda_kernels.launch import launcher, present_or_empty, read, write
from refkit.cuda_kernels.launch.absent import empty_array

pytestmark = pytest.mark.cpu


@launcher(x=read("N"), gamma=read("N", optional=True), beta=read("N", optional=True), y=write("N"))
def shifted(x, gamma, beta, y, *, stream=None):
    return gamma, beta


def test_a_second_launch_allocates_nothing(monkeypatch):
    x, y = cuda.device_array(3, np.float32), cuda.device_array(3, np.float32)
    first = (*shifted(x, None, None, y), *operands_or_bias(None, None, np.float32))
    monkeypatch.setattr(cuda, "device_array", None)
    second = (*shifted(x, None, None, y), *operands_or_bias(None, None, np.float32))
    assert all(a is b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("ndim", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.dtype(np.float16), "int32"])
def test_axes_and_dtype_are_those_asked_for(ndim, dtype):
    array = empty_array(ndim, dtype)
    assert (array.shape, array.dtype) == ((0,) * ndim, np.dtype(dtype))


def test_operands_without_a_bias_hold_two_empty_arrays_and_those_given_pass():
    bias = cuda.device_array(5, np.float16)
    bare, biased = operands_or_bias(None, None, np.float16), operands_or_bias(None, bias, np.float16)
    assert (bare.bias.shape, bare.residual.shape) == ((0,), (0, 0))
    assert (bare.bias.dtype, bare.residual.dtype) == (np.float16, np.float16)
    assert biased.bias is bias
    given = Operands(bias, bias)
    assert operands_or_bias(given, None, np.float16) is given
    assert present_or_empty(bias, np.float32) is bias


def test_reports_name_the_absent_array_that_is_read():
    @cuda.jit
    def kernel(x, gamma, beta):
        x[0] = beta[0]

    x = cuda.device_array(1, np.float32)
    with (
        refkit.cpu.emulate(sanitize=("memory",)),
        pytest.raises(refkit.cpu.SanitizerFault, match="axis 0 of beta, which has 0"),
    ):
        kernel[1, 1](x, x, empty_array(1, np.float32))
    with refkit.cpu.emulate(sanitize=("memory",)), pytest.raises(refkit.cpu.SanitizerFault, match="of gamma or beta,"):
        kernel[1, 1](x, empty_array(1, np.float32), empty_array(1, np.float32))


def test_an_executor_on_the_cpu_and_a_gpu_each_have_their_own(monkeypatch):
    emulated = empty_array(1, np.float32)
    with refkit.cpu.emulate():
        assert empty_array(1, np.float32) is emulated
    monkeypatch.setattr(devicearray, "DeviceNDArray", type("DeviceNDArray", (), {}))
    monkeypatch.setattr(cuda, "device_array", lambda shape, dtype: ("the GPU's", shape, dtype))
    assert empty_array(1, np.float32) == ("the GPU's", (0,), np.float32)
    monkeypatch.undo()
    assert empty_array(1, np.float32) is emulated
