"""Kernel arguments as the machine code takes them: one 64-bit slot per LLVM parameter, in Numba's flattened order."""

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.cuda import types

from .device_array import DeviceArray, DeviceRecord
from .faults import Unsupported


@dataclass
class Packed:
    """Packed slots, and what has to stay alive while the kernel runs."""

    words: np.ndarray
    alive: list[Any] = field(default_factory=list)


def argument_types(dispatcher: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The Numba types under which a kernel is compiled for these arguments."""
    return tuple(_typeof(dispatcher, value) for value in arguments)


def _typeof(dispatcher: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        members = [_typeof(dispatcher, member) for member in value]
        if hasattr(value, "_fields"):
            return types.BaseTuple.from_types(members, type(value))
        return types.BaseTuple.from_types(members)
    own = getattr(value, "_numba_type_", None)
    return own if own is not None else dispatcher.typeof_pyval(value)


def pack(kinds: tuple[Any, ...], values: tuple[Any, ...]) -> Packed:
    """Arguments as slots. TypeError where their number is not the kernel's, `Unsupported` for an unknown type."""
    if len(kinds) != len(values):
        raise TypeError(f"the kernel takes {len(kinds)} arguments, not {len(values)}")
    packed = Packed(np.zeros(0, np.int64))
    slots: list[int] = []
    for kind, value in zip(kinds, values):
        _append(kind, value, slots, packed)
    packed.words = np.array(slots, np.uint64).view(np.int64) if slots else np.zeros(1, np.int64)
    return packed


def _append(kind: Any, value: Any, slots: list[int], packed: Packed) -> None:
    if isinstance(kind, types.Array):
        if not isinstance(value, DeviceArray):
            raise Unsupported(f"an array argument of type {type(value).__name__}")
        packed.alive.append(value)
        host = value.host
        address = host.ctypes.data if host.size else 0
        slots += [0, 0, host.size, host.itemsize, address, *host.shape, *(stride & _MASK for stride in host.strides)]
    elif isinstance(kind, types.BaseTuple):
        for member_kind, member in zip(kind, value):
            _append(member_kind, member, slots, packed)
    elif isinstance(kind, types.Record):
        if not isinstance(value, DeviceRecord):
            raise Unsupported(f"a record argument of type {type(value).__name__}")
        packed.alive.append(value)
        slots.append(value.host.ctypes.data)
    elif isinstance(kind, types.Boolean):
        slots.append(int(bool(value)))
    elif isinstance(kind, types.CPointer):
        slots.append(int(getattr(value, "value", value) or 0) & _MASK)
    elif isinstance(kind, types.EnumMember):
        _append(kind.dtype, value.value, slots, packed)
    elif isinstance(kind, types.Integer):
        slots.append(int(value) & _MASK)
    elif isinstance(kind, types.Float):
        slots.append(_float_bits(kind.bitwidth, value))
    elif isinstance(kind, types.Complex):
        width = kind.bitwidth // 2
        slots += [_float_bits(width, value.real), _float_bits(width, value.imag)]
    elif isinstance(kind, types.NPDatetime | types.NPTimedelta):
        slots.append(int(np.asarray(value).view(np.int64)) & _MASK)
    elif str(kind) in ("none", "omitted"):
        pass
    elif kind == types.bfloat16:
        slots.append(int(np.asarray(value).view(np.uint16)))
    else:
        raise Unsupported(f"a kernel argument of type {kind}")


_MASK = (1 << 64) - 1


def _float_bits(width: int, value: Any) -> int:
    if width == 16:
        return int(np.float16(value).view(np.uint16))
    code, integer = ("<f", "<I") if width == 32 else ("<d", "<Q")
    return struct.unpack(integer, struct.pack(code, float(np.float32(value)) if width == 32 else float(value)))[0]


def unlinear(rank: int, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The (x, y, z) index of a rank in a grid or block, x running fastest."""
    return rank % shape[0], rank // shape[0] % shape[1], rank // (shape[0] * shape[1])


def named_arrays(names: tuple[str, ...], values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Every array among the arguments with the name that reports use; members of tuples are `name[i]`."""
    found: list[tuple[str, Any]] = []
    for position, value in enumerate(values):
        name = names[min(position, len(names) - 1)] if names else str(position)
        if isinstance(value, tuple):
            found += named_arrays(tuple(f"{name}[{i}]" for i in range(len(value))), value)
        elif isinstance(value, DeviceArray | DeviceRecord):
            found.append((name, value))
    return found
