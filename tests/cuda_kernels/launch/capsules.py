"""DLPack capsules written by hand, after dlpack.h: what no installed library exports can be exported too."""

import ctypes

import numpy as np

_new = ctypes.pythonapi.PyCapsule_New
_new.argtypes, _new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


class Exported:
    """An array that exports itself as any dtype code and device, in version `version` of DLPack, (0, 8) having none."""

    def __init__(
        self,
        array,
        code,
        *,
        version=(1, 0),
        flags=0,
        lanes=1,
        device=(1, 0),
        strides=True,
        offset=0,
        name=None,
        bits=None,
    ):
        self.array, self.device, self.calls = array, device, []
        size = array.itemsize
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._strides = (ctypes.c_int64 * array.ndim)(*(stride // size for stride in array.strides))
        tensor = DLTensor(
            array.ctypes.data - offset, *device, array.ndim, code, bits or 8 * size, lanes, self._shape,
            self._strides if strides else None, offset,
        )  # fmt: skip
        old = version[0] == 0
        self._tensor = DLManagedTensor(tensor) if old else DLManagedTensorVersioned(*version, None, None, flags, tensor)
        self._name = name or (b"dltensor" if old else b"dltensor_versioned")
        self._old = old

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        if self._old and "max_version" in keywords:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.calls.append(keywords)
        return _new(ctypes.addressof(self._tensor), self._name, None)


def bits(dtype, *values):
    """The bits of some numbers in a dtype, as unsigned integers."""
    return np.array(values, dtype).view(f"u{np.dtype(dtype).itemsize}")
