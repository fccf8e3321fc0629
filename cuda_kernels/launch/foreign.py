"""Arrays of Numba and of other libraries as Numba device arrays; no element is copied and nobody waits.

An array's library is told the stream of the launch, or an event orders the two streams, so that a kernel sees what
was written before. DLPack goes first: `__cuda_array_interface__` has no name for bfloat16 and float8.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.core import config
from numba.cuda.cudadrv import devicearray, devices, driver

from . import dlpack

ON_THE_CPU = -1
"""The device where kernels run on the CPU: its device arrays wrap host memory."""


def current_device() -> int:
    """The number of the GPU that launches go to, or `ON_THE_CPU`."""
    if _array_class() is None or _wraps_host_memory():
        return ON_THE_CPU
    return int(devices.get_context().device.id)


def _array_class() -> Any:
    return getattr(devicearray, "DeviceNDArray", None)  # Numba's simulator has none


def _wraps_host_memory() -> bool:
    """Whether an executor on the CPU has put its own class in the place of Numba's, which cannot `wrap` host memory."""
    return hasattr(_array_class(), "wrap")


def as_device_array(value: Any, where: str, written: bool, stream: Any, device: int) -> Any:
    """`value` as a Numba device array over the same memory.

    where: launcher and argument, for errors. written: whether a kernel writes into it. device: `current_device()`.
    Raises TypeError where `value` is no array of a device, ValueError where it lies on another device, or is read-only
    and `written`.
    """
    array_class = _array_class()
    if array_class is None:
        return value
    if isinstance(value, array_class):
        if device != ON_THE_CPU and value.size:
            _check_device(value.gpu_data.context.device.id, where, device)
        return value
    if hasattr(value, "__dlpack_device__") and not getattr(value, "__cuda_memory__", False):
        return _from_dlpack(value, where, written, stream, device)
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except Exception as error:  # torch raises here for what it cannot describe
        raise TypeError(f"{where} gives no __cuda_array_interface__: {error}") from error
    if interface is None:
        raise TypeError(
            f"{where} is {_described(value)}, expected a device array: one of Numba, or any with "
            "__dlpack__ or __cuda_array_interface__ (torch, CuPy, JAX)"
        )
    return _from_interface(value, interface, where, written, stream, device)


def _described(value: Any) -> str:
    return f"{value!r}" if isinstance(value, (int, float, str)) else f"an object of type {type(value).__name__}"


def _check_device(number: int, where: str, device: int) -> None:
    if number != device:
        raise ValueError(f"{where} lies on GPU {number}, expected GPU {device}, the current device")


def _check_writable(read_only: bool, where: str, written: bool) -> None:
    if read_only and written:
        raise ValueError(f"{where} is read-only, expected memory that a kernel may write")


# ---------------------------------------------------------------------------------------------------------- DLPack


def _from_dlpack(value: Any, where: str, written: bool, stream: Any, device: int) -> Any:
    kind, number = value.__dlpack_device__()
    emulated = device == ON_THE_CPU
    if emulated and kind != dlpack.CPU:
        raise ValueError(f"{where} lies {dlpack.place(kind, number)}, expected CPU memory: kernels run on the CPU")
    if not emulated and kind not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        raise ValueError(f"{where} lies {dlpack.place(kind, number)}, expected memory of GPU {device}")
    if kind == dlpack.CUDA:
        _check_device(number, where, device)
    try:
        tensor = dlpack.export(value, None if emulated else _dlpack_stream(stream))
    except Exception as error:  # each library has exceptions of its own for what it does not export
        raise TypeError(f"{where} is not exported through DLPack: {error}") from error
    _check_writable(tensor.read_only, where, written)
    return _host_array(tensor) if emulated else _gpu_array(tensor)


def _dlpack_stream(stream: Any) -> int:
    """DLPack's number of a stream, in which 0 is ambiguous and not allowed."""
    handle = int(stream.handle) if stream else 0
    return handle or (2 if config.CUDA_PER_THREAD_DEFAULT_STREAM else 1)


def _gpu_array(tensor: dlpack.Tensor) -> Any:
    size = driver.memory_size_from_info(tensor.shape, tensor.strides, tensor.dtype.itemsize)
    pointer = driver.binding.CUdeviceptr(tensor.address)
    memory = driver.MemoryPointer(devices.get_context(), pointer, size=size, owner=tensor.owner)
    return devicearray.DeviceNDArray(tensor.shape, tensor.strides, tensor.dtype, gpu_data=memory)


def _host_array(tensor: dlpack.Tensor) -> Any:
    """The tensor as an array of the executor; NumPy's array holds the tensor's owner."""
    if 0 in tensor.shape:
        return cuda.device_array(tensor.shape, tensor.dtype)
    interface = {
        "data": (tensor.address, tensor.read_only),
        "shape": tensor.shape,
        "strides": tensor.strides,
        "typestr": f"|V{tensor.dtype.itemsize}",
        "version": 3,
    }
    host = np.asarray(SimpleNamespace(__array_interface__=interface, owner=tensor.owner))
    return _array_class().wrap(host.view(tensor.dtype))


# ------------------------------------------------------------------------------------------- CUDA array interface


def _from_interface(value: Any, interface: Any, where: str, written: bool, stream: Any, device: int) -> Any:
    """`value` by its `__cuda_array_interface__`, after what its own stream still has to do."""
    address, read_only = interface["data"]
    _check_writable(bool(read_only), where, written)
    if device != ON_THE_CPU and address:
        _check_device(_device_of(address, where, device), where, device)
    try:
        array = cuda.as_cuda_array(value, sync=False)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(f"{where} cannot be taken through __cuda_array_interface__: {error}") from error
    _order(interface.get("stream"), stream)
    return array


def _device_of(address: int, where: str, device: int) -> int:
    """The GPU whose memory an address lies in."""
    attribute = driver.binding.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    try:
        number = int(driver.driver.cuPointerGetAttribute(attribute, driver.binding.CUdeviceptr(address)))
    except driver.CudaAPIError:  # an address that the driver does not know
        number = -1
    if number < 0:
        raise ValueError(f"{where} lies at {address:#x}, in no GPU's memory; expected memory of GPU {device}")
    return number


def _order(producer: int | None, stream: Any) -> None:
    """Makes later work on `stream` wait for what is on the producer's stream now; the host does not wait."""
    if producer is None or producer == _dlpack_stream(stream):
        return
    event = cuda.event(timing=False)
    event.record(cuda.external_stream(producer))
    event.wait(stream)
