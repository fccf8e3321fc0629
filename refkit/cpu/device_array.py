"""Device arrays of the CPU executor: the interface of Numba's device arrays over host memory.

`DeviceArray` does what `numba.cuda.cudadrv.devicearray.DeviceNDArray` does, errors included, so that a launcher that
works here works on a GPU: indexing takes integers and slices, `T` is a copy, `reshape` never copies. The memory is host
memory; `host` is the NumPy view of it.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.cudadrv import devicearray
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.np import numpy_support

from . import memory


class HostBacked:
    """What device arrays and device records share: elements in host memory, copies, pointers, the bound stream."""

    host: np.ndarray
    stream: Any
    dtype: np.dtype
    _block: np.ndarray

    @property
    def device_ctypes_pointer(self) -> ctypes.c_size_t:
        """Address of element (0, 0, ...); 0 if the array is empty."""
        return ctypes.c_size_t(self.host.ctypes.data if self.host.size else 0)

    @property
    def gpu_data(self) -> Any:
        """The memory as Numba's `MemoryPointer`, from element (0, 0, ...) to the end of the array."""
        _, after = memory.extent(self.host.shape, self.host.strides, self.host.itemsize)
        pointer = numba_driver.binding.CUdeviceptr(self.device_ctypes_pointer.value)
        return numba_driver.MemoryPointer(None, pointer, after, owner=self._block)

    @property
    def alloc_size(self) -> int:
        """Bytes from the lowest to the highest element."""
        return sum(memory.extent(self.host.shape, self.host.strides, self.host.itemsize))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without holes."""
        return self.host.size * self.host.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.host.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        contiguous = devicearray.is_contiguous(self.host)
        return {
            "shape": self.host.shape,
            "strides": None if contiguous and 0 not in self.host.strides else self.host.strides,
            "data": (self.device_ctypes_pointer.value, False),
            "typestr": self.dtype.str,
            "stream": int(self.stream) if self.stream else None,
            "version": 3,
        }

    @property
    def _strided_memory_view_shim(self) -> Any:
        raise TypeError(f"{self!r} was made under refkit.cpu.emulate() and lives in host memory; a GPU cannot read it")

    def as_cuda_arg(self) -> Any:
        """The memory, as a kernel argument."""
        return self.gpu_data

    def get_ipc_handle(self) -> Any:
        """Not emulated; raises NotImplementedError."""
        raise NotImplementedError("inter-process handles are not emulated on the CPU executor")

    def bind(self, stream: Any = 0) -> Any:
        """The same memory with `stream` as its default stream."""
        clone = copy.copy(self)
        clone.stream = stream
        return clone

    def _default_stream(self, stream: Any) -> Any:
        return stream or self.stream

    def copy_to_host(self, ary: np.ndarray | None = None, stream: Any = 0) -> np.ndarray:
        """Copy the elements to `ary`, or to a new array of the same memory order; returns the host array.

        Raises TypeError or ValueError if `ary` differs in dtype, shape or strides, and NotImplementedError for negative
        strides.
        """
        _finish(self._default_stream(stream))
        if any(stride < 0 for stride in self.host.strides):
            raise NotImplementedError(f"D->H copy not implemented for negative strides: {self.host.strides}")
        if ary is None:
            return np.array(self.host, order="K", copy=True)
        devicearray.check_array_compatibility(self, ary)
        if ary.size:
            ary[...] = self.host.reshape(ary.shape)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copy host or device array `ary` here; `self` is contiguous, dtype and shape (without ones) agree."""
        if ary.size == 0:
            return
        _finish(self._default_stream(stream))
        devicearray.sentry_contiguous(self)
        source = ary.host if isinstance(ary, HostBacked) else np.asarray(ary)
        if source.dtype != self.dtype:
            raise TypeError(f"incompatible dtype: {self.dtype} vs. {source.dtype}")
        if source.squeeze().shape != self.host.squeeze().shape:
            raise ValueError(f"incompatible shape: {self.host.shape} vs. {source.shape}")
        if isinstance(ary, HostBacked):
            devicearray.sentry_contiguous(ary)
            devicearray.check_array_compatibility(self, ary)
        self.host[...] = source.reshape(self.host.shape)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """`self[item]`, on a stream."""
        _finish(self._default_stream(stream))
        return self[item]  # type: ignore[index]

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """`self[key] = value`, on a stream."""
        _finish(self._default_stream(stream))
        self[key] = value  # type: ignore[index]


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
        block, offset = _memory_for(shape, strides, dtype, gpu_data)
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
        order = order_of(array)
        block = memory.allocate(array.nbytes)
        host = np.ndarray(array.shape, array.dtype, block if array.nbytes else None, order=order)
        host[...] = array
        return cls._over(host, block, stream)

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

    nbytes = HostBacked.nbytes  # the base class caches it, and its `_numba_type_`, in the instance
    _strided_memory_view_shim = HostBacked._strided_memory_view_shim

    @property
    def _numba_type_(self) -> types.Array:
        return _array_type(self.dtype, self.ndim, self._layout)

    @property
    def _layout(self) -> str:
        if self.size and 0 in self.strides:
            return "A"  # the strides that a C or F type implies would be wrong for a broadcast array
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
        _finish(self.stream)
        found = self.host[_index(item, self.ndim)]
        if isinstance(found, np.ndarray) and found.ndim:
            return self._view(found)
        if self.dtype.names is not None:
            return DeviceRecord.over(self.host[(*_index(item, self.ndim), ...)], self._block, self.stream)
        return found[()] if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        _finish(self.stream)
        _assign(self.host[(*_index(key, self.ndim), ...)], value)


class DeviceRecord(HostBacked, devicearray.DeviceRecord):
    """One structured element in the device memory of the CPU executor."""

    def __init__(self, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        dtype = np.dtype(dtype)
        block, offset = _memory_for((), (), dtype, gpu_data)
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

    nbytes = HostBacked.nbytes
    _strided_memory_view_shim = HostBacked._strided_memory_view_shim

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
        _finish(self.stream)
        field = self.host[item]
        if field.ndim:
            return DeviceArray._over(field, self._block, self.stream)
        return DeviceRecord.over(field, self._block, self.stream) if field.dtype.names is not None else field[()]

    def __setitem__(self, key: str, value: Any) -> None:
        _finish(self.stream)
        self.host[key] = value.host if isinstance(value, HostBacked) else value


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
    if copy:
        return DeviceArray.copy_of(array, stream), True
    return DeviceArray(
        array.shape, np.empty_like(array, order=order_of(array), subok=False).strides, array.dtype, stream
    ), True


def from_interface(obj: Any) -> DeviceArray:
    """A device array over the memory that `obj.__cuda_array_interface__` describes, which must be the executor's."""
    from numba.cuda.api_util import prepare_shape_strides_dtype

    interface = obj.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    shape, strides, dtype = prepare_shape_strides_dtype(
        interface["shape"], interface.get("strides"), interface["typestr"], order="C"
    )
    pointer = numba_driver.binding.CUdeviceptr(interface["data"][0])
    _, after = memory.extent(shape, strides, dtype.itemsize)
    return DeviceArray(shape, strides, dtype, gpu_data=numba_driver.MemoryPointer(None, pointer, after, owner=obj))


def order_of(array: np.ndarray) -> str:
    """`"F"` for an array that is F-contiguous only, else `"C"`."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


@functools.lru_cache(maxsize=1024)
def _array_type(dtype: np.dtype, ndim: int, layout: str) -> types.Array:
    return types.Array(numpy_support.from_dtype(dtype), ndim, layout)


def _integers(values: Any, name: str) -> tuple[int, ...]:
    if isinstance(values, (int, np.integer)):
        return (int(values),)
    for value in values:
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} elements must be integers, got {type(value).__name__}")
    return tuple(map(int, values))


def _memory_for(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, gpu_data: Any
) -> tuple[np.ndarray, int]:
    """`(block, offset of element (0, 0, ...) in it)`: a new block, or the one that `gpu_data` points into."""
    before, after = memory.extent(shape, strides, dtype.itemsize)
    if gpu_data is None:
        return memory.allocate(before + after), before
    if before + after == 0:
        return np.empty(0, np.uint8), 0
    address = gpu_data.device_ctypes_pointer.value or 0
    block = memory.find(address)
    if block is None:
        raise ValueError(
            f"address {address:#x} is not device memory of the CPU executor; copy the array to the host first"
        )
    offset = address - block.ctypes.data
    if offset < before or offset + after > block.nbytes:
        raise ValueError(
            f"shape {shape} with strides {strides} at byte {offset} leaves its allocation of {block.nbytes} bytes"
        )
    return block, offset


def _index(item: Any, ndim: int) -> tuple[Any, ...]:
    """`item` as a tuple of what Numba's device arrays can be indexed with: integers and slices."""
    items = item if isinstance(item, tuple) else (item,)
    for part in items:
        if isinstance(part, bool) or not isinstance(part, (int, np.integer, slice)):
            raise TypeError(f"device arrays are indexed with integers and slices, not with {part!r}")
    if len(items) > ndim:
        raise IndexError(f"{len(items) - ndim} extra indices given for a device array of {ndim} dimensions")
    return items


def _assign(target: np.ndarray, value: Any) -> None:
    source = value.host if isinstance(value, HostBacked) else np.asarray(value)
    if source.ndim > target.ndim:
        raise ValueError(f"Can't assign {source.ndim}-D array to {target.ndim}-D self")
    np.copyto(target, source, casting="unsafe")


def _finish(stream: Any) -> None:
    """Wait for what the stream still has to do; only host callbacks can be pending, since launches are synchronous."""
    drain = getattr(stream, "drain", None)
    if drain is not None:
        drain()
