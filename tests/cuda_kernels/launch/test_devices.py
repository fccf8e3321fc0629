"""Which memory a launcher takes where there is a GPU; what is decided before the driver is asked needs none here."""

import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.launch import foreign
from refkit.cuda_kernels.launch.foreign import as_device_array

from .capsules import Exported

pytestmark = pytest.mark.cpu

FLOAT32_CODE = 2


def exported(device):
    return Exported(np.zeros(3, np.float32), FLOAT32_CODE, device=device)


@pytest.mark.parametrize(
    ("device", "found"),
    [((1, 0), "in CPU memory, expected memory of GPU 0"), ((2, 1), "on GPU 1, expected GPU 0, the current device")],
)
def test_a_tensor_on_another_device_is_refused_before_it_is_exported(device, found):
    array = exported(device)
    with pytest.raises(ValueError, match=f"^f: x lies {found}$"):
        as_device_array(array, "f: x", False, 0, 0)
    assert not array.calls


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (256, "on GPU 1, expected GPU 0, the current device"),
        (512, "at 0x200, in no GPU's memory; expected memory of GPU 0"),
    ],
)
def test_the_driver_says_where_the_memory_of_an_array_interface_lies(address, found, monkeypatch):
    class Driver:
        def cuPointerGetAttribute(self, attribute, pointer):
            assert "DEVICE_ORDINAL" in str(attribute)
            return {256: 1, 512: -2}[int(pointer)]

    monkeypatch.setattr(foreign.driver, "driver", Driver())
    interface = {"shape": (3,), "strides": None, "typestr": "<f4", "data": (address, False), "version": 3}
    array = type("Foreign", (), {"__cuda_array_interface__": interface})()
    with pytest.raises(ValueError, match=f"^f: x lies {found}$"):
        as_device_array(array, "f: x", False, 0, 0)


def test_an_array_of_numba_belongs_to_the_device_of_its_context(monkeypatch):
    context = type("Context", (), {"device": type("Device", (), {"id": 1})()})()
    memory = type("Memory", (), {"context": context})()
    array = cuda.device_array(3, np.float32)
    monkeypatch.setattr(type(array), "gpu_data", property(lambda self: memory))
    with pytest.raises(ValueError, match=r"^f: x lies on GPU 1, expected GPU 0, the current device$"):
        as_device_array(array, "f: x", False, 0, 0)
    assert as_device_array(array, "f: x", False, 0, 1) is array


@pytest.mark.parametrize(("stream", "number"), [(0, 1), (4711, 4711)])
def test_the_library_is_told_the_stream_of_the_launch_as_dlpack_counts(stream, number, monkeypatch):
    monkeypatch.setattr(foreign, "_gpu_array", lambda tensor: tensor)
    array = exported((2, 0))
    tensor = as_device_array(array, "f: x", True, cuda.external_stream(stream) if stream else 0, 0)
    assert array.calls == [{"stream": number, "max_version": (1, 0)}]
    assert tensor.address == array.array.ctypes.data


def test_the_per_thread_default_stream_has_a_number_of_its_own(monkeypatch):
    monkeypatch.setattr(foreign, "_gpu_array", lambda tensor: tensor)
    monkeypatch.setattr(foreign.config, "CUDA_PER_THREAD_DEFAULT_STREAM", 1)
    array = exported((2, 0))
    as_device_array(array, "f: x", True, 0, 0)
    assert array.calls[0]["stream"] == 2


def test_managed_memory_belongs_to_no_device_in_particular(monkeypatch):
    monkeypatch.setattr(foreign, "_gpu_array", lambda tensor: tensor)
    assert as_device_array(exported((13, 1)), "f: x", True, 0, 0).device_type == 13


def test_mapped_memory_of_numba_is_taken_by_its_device_address_although_it_is_a_host_array_too(monkeypatch):
    class Mapped(Exported):
        __cuda_memory__ = True
        __cuda_array_interface__ = {"data": (0, False)}  # noqa: RUF012

    monkeypatch.setattr(cuda, "as_cuda_array", lambda value, sync: ("by its interface", value, sync))
    array = Mapped(np.zeros(3, np.float32), FLOAT32_CODE, device=(1, 0))
    assert as_device_array(array, "f: x", True, 0, 0) == ("by its interface", array, False)
