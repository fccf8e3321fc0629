"""What device arrays and device records share: elements in host memory, copies, pointers, the bound stream."""

from __future__ import annotations

import copy
import ctypes
from typing import Any

import numpy as np
from numba.cuda.cudadrv import devicearray
from numba.cuda.cudadrv import driver as numba_driver

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
        finish(self._default_stream(stream))
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
        finish(self._default_stream(stream))
        devicearray.sentry_contiguous(self)
        source = ary.host if isinstance(ary, HostBacked) else np.asarray(ary)
        if source.dtype != self.dtype:
            raise TypeError(f"incompatible dtype: {self.dtype} vs. {source.dtype}")
        if source.squeeze().shape != self.host.squeeze().shape:
            raise ValueError(f"incompatible shape: {self.host.shape} vs. {source.shape}")
        if isinstance(ary, HostBacked):
            devicearray.sentry_contiguous(ary)
            devicearray.check_array_compatibility(self, ary)
        memory.store(self.host, source.reshape(self.host.shape))

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """`self[item]`, on a stream."""
        finish(self._default_stream(stream))
        return self[item]  # type: ignore[index]

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """`self[key] = value`, on a stream."""
        finish(self._default_stream(stream))
        self[key] = value  # type: ignore[index]


def memory_for(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, gpu_data: Any
) -> tuple[np.ndarray, int]:
    """`(block, offset of element (0, 0, ...) in it)`: a new block, or the one that `gpu_data` points into."""
    if dtype.hasobject:
        raise TypeError(f"device memory cannot hold Python objects: dtype {dtype}")
    before, after = memory.extent(shape, strides, dtype.itemsize)
    if gpu_data is None:
        return memory.allocate(before + after), before
    if before + after == 0:
        return np.empty(0, np.uint8), 0
    address = gpu_data.device_ctypes_pointer.value or 0
    block = memory.find(address)
    if block is None:
        raise ValueError(
            f"address {address:#x} is not device memory of the CPU executor: it has been freed, or lies on another "
            "device; copy the array to the host first"
        )
    offset = address - block.ctypes.data
    if offset < before or offset + after > block.nbytes:
        raise ValueError(
            f"shape {shape} with strides {strides} at byte {offset} leaves its allocation of {block.nbytes} bytes"
        )
    return block, offset


def finish(stream: Any) -> None:
    """Wait for what the stream still has to do; only host callbacks can be pending, since launches are synchronous."""
    drain = getattr(stream, "drain", None)
    if drain is not None:
        drain()
