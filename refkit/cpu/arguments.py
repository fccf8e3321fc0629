"""What the host passes to a kernel, made ready for a launch as Numba does it.

Device arrays pass as they are. Host arrays and records are copied to the device and back (`cuda.In` saves the way back,
`cuda.Out` the way there), so a kernel never sees the host's own memory. Scalars pass as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.cuda import types
from numba.cuda.args import ArgHint, Out
from numba.cuda.core.errors import NumbaError
from numba.cuda.cudadrv.devicearray import DeviceNDArrayBase
from numba.cuda.np import numpy_support
from numba.cuda.typing.typeof import Purpose, typeof

from . import memory
from .device_array import DeviceArray, DeviceRecord
from .faults import Unsupported
from .host_backed import HostBacked
from .transfers import from_interface

if TYPE_CHECKING:
    from collections.abc import Sequence

WriteBack = Callable[[], None]

# The types that `_Kernel._prepare_args` of numba-cuda 0.30 passes; it raises NotImplementedError for all others.
_PASSED = (
    types.Array,
    types.CPointer,
    types.Integer,
    types.Float,
    types.Boolean,
    types.Complex,
    types.NPDatetime,
    types.NPTimedelta,
    types.Record,
)


def prepare(
    names: Sequence[str], arguments: tuple[Any, ...], extensions: Sequence[Any] = (), stream: Any = 0
) -> tuple[tuple[Any, ...], list[WriteBack]]:
    """`(arguments for the launch, what to call after it)`.

    names: the kernel's parameters; the last may stand for several arguments (`*args`).
    extensions: objects with `prepare_args`, as in `@cuda.jit(extensions=[...])`.
    Raises TypeError, ValueError or NotImplementedError that names the argument which a kernel cannot take.
    """
    write_backs: list[WriteBack] = []
    prepared = []
    for position, value in enumerate(arguments):
        name = names[min(position, len(names) - 1)] if names else str(position)
        label = f"argument {position} ({name})"
        value = _extended(label, value, extensions, stream, write_backs)
        prepared.append(_prepared(label, value, write_backs))
    return tuple(prepared), write_backs


def _extended(label: str, value: Any, extensions: Sequence[Any], stream: Any, write_backs: list[WriteBack]) -> Any:
    for extension in reversed(extensions):
        before = _type_of(label, value)
        after, value = extension.prepare_args(before, value, stream=stream, retr=write_backs)
        if after != before:
            raise Unsupported(f"{label}: an extension that turns {before} into {after} is not emulated")
    return value


def _prepared(label: str, value: Any, write_backs: list[WriteBack]) -> Any:
    if isinstance(value, ArgHint):
        return _transferred(label, value.value, write_backs, there=not _only_out(value), back=isinstance(value, Out))
    if isinstance(value, tuple):
        parts = [_prepared(f"{label}[{place}]", part, write_backs) for place, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if _is_array(value):
        return _transferred(label, value, write_backs)
    kind = _type_of(label, value)
    member = kind.dtype if isinstance(kind, types.EnumMember) else kind
    if not isinstance(member, _PASSED):
        raise NotImplementedError(f"{label}: a kernel cannot take {value!r} of type {kind}")
    return value


def _only_out(hint: ArgHint) -> bool:
    return isinstance(hint, Out) and not hint.copy_input


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.void, HostBacked)) or hasattr(value, "__cuda_array_interface__")


def _transferred(label: str, value: Any, write_backs: list[WriteBack], there: bool = True, back: bool = True) -> Any:
    if isinstance(value, HostBacked):
        _type_of(label, value)
        return value
    if isinstance(value, DeviceNDArrayBase) and not isinstance(value, np.ndarray) and value.size:
        return DeviceArray(value.shape, value.strides, value.dtype, gpu_data=value.gpu_data)
    if hasattr(value, "__cuda_array_interface__") and not isinstance(value, np.ndarray):
        return from_interface(value)
    if getattr(value, "__cuda_memory__", False):  # mapped and managed arrays: the device works on the host's memory
        return DeviceArray.wrap(np.asarray(value))
    if isinstance(value, np.void):
        return _record(value, write_backs, there, back)
    array = np.asanyarray(value)
    _type_of(label, array)
    device = _same_layout(array)
    if there:
        memory.store(device.host, array)
    if back and array.flags.writeable:
        write_backs.append(lambda: array.__setitem__(..., device.host))
    return device


def _same_layout(array: np.ndarray) -> DeviceArray:
    """A device array with the strides of the host array: the kernel's type follows from them."""
    return DeviceArray(array.shape, array.strides, array.dtype)


def _record(value: np.void, write_backs: list[WriteBack], there: bool, back: bool) -> DeviceRecord:
    record = DeviceRecord(value.dtype)
    if there:
        memory.store(record.host, value)
    if back:
        write_backs.append(lambda: _store_record(value, record))
    return record


def _store_record(value: np.void, record: DeviceRecord) -> None:
    for field in value.dtype.names or ():
        value[field] = record.host[field]


def _type_of(label: str, value: Any) -> Any:
    """Numba's type of an argument; a clear TypeError where it has none."""
    try:
        if isinstance(value, np.ndarray):
            numpy_support.from_dtype(value.dtype)
        return typeof(value, Purpose.argument)
    except (NumbaError, NotImplementedError, ValueError, TypeError) as error:
        dtype = getattr(value, "dtype", None)
        what = f"dtype {dtype}" if dtype is not None else f"{type(value).__name__} {value!r}"
        raise TypeError(f"{label}: numba-cuda has no type for {what} ({str(error).splitlines()[0]})") from error
