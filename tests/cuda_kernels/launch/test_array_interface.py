import numpy as np
import pytest
from numba import cuda, float32

from refkit.cuda_kernels.launch import launcher, read, write

pytestmark = pytest.mark.cpu


class Foreign:
    """An array of another library: device memory known by its interface alone."""

    def __init__(self, array, **changes):
        self.array = array
        self.changes = changes

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, **self.changes}


@launcher(x=read("T"), y=write("T"))
def double(x, y, *, stream=None):
    double_kernel[1, 32, stream](x, y)
    return x, y


@cuda.jit
def double_kernel(x, y):
    i = cuda.threadIdx.x
    if i < y.shape[0]:
        y[i] = float32(2) * float32(x[i])


def device(*values):
    return cuda.to_device(np.array(values, np.float32))


def test_kernels_read_and_write_the_memory_that_the_interface_names():
    x, y = device(1, 2, 3), device(0, 0, 0)
    double(Foreign(x), Foreign(y))
    np.testing.assert_array_equal(y.copy_to_host(), [2, 4, 6])


def test_strides_are_kept():
    x, y = device(1, 2, 3, 4, 5, 6), device(0, 0, 0, 0, 0, 0)
    double(Foreign(x[::2]), Foreign(y[1::2]))
    np.testing.assert_array_equal(y.copy_to_host(), [0, 2, 0, 6, 0, 10])


def test_mapped_and_managed_arrays_of_numba():
    x, y = cuda.mapped_array(3, np.float32), cuda.managed_array(3, np.float32)
    x[...] = [1, 2, 3]
    double(x, y)
    np.testing.assert_array_equal(np.asarray(y), [2, 4, 6])


def test_the_two_are_compared_by_their_memory():
    x = device(1, 2, 3)
    with pytest.raises(ValueError, match=r"^double: y overlaps x"):
        double(Foreign(x), x)


def test_a_read_only_array_may_be_an_input_but_no_output():
    x, y = device(1, 2, 3), device(0, 0, 0)
    pointer = x.__cuda_array_interface__["data"][0]
    double(Foreign(x, data=(pointer, True)), y)
    with pytest.raises(ValueError, match=r"^double: y is read-only, expected memory that a kernel may write"):
        double(y, Foreign(x, data=(pointer, True)))


def test_memory_that_is_not_the_devices():
    host = np.zeros(3, np.float32)
    with pytest.raises(
        TypeError, match=r"^double: x cannot be taken through __cuda_array_interface__: .* not device memory"
    ):
        double(Foreign(device(1, 2, 3), data=(host.ctypes.data, False)), device(0, 0, 0))


def test_a_masked_array():
    with pytest.raises(TypeError, match=r"^double: x cannot be taken .*[Mm]asked"):
        double(Foreign(device(1, 2, 3), mask=Foreign(device(1, 0, 1))), device(0, 0, 0))


def test_an_interface_that_cannot_be_had_says_why():
    class NeedsDetach:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("can't get it on a tensor that requires grad")

    with pytest.raises(TypeError, match=r"^double: x gives no __cuda_array_interface__: can't get it on a tensor"):
        double(NeedsDetach(), device(0, 0, 0))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3, "3"), (1.5, "1.5"), ("x", "'x'"), ([1.0], "an object of type list"), (object(), "an object of type object")],
)
def test_what_is_no_array(value, shown):
    with pytest.raises(TypeError, match=f"^double: x is {shown}, expected a device array"):
        double(value, device(0, 0, 0))


def test_the_launch_comes_after_what_the_arrays_own_stream_still_has_to_do(monkeypatch):
    waits = []

    class Event:
        def record(self, stream):
            waits.append(("record", int(stream.handle)))

        def wait(self, stream):
            waits.append(("wait", stream))

    monkeypatch.setattr(cuda, "event", lambda timing: Event())
    mine = cuda.stream()
    monkeypatch.setattr(type(mine), "synchronize", lambda stream: waits.append("the host waits"))
    x, y = device(1, 2, 3), device(0, 0, 0)
    double(Foreign(x, stream=4711), y, stream=mine)
    assert waits == [("record", 4711), ("wait", mine)]
    waits.clear()
    double(Foreign(x, stream=int(mine.handle)), y, stream=mine)
    double(Foreign(x, stream=None), y, stream=mine)
    double(Foreign(x, stream=1), y)  # the legacy default stream
    assert waits == []
