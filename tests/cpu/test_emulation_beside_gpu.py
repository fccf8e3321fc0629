"""On a machine with a GPU: emulation changes nothing for the GPU, before, during or after."""

import gc
import warnings

import numpy as np
import pytest
from numba import cuda

from refkit.cpu import DeviceArray, emulate

if not cuda.is_available():
    pytest.skip("no NVIDIA GPU", allow_module_level=True)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.cpu,
    pytest.mark.filterwarnings("ignore:Grid size", "ignore:Host array used"),
]


@cuda.jit(device=True)
def double(v):
    return v * 2


@cuda.jit
def kernel(x):
    x[cuda.threadIdx.x] = double(x[cuda.threadIdx.x])


@cuda.jit("void(float32[:])")
def eager(x):
    x[cuda.threadIdx.x] += 1


@cuda.jit("float32(float32)", device=True)
def triple(v):
    return v * 3


@cuda.jit
def calls_triple(x):
    x[cuda.threadIdx.x] = triple(x[cuda.threadIdx.x])


def on_gpu(launch) -> list[float]:
    d = cuda.to_device(np.arange(4, dtype=np.float32))
    assert not isinstance(d, DeviceArray)
    launch[1, 4](d)
    return d.copy_to_host().tolist()


def on_cpu(launch) -> list[float]:
    with emulate():
        d = cuda.to_device(np.arange(4, dtype=np.float32))
        assert isinstance(d, DeviceArray)
        launch[1, 4](d)
        return d.copy_to_host().tolist()


@pytest.mark.parametrize(
    ("launch", "want"),
    [(kernel, [0, 2, 4, 6]), (eager, [1, 2, 3, 4]), (calls_triple, [0, 3, 6, 9])],
    ids=["lazy", "eager", "eager device function"],
)
def test_the_same_kernel_runs_on_both_in_turn(launch, want):
    for run in (on_cpu, on_gpu, on_cpu, on_gpu):
        assert run(launch) == want


def test_what_is_decorated_under_emulation_runs_on_the_gpu_later():
    with emulate():

        @cuda.jit("float32(float32)", device=True)
        def square(v):
            return v * v

        @cuda.jit("void(float32[:])")
        def squares(x):
            x[cuda.threadIdx.x] = square(x[cuda.threadIdx.x])

        @cuda.jit(["void(float32[:])", "void(float64[:])"])
        def halves(x):
            x[cuda.threadIdx.x] = x[cuda.threadIdx.x] / 2

    for launch, want in ((squares, [0, 1, 4, 9]), (halves, [0, 0.5, 1, 1.5])):
        assert on_cpu(launch) == want
        assert on_gpu(launch) == want
        assert on_cpu(launch) == want
    assert squares.get_regs_per_thread() > 0


def test_configurations_and_streams_are_not_mixed():
    configured = kernel[1, 4]
    with emulate():
        d = cuda.to_device(np.ones(4, np.float32))
        configured(d)
        kept = kernel[1, 4]
        kept(d)
        assert d.copy_to_host().tolist() == [4] * 4
    d = cuda.to_device(np.ones(4, np.float32))
    configured(d)
    kept(d)
    kernel[1, 4, cuda.stream()](d)
    cuda.synchronize()
    assert d.copy_to_host().tolist() == [8] * 4


def test_arrays_do_not_cross():
    real = cuda.to_device(np.ones(4, np.float32))
    with emulate():
        with pytest.raises(ValueError, match="is not device memory of the CPU executor"):
            kernel[1, 4](real)
        emulated = cuda.to_device(np.ones(4, np.float32))
    with pytest.raises(TypeError, match="a GPU cannot read it"):
        kernel[1, 4](emulated)
    assert real.copy_to_host().tolist() == [1] * 4


def test_gpu_resources_released_under_emulation_are_freed():
    cuda.synchronize()
    free_before = cuda.current_context().get_memory_info().free
    real = [cuda.to_device(np.zeros(1 << 26, np.uint8)) for _ in range(8)]
    stream, event = cuda.stream(), cuda.event()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pytest.PytestUnraisableExceptionWarning)
        with emulate():
            del real, stream, event
            gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    assert cuda.current_context().get_memory_info().free >= free_before - (1 << 26)


def test_device_queries_return_to_the_gpu():
    name = cuda.get_current_device().name
    count = len(cuda.gpus)
    with emulate():
        assert cuda.get_current_device().name == "refkit CPU executor"
        assert len(cuda.gpus) == 1
    assert cuda.get_current_device().name == name
    assert len(cuda.gpus) == count
