"""Arrays of Numba and of other libraries as Numba device arrays; no element is copied."""

from __future__ import annotations

from typing import Any

from numba import cuda
from numba.cuda.cudadrv import devicearray


def as_device_array(value: Any, launcher: str, name: str, written: bool, stream: Any) -> Any:
    """`value` as a Numba device array over the same memory; TypeError where it is no array of the device."""
    numba_array: Any = getattr(devicearray, "DeviceNDArray", None)
    if numba_array is None or isinstance(value, numba_array):
        return value
    if getattr(value, "__cuda_array_interface__", None) is not None:
        return cuda.as_cuda_array(value)
    raise TypeError(
        f"{launcher}: {name} is {type(value).__name__}, expected a device array: of Numba, or anything with "
        "__cuda_array_interface__ or __dlpack__"
    )
