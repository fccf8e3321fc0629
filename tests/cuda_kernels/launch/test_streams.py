import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.launch import as_stream, launcher, read

pytestmark = pytest.mark.cpu


class Protocol:
    def __cuda_stream__(self):
        return 0, 4711


class ProtocolAttribute:
    __cuda_stream__ = (0, 4711)


class Torch:
    cuda_stream = 4711


class CuPy:
    ptr = 4711


@launcher(x=read("T"))
def launch(x, *, stream=None):
    return stream


@pytest.mark.parametrize(
    "foreign", [4711, Protocol(), ProtocolAttribute(), Torch(), CuPy()], ids=lambda s: type(s).__name__
)
def test_a_stream_of_another_library_keeps_its_handle(foreign):
    stream = as_stream(foreign)
    assert isinstance(stream, cuda.cudadrv.driver.Stream)
    assert int(stream.handle) == 4711


def test_a_numba_stream_is_passed_on():
    stream = cuda.stream()
    assert as_stream(stream) is stream
    assert launch(cuda.device_array(3, np.float32), stream=stream) is stream


def test_none_and_the_handle_0_are_the_default_stream():
    assert as_stream(None) == as_stream(0) == 0
    assert launch(cuda.device_array(3, np.float32)) == 0


@pytest.mark.parametrize("wrong", ["stream", 1.5, True, object()])
def test_anything_else_is_refused_by_name(wrong):
    with pytest.raises(
        TypeError, match=r"^launch: stream is .*, expected None, a stream of Numba, torch or CuPy, or an integer"
    ):
        launch(cuda.device_array(3, np.float32), stream=wrong)


def test_a_kernel_runs_on_the_stream_it_is_given():
    @cuda.jit
    def fill_kernel(x):
        x[cuda.threadIdx.x] = 5

    @launcher(x=read("T"))
    def fill(x, *, stream=None):
        fill_kernel[1, x.shape[0], stream](x)

    for stream in (None, 0, cuda.stream(), 4711, Protocol()):
        x = cuda.to_device(np.zeros(4, np.float32))
        fill(x, stream=stream)
        np.testing.assert_array_equal(x.copy_to_host(), 5)
