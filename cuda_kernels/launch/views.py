"""Views of device arrays: other strides, transposes and parts of an axis, without a copy."""

from __future__ import annotations

from typing import Any

from numba.cuda.cudadrv import devicearray


def strided_view(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A view that starts where `array` does, with another shape and other strides (bytes)."""
    return type(array)(shape, strides, array.dtype, stream=array.stream, gpu_data=array.gpu_data)


def transposed(array: Any) -> Any:
    """A view of a two-dimensional device array with its axes exchanged; no element is copied.

    Numba's own `.T` of a device array launches a copying kernel, hence the view is built from the strides here.
    """
    numba_array: Any = getattr(devicearray, "DeviceNDArray", None)
    if numba_array is None or not isinstance(array, numba_array):
        return array.T  # Numba's simulator, where it is a view
    return strided_view(array, array.shape[::-1], array.strides[::-1])


def part_of(array: Any, axis: int, first: int, count: int) -> Any:
    """The view of `count` elements of `array` from `first` on along `axis`, the other axes whole.

    Numba's own slice of a device array leaves one element of every axis of stride 0 (a broadcast one), hence only the
    place where the view starts is taken from it. Raises ValueError where the part does not lie inside the axis.
    """
    length = array.shape[axis]
    if not 0 <= first <= first + count <= length:
        raise ValueError(f"elements {first} to {first + count} do not lie inside axis {axis} of length {length}")
    shape = tuple(count if i == axis else n for i, n in enumerate(array.shape))
    if 0 in shape:
        return strided_view(array, shape, array.strides)
    start = array[(*(slice(None),) * axis, slice(first, first + count))]
    return strided_view(start, shape, array.strides)
