"""Views of device arrays: transposes without a copy."""

from __future__ import annotations

from typing import Any

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
