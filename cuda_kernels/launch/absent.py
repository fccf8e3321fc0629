"""Arrays that stand in for absent ones, so that a kernel keeps one signature: made once, not at every launch."""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda
from numba.cuda.cudadrv import devicearray


def empty_array(ndim: int, dtype: Any) -> Any:
    """A device array of `ndim` axes and no elements, the same one at every call.

    It holds no memory, so that it belongs to no device or context in particular and outlives them all.
    """
    return _empty_array(getattr(devicearray, "DeviceNDArray", None), ndim, dtype)


@functools.cache
def _empty_array(array_class: Any, ndim: int, dtype: Any) -> Any:
    """`array_class` is Numba's at this moment: an executor on the CPU puts its own in its place."""
    return cuda.device_array((0,) * ndim, dtype)


def present_or_empty(array: Any | None, dtype: Any) -> Any:
    """`array` itself, or one of one axis and no elements where there is none."""
    return empty_array(1, dtype) if array is None else array
