"""The driver, runtime and device list that Numba's host API meets under emulation.

Numba keeps one driver, one runtime and one device list, and every module that imported them by name holds the same
three objects. Emulation gives these objects another class for its duration, so that all of those references are
reached, also functions that a program imported before: `from numba.cuda import to_device` comes down to the classes
below.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from numba.cuda.cudadrv import devices as numba_devices
from numba.cuda.cudadrv import driver as numba_driver

from . import memory, tensor_maps
from .device import ATTRIBUTES, DEVICE, Context, Device
from .faults import Unsupported
from .streams import elapsed_milliseconds

DRIVER_VERSION = 13_000

# What Numba calls when the last reference to something on a real GPU goes, also if that happens under emulation.
_RELEASES = frozenset(
    {"cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuEventDestroy", "cuStreamDestroy", "cuLibraryUnload"}
)


class EmulatedDriver(numba_driver.Driver):
    """Numba's driver object with the driver calls that its host API makes, over host memory."""

    is_available = True
    initialization_error = property(lambda self: None, lambda self, value: None)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(
            "cu"
        ):  # the real driver caches its bound calls in the instance, which would win over this class
            function = EmulatedDriver.__dict__.get(name)
            if function is None and name in _RELEASES:
                return vars(self).get(name) or numba_driver.Driver._cuda_python_wrap_fn(self, name)
            if function is None:
                raise Unsupported(f"driver call {name} is not emulated on the CPU executor")
            return function.__get__(self)
        return object.__getattribute__(self, name)

    def ensure_initialized(self) -> None:
        """Nothing to initialise."""

    def get_device(self, devnum: int = 0) -> Device:
        """The device; IndexError for another number than 0."""
        return [DEVICE][devnum]

    def get_device_count(self) -> int:
        """One device."""
        return 1

    def list_devices(self) -> list[Device]:
        """One device."""
        return [DEVICE]

    def reset(self) -> None:
        """Wait for pending callbacks."""
        DEVICE.reset()

    def pop_active_context(self) -> None:
        """There is no stack of contexts."""

    def get_active_context(self) -> Any:
        """The one context, as Numba's cached handle of it."""
        return contextlib.nullcontext(_Active())

    def get_version(self) -> tuple[int, int]:
        """Version of the driver that is stood in for."""
        return DRIVER_VERSION // 1000, DRIVER_VERSION % 1000 // 10

    def cuDriverGetVersion(self) -> int:
        return DRIVER_VERSION

    def cuMemcpyHtoD(self, target: Any, source: Any, nbytes: int, stream: Any = 0) -> None:
        _check_device_memory(int(target), nbytes)
        ctypes.memmove(int(target), int(source), nbytes)
        memory.mark_bytes(int(target), nbytes)

    def cuMemcpyDtoH(self, target: Any, source: Any, nbytes: int, stream: Any = 0) -> None:
        _check_device_memory(int(source), nbytes)
        ctypes.memmove(int(target), int(source), nbytes)
        memory.mark_bytes(int(target), nbytes)

    def cuMemcpyDtoD(self, target: Any, source: Any, nbytes: int, stream: Any = 0) -> None:
        _check_device_memory(int(source), nbytes)
        _check_device_memory(int(target), nbytes)
        ctypes.memmove(int(target), int(source), nbytes)
        memory.mark_bytes(int(target), nbytes)

    cuMemcpyHtoDAsync = cuMemcpyHtoD
    cuMemcpyDtoHAsync = cuMemcpyDtoH
    cuMemcpyDtoDAsync = cuMemcpyDtoD

    def cuMemsetD8(self, target: Any, value: int, nbytes: int, stream: Any = 0) -> None:
        _check_device_memory(int(target), nbytes)
        ctypes.memset(int(target), value, nbytes)
        memory.mark_bytes(int(target), nbytes)

    cuMemsetD8Async = cuMemsetD8

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[int, int]:
        block = memory.find(int(pointer))
        if block is None:
            code = numba_driver.binding.CUresult.CUDA_ERROR_NOT_FOUND
            raise numba_driver.CudaAPIError(code, f"no device memory at {int(pointer):#x}")
        return block.ctypes.data, block.nbytes

    def cuMemHostGetDevicePointer(self, pointer: Any, flags: int) -> Any:
        return numba_driver.binding.CUdeviceptr(int(pointer))

    def cuCtxGetCurrent(self) -> int:
        return DEVICE.primary_context.handle

    def cuCtxGetDevice(self) -> int:
        return DEVICE.id

    def cuCtxSynchronize(self) -> None:
        DEVICE.primary_context.synchronize()

    def cuStreamSynchronize(self, handle: Any) -> None:
        stream = DEVICE.primary_context.stream(int(handle))
        if stream is not None:
            stream.drain()

    def cuEventElapsedTime(self, start: int, end: int) -> float:
        return elapsed_milliseconds(DEVICE.primary_context.event(start), DEVICE.primary_context.event(end))

    def cuKernelSetAttribute(self, attribute: Any, value: int, kernel: Any, device: int) -> None:
        """The most dynamic shared memory of a launch is kept; a preferred carve-out changes nothing here."""
        attributes = numba_driver.binding.CUfunction_attribute
        if attribute == attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            most = ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]
            if not 0 <= value <= most:
                code = numba_driver.binding.CUresult.CUDA_ERROR_INVALID_VALUE
                raise numba_driver.CudaAPIError(code, f"{value} bytes of dynamic shared memory; a block has {most}")
            kernel.dynamic_shared_limit = value
        elif attribute != attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            raise Unsupported(f"function attribute {attribute} is not emulated on the CPU executor")

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tensor_maps.TensorMap:
        """A map for the emulated `cp.async.bulk.tensor`: what the last two arguments ask for changes no value here."""
        try:
            return tensor_maps.encode_tiled(*arguments[:9])
        except ValueError as refused:
            code = numba_driver.binding.CUresult.CUDA_ERROR_INVALID_VALUE
            raise numba_driver.CudaAPIError(code, f"Call to cuTensorMapEncodeTiled: {refused}") from None

    def cuProfilerStart(self) -> None:
        """Nothing to profile."""

    def cuProfilerStop(self) -> None:
        """Nothing to profile."""


class _Active:
    devnum = DEVICE.id
    context_handle = DEVICE.primary_context.handle


class EmulatedRuntime(numba_devices._Runtime):
    """Numba's context management with one context that is always current."""

    @contextlib.contextmanager
    def ensure_context(self) -> Iterator[None]:
        """The context is always there."""
        yield

    def get_or_create_context(self, devnum: int | None) -> Context:
        """The context of device 0; IndexError for another number."""
        return self.gpus[devnum or 0].get_primary_context()

    def reset(self) -> None:
        """Wait for pending callbacks; arrays keep their memory."""
        DEVICE.reset()


class EmulatedDeviceList(numba_devices._DeviceList):
    """Numba's list of devices, with one device."""

    @property
    def lst(self) -> list[Any]:
        """The devices, each a context manager as in `with cuda.gpus[0]:`."""
        return [_MANAGER]

    @property
    def current(self) -> Any:
        """The active device."""
        return _MANAGER


_MANAGER = numba_devices._DeviceContextManager(DEVICE)


def _check_device_memory(address: int, nbytes: int) -> None:
    block = memory.find(address)
    if nbytes and (block is None or address + nbytes > block.ctypes.data + block.nbytes):
        code = numba_driver.binding.CUresult.CUDA_ERROR_INVALID_VALUE
        raise numba_driver.CudaAPIError(code, f"{nbytes} bytes at {address:#x} are not one piece of device memory")
