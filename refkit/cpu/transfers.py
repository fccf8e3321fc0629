"""Host and foreign objects as device arrays: what `cuda.to_device` and `cuda.as_cuda_array` come down to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cuda.api_util import prepare_shape_strides_dtype
from numba.cuda.cudadrv import driver as numba_driver

from . import memory
from .device_array import DeviceArray, DeviceRecord


def auto_device(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[Any, bool]:
    """`(device array or record, whether it is new)` for a host or device object; new ones hold a compact copy.

    `copy=False` leaves the elements of a new one uninitialised, as in Numba.
    """
    if getattr(obj, "__cuda_memory__", False):
        return obj, False
    if getattr(obj, "__cuda_array_interface__", None) is not None:
        return from_interface(obj), False
    if isinstance(obj, np.void):
        record = DeviceRecord(obj.dtype, stream)
        if copy:
            record.host[...] = obj
        return record, True
    array = np.asanyarray(obj)
    return (DeviceArray.copy_of if copy else DeviceArray.compact_like)(array, stream), True


def from_interface(obj: Any) -> DeviceArray:
    """A device array over the memory that `obj.__cuda_array_interface__` describes, which must be the executor's."""
    interface = obj.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    shape, strides, dtype = prepare_shape_strides_dtype(
        interface["shape"], interface.get("strides"), interface["typestr"], order="C"
    )
    pointer = numba_driver.binding.CUdeviceptr(interface["data"][0])
    _, after = memory.extent(shape, strides, dtype.itemsize)
    return DeviceArray(shape, strides, dtype, gpu_data=numba_driver.MemoryPointer(None, pointer, after, owner=obj))
