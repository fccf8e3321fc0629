"""Views of device arrays: transposes without a copy, and arrays that stand in for absent ones."""

from __future__ import annotations

from typing import Any

from numba import cuda
from numba.cuda.cudadrv import devicearray


def transposed(array: Any) -> Any:
    """A view of a two-dimensional device array with its axes exchanged; no element is copied.

    Numba's own `.T` of a device array launches a copying kernel, hence the view is built from the strides here.
    """
    numba_array: Any = getattr(devicearray, "DeviceNDArray", None)
    if numba_array is None or not isinstance(array, numba_array):
        return array.T  # Numba's simulator, where it is a view
    shape, strides = array.shape[::-1], array.strides[::-1]
    return type(array)(shape, strides, array.dtype, stream=array.stream, gpu_data=array.gpu_data)


def present_or_empty(array: Any | None, dtype: Any) -> Any:
    """`array` itself, or an array of no elements where there is none, so that a kernel keeps one signature."""
    return cuda.device_array(0, dtype) if array is None else array
