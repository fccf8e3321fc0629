"""Tensors that other libraries export through DLPack, read from their capsule; versions 0.x and 1.x.

The structures are those of dlpack.h 1.3 (https://dmlc.github.io/dlpack/latest/c_api.html). A capsule is never
consumed: whoever holds the capsule holds the tensor, and its own destructor gives the tensor back to the library.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any, NamedTuple

import numpy as np

VERSION = (1, 0)
"""The newest version that is asked for: later 1.x add nothing that is read here."""

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_PLACES = {CPU: "in CPU memory", CUDA_HOST: "in page-locked CPU memory", 10: "on a ROCm device"}

_TENSOR = struct.Struct(
    "=QiiiBBHQQQ"
)  # data; device type, number; axes; dtype code, bits, lanes; shape; strides; offset
_VERSIONED = struct.Struct("=IIQQQ" + _TENSOR.format[1:])  # major, minor; context; deleter; flags; the tensor
_READ_ONLY = 1

_FAMILIES = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_NAMES = {
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


class Tensor(NamedTuple):
    """A tensor in memory that `owner` keeps alive; strides in bytes, `address` of element (0, 0, ...)."""

    address: int
    device_type: int
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    read_only: bool
    owner: Any


def place(device_type: int, device: int) -> str:
    """Where a tensor lies, in words."""
    if device_type == CUDA:
        return f"on GPU {device}"
    return _PLACES.get(device_type, f"on a device of DLPack type {device_type}")


def export(array: Any, stream: int | None) -> Tensor:
    """The tensor that `array.__dlpack__` gives, ordered by its library before later work on `stream`.

    stream: as DLPack counts (1 the legacy default stream, 2 the per-thread one, else a handle); None for CPU memory.
    Raises what the library raises, and BufferError for a version or a dtype that is not known here.
    """
    try:
        capsule = array.__dlpack__(stream=stream, max_version=VERSION)
    except TypeError:  # a library from before DLPack 1.0 has no max_version
        capsule = array.__dlpack__(stream=stream)
    return read_capsule(capsule)


def read_capsule(capsule: Any) -> Tensor:
    """The tensor in a DLPack capsule; BufferError where it is none, was consumed, or holds what is not known here."""
    if _is_valid(capsule, b"dltensor_versioned"):
        address = _pointer(capsule, b"dltensor_versioned")
        major = ctypes.c_uint32.from_address(address).value
        if major != VERSION[0]:  # the rest may then look different
            raise BufferError(f"DLPack version {major} is not known, expected {VERSION[0]}")
        _, _, _, _, flags, *fields = _VERSIONED.unpack(ctypes.string_at(address, _VERSIONED.size))
    elif _is_valid(capsule, b"dltensor"):
        flags, fields = 0, list(_TENSOR.unpack(ctypes.string_at(_pointer(capsule, b"dltensor"), _TENSOR.size)))
    else:
        raise BufferError(f"{capsule!r} is not a DLPack capsule that can still be read")
    data, kind, device, axes, code, bits, lanes, shape_at, strides_at, offset = fields
    dtype = _dtype(code, bits, lanes)
    shape = _integers(shape_at, axes)
    strides = _integers(strides_at, axes) if strides_at else _compact(shape)
    strides = tuple([stride * dtype.itemsize for stride in strides])
    return Tensor(data + offset, kind, device, shape, strides, dtype, bool(flags & _READ_ONLY), capsule)


def _integers(address: int, count: int) -> tuple[int, ...]:
    return _int64(count).unpack(ctypes.string_at(address, 8 * count)) if count else ()


@functools.cache
def _int64(count: int) -> struct.Struct:
    return struct.Struct(f"={count}q")


def _compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of an array in C order, which DLPack may leave out."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return tuple(strides)


@functools.cache
def _dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    """NumPy's dtype; BufferError where there is none."""
    name = _NAMES.get((code, bits)) or (f"{_FAMILIES[code]}{bits}" if code in _FAMILIES else "")
    try:
        if lanes == 1 and name:
            return np.dtype(name)  # bfloat16 and float8 where ml_dtypes is installed, which numba-cuda then imports
    except TypeError:
        if (code, bits) in _NAMES:
            raise BufferError(f"dtype {name} needs the package ml_dtypes") from None
    raise BufferError(f"DLPack dtype code {code}, {bits} bits, {lanes} lanes has no NumPy dtype")
