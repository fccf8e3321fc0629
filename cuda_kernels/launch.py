"""What launchers do before a launch: check shapes, divide work into blocks, make views, stand in for absent arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.cudadrv import devicearray

FLOAT32 = np.dtype(np.float32)


def ceil_div(count: int, size: int) -> int:
    """The number of blocks of `size` that cover `count` items."""
    return -(-count // size)


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


def check_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raises ValueError unless `array` (None passes: an optional argument left out) has this shape."""
    if array is not None and tuple(array.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, expected {shape}")


def check_float32(name: str, array: Any) -> None:
    """Raises TypeError unless `array` is float32, as buffers that gradients are added into must be."""
    if array.dtype != FLOAT32:
        raise TypeError(f"{name} has dtype {array.dtype}, expected float32: gradients are accumulated in float32")


def check_multiple(name: str, value: int, factor_name: str, factor: int) -> None:
    """Raises ValueError unless `value` is a positive multiple of `factor`."""
    if value <= 0 or factor <= 0 or value % factor:
        raise ValueError(f"{name}={value} must be a positive multiple of {factor_name}={factor}")


def check_block(block: int) -> None:
    """Raises ValueError unless `block` threads are whole warps and at most 1,024."""
    if block <= 0 or block % 32 or block > 1024:
        raise ValueError(f"block={block} must be a multiple of 32, at most 1024")
