"""Device arrays of the CPU executor: the interface of Numba's device arrays over host memory.

`DeviceArray` does what `numba.cuda.cudadrv.devicearray.DeviceNDArray` does, errors included, so that a launcher that
works here works on a GPU: indexing takes integers and slices, `T` is a copy, `reshape` never copies. The memory is host
memory; `host` is the NumPy view of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.api_util import prepare_shape_strides_dtype
from numba.cuda.cudadrv import devicearray
from numba.cuda.np import numpy_support

from . import memory
from .host_backed import HostBacked, finish, memory_for


class DeviceArray(HostBacked, devicearray.DeviceNDArray):
    """An array in the device memory of the CPU executor."""

    def __init__(self, shape: Any, strides: Any, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        """An array of `shape` and `strides` (bytes), over new uninitialised memory or over `gpu_data`.

        Raises TypeError or ValueError for a shape or strides that are not integers, do not match, or leave `gpu_data`.
        """
        shape, strides, dtype = _integers(shape, "shape"), _integers(strides, "strides"), np.dtype(dtype)
        if len(strides) != len(shape):
            raise ValueError(f"strides not match ndim: {len(strides)} strides for {len(shape)} dimensions")
        if any(length < 0 for length in shape):
            raise ValueError(f"negative dimensions are not allowed: shape {shape}")
        block, offset = memory_for(shape, strides, dtype, gpu_data)
        self._set(
            np.ndarray(shape, dtype, block, offset, strides) if 0 not in shape else np.empty(shape, dtype),
            block,
            stream,
        )

    @classmethod
    def wrap(cls, array: np.ndarray, stream: Any = 0) -> DeviceArray:
        """A device array that shares the memory of host array `array` (any strides)."""
        return cls._over(array, memory.adopt(array), stream)

    @classmethod
    def copy_of(cls, array: np.ndarray, stream: Any = 0) -> DeviceArray:
        """A device array with new memory and the elements of `array`, in F order if `array` is so, else in C order."""
        new = cls.compact_like(array, stream)
        memory.store(new.host, array)
        return new

    @classmethod
    def compact_like(cls, array: np.ndarray, stream: Any = 0) -> DeviceArray:
        """An uninitialised device array of the shape, dtype and order of `array`; C order where it has none."""
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        shape, strides, dtype = prepare_shape_strides_dtype(array.shape, None, array.dtype, order)
        return cls(shape, strides, dtype, stream)

    @classmethod
    def _over(cls, host: np.ndarray, block: np.ndarray, stream: Any) -> DeviceArray:
        new = cls.__new__(cls)
        new._set(host.view(np.ndarray), block, stream)
        return new

    def _set(self, host: np.ndarray, block: np.ndarray, stream: Any) -> None:
        self.host, self._block, self.stream = host, block, stream
        self.shape, self.strides, self.dtype = host.shape, host.strides, host.dtype
        self.ndim, self.size = host.ndim, host.size

    def _view(self, host: np.ndarray, stream: Any = 0) -> DeviceArray:
        return type(self)._over(host, self._block, self._default_stream(stream))

    @property
    def _numba_type_(self) -> types.Array:
        return _array_type(self.dtype, self.dtype.isalignedstruct, self.ndim, self._layout)

    @property
    def _layout(self) -> str:
        return "C" if self.is_c_contiguous() else "F" if self.is_f_contiguous() else "A"

    @property
    def flags(self) -> dict[str, bool]:
        """Contiguity as Numba's device arrays give it: an array with a stride of 0 is neither C nor F."""
        if self.size and self.ndim and 0 in self.strides:
            return {"C_CONTIGUOUS": False, "F_CONTIGUOUS": False}
        return {name: bool(self.host.flags[name]) for name in ("C_CONTIGUOUS", "F_CONTIGUOUS")}

    def is_c_contiguous(self) -> bool:
        """Whether rows follow each other without gaps."""
        return self.flags["C_CONTIGUOUS"]

    def is_f_contiguous(self) -> bool:
        """Whether columns follow each other without gaps."""
        return self.flags["F_CONTIGUOUS"]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a device array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        strides = "" if self.is_c_contiguous() else f", strides={self.strides}"
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}{strides})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("`copy=False` is not supported. A copy is always created.")
        host = self.copy_to_host()
        return host.astype(dtype) if dtype else host

    @property
    def T(self) -> DeviceArray:
        """The transpose of a matrix, as a copy (as on a GPU)."""
        return self.transpose()

    def transpose(self, axes: Any = None) -> DeviceArray:
        """A transposed C-order copy of a matrix; `self` for the identity, NotImplementedError for other dimensions."""
        if axes and tuple(axes) == tuple(range(self.ndim)):
            return self
        if self.ndim != 2:
            raise NotImplementedError(
                f"transposing a non-2D DeviceNDArray isn't supported: it has {self.ndim} dimensions"
            )
        if axes is not None and set(axes) != {0, 1}:
            raise ValueError(f"invalid axes list {axes!r}")
        return type(self).copy_of(np.ascontiguousarray(self.host.T), self.stream)

    def reshape(self, *newshape: Any, order: str = "C") -> DeviceArray:
        """The same memory in another shape (one dimension may be −1); NotImplementedError if that takes a copy."""
        if len(newshape) == 1 and isinstance(newshape[0], (tuple, list)):
            newshape = tuple(newshape[0])
        return self._without_copy(self.host.reshape(newshape, order=order))  # type: ignore[call-overload]

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceArray:
        """The same memory with one dimension; NotImplementedError if the array is not contiguous."""
        if not (self.is_c_contiguous() if order == "C" else self.is_f_contiguous() or self.is_c_contiguous()):
            raise NotImplementedError("operation requires copying")
        return self._without_copy(self.host.reshape(-1, order=order), stream)  # type: ignore[call-overload]

    def _without_copy(self, host: np.ndarray, stream: Any = 0) -> DeviceArray:
        if self.size and host.ctypes.data != self.host.ctypes.data:
            raise NotImplementedError("operation requires copying")
        return self._view(host, stream)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceArray:
        """The same memory without dimensions of length one, or without those in `axis` (ValueError if longer)."""
        return self._view(self.host.squeeze(axis=axis), stream)

    def view(self, dtype: Any) -> DeviceArray:
        """The same memory read as `dtype`; a dtype of another size takes a C-contiguous array."""
        dtype = np.dtype(dtype)
        if dtype.itemsize != self.dtype.itemsize and not self.is_c_contiguous():
            raise ValueError("To change to a dtype of a different size, the array must be C-contiguous")
        return self._view(self.host.view(dtype))

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceArray]:
        """Consecutive pieces of `section` elements (the last may be shorter) of a contiguous vector."""
        if self.ndim != 1:
            raise ValueError("only support 1d array")
        if self.strides[0] != self.dtype.itemsize:
            raise ValueError("only support unit stride")
        for piece in range(math.ceil(self.size / section)):
            yield self._view(self.host[piece * section : (piece + 1) * section], stream)

    def __getitem__(self, item: Any) -> Any:
        finish(self.stream)
        found = self.host[_index(item, self)]
        if isinstance(found, np.ndarray) and found.ndim:
            return self._view(found)
        if self.dtype.names is not None:
            return DeviceRecord.over(self.host[(*_index(item, self), ...)], self._block, self.stream)
        return found[()] if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        finish(self.stream)
        _assign(self.host[(*_index(key, self), ...)], value)


class DeviceRecord(HostBacked, devicearray.DeviceRecord):
    """One structured element in the device memory of the CPU executor."""

    def __init__(self, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        dtype = np.dtype(dtype)
        block, offset = memory_for((), (), dtype, gpu_data)
        self._set(np.ndarray((), dtype, block, offset), block, stream)

    @classmethod
    def over(cls, host: np.ndarray, block: np.ndarray, stream: Any = 0) -> DeviceRecord:
        """A record that shares the memory of `host`, an array without dimensions inside `block`."""
        new = cls.__new__(cls)
        new._set(host, block, stream)
        return new

    def _set(self, host: np.ndarray, block: np.ndarray, stream: Any) -> None:
        self.host, self._block, self.stream = host, block, stream
        self.shape, self.strides, self.dtype, self.ndim, self.size = (), (), host.dtype, 0, 1

    @property
    def _numba_type_(self) -> types.Record:
        return numpy_support.from_dtype(self.dtype)

    @property
    def flags(self) -> dict[str, bool]:
        """A record is contiguous both ways."""
        return {"C_CONTIGUOUS": True, "F_CONTIGUOUS": True}

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceRecord:
        """The record itself: it has no dimensions."""
        return self

    def __repr__(self) -> str:
        return f"DeviceRecord({self.dtype})"

    def __getitem__(self, item: str) -> Any:
        finish(self.stream)
        field = self.host[item]
        if field.ndim:
            return DeviceArray._over(field, self._block, self.stream)
        return DeviceRecord.over(field, self._block, self.stream) if field.dtype.names is not None else field[()]

    def __setitem__(self, key: str, value: Any) -> None:
        finish(self.stream)
        self.host[key] = value.host if isinstance(value, HostBacked) else value
        memory.mark_host_write(self.host)


@functools.lru_cache(maxsize=1024)
def _array_type(dtype: np.dtype, aligned: bool, ndim: int, layout: str) -> types.Array:
    """Numba's type; NumPy holds record types for equal that differ only in `aligned`, and Numba does not."""
    return types.Array(numpy_support.from_dtype(dtype), ndim, layout)


def _integers(values: Any, name: str) -> tuple[int, ...]:
    if isinstance(values, (int, np.integer)):
        return (int(values),)
    for value in values:
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} elements must be integers, got {type(value).__name__}")
    return tuple(map(int, values))


def _index(item: Any, array: DeviceArray) -> tuple[Any, ...]:
    """`item` as a tuple of what Numba's device arrays can be indexed with, integers and slices, one for each axis."""
    items = item if isinstance(item, tuple) else (item,)
    for part in items:
        if isinstance(part, bool) or not isinstance(part, (int, np.integer, slice)):
            raise TypeError(f"device arrays are indexed with integers and slices, not with {part!r}")
    if len(items) > array.ndim:
        raise IndexError(f"{len(items) - array.ndim} extra indices given for a device array of {array.ndim} dimensions")
    if not array.size:
        return items
    whole = (*items, *(slice(None),) * (array.ndim - len(items)))
    # Numba counts the elements of a slice by its stride and takes a stride of 0 for one element (dummyarray.Dim), also
    # on the axes that the index leaves out: a broadcast axis comes out of any indexing with length 1.
    return tuple(
        slice(0, 1) if stride == 0 and isinstance(part, slice) else part for part, stride in zip(whole, array.strides)
    )


def _assign(target: np.ndarray, value: Any) -> None:
    source = value.host if isinstance(value, HostBacked) else np.asarray(value)
    if source.ndim > target.ndim:
        raise ValueError(f"Can't assign {source.ndim}-D array to {target.ndim}-D self")
    np.copyto(target, source, casting="unsafe")
    memory.mark_host_write(target)
