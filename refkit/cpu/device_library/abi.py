"""How the half-precision shims pass values: C++ types in memory, their conversion, and the form of every shim.

Every shim is `i32 f(ptr result, ptr argument...)`: results and arguments lie behind pointers, and the i32 is 0. A type
is a row of equal components, so that a pair is two single numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from refkit.cpu.device_library import rounding, scale_format, small_floats
from refkit.cpu.device_library.build import F32, F64, I8, I16, I32, I64, POINTER, DeviceFunction, constant, from_bits
from refkit.cpu.device_library.floats import FLOAT8_E4M3, FLOAT8_E5M2, FLOAT32, FLOAT64, Format, narrow, widen


@dataclass(frozen=True)
class CType:
    """How a C++ type lies in memory: the LLVM type of a component, how many, and what the bits mean.

    `format` is that of a small float; `scale` marks e8m0, which has neither sign nor fraction.
    """

    component: ir.Type
    count: int = 1
    format: Format | None = None
    signed: bool = True
    scale: bool = False

    @property
    def half(self) -> Format:
        """The format of a type that is known to be of half precision."""
        assert self.format is not None
        return self.format


_INTEGERS = {
    "signed char": (I8, True),
    "char": (I8, True),
    "unsigned char": (I8, False),
    "short": (I16, True),
    "unsigned short": (I16, False),
    "int": (I32, True),
    "unsigned int": (I32, False),
    "long": (I64, True),
    "unsigned long": (I64, False),
    "long long": (I64, True),
    "unsigned long long": (I64, False),
}
TYPES = {name: CType(type_, signed=signed) for name, (type_, signed) in _INTEGERS.items()}
TYPES |= {"float": CType(F32), "double": CType(F64), "bool": CType(I8, signed=False)}
for _name, _format in small_floats.FORMATS.items():
    TYPES[_name] = TYPES[_name + "_raw"] = CType(I16, 1, _format)
    TYPES[_name + "2"] = TYPES[_name + "2_raw"] = CType(I16, 2, _format)
for _count in (2, 4):
    TYPES |= {f"float{_count}": CType(F32, _count), f"double{_count}": CType(F64, _count)}
for _name, _format in (("e4m3", FLOAT8_E4M3), ("e5m2", FLOAT8_E5M2)):
    TYPES[f"__nv_fp8_{_name}"] = CType(I8, 1, _format)
    TYPES |= {f"__nv_fp8x{_count}_{_name}": CType(I8, _count, _format) for _count in (2, 4)}
TYPES |= {f"__nv_fp8{_count}_e8m0": CType(I8, int(_count[1:] or 1), scale=True) for _count in ("", "x2", "x4")}

Components = list[ir.Value]
Body = Callable[[ir.IRBuilder, tuple[ir.Value, ...]], None]


def convert(b: ir.IRBuilder, x: ir.Value, source: CType, target: CType, mode: str) -> ir.Value:
    """One component converted with a single rounding; to an integer it saturates."""
    if source == target:
        return x
    if source.scale:
        return convert(b, scale_format.to_bfloat16(b, x), TYPES["__nv_bfloat16"], target, mode)
    if target.scale:
        return to_scale(b, x, source, constant(I32, scale_format.UP), constant(ir.IntType(1), 1))
    number = source.component in (F32, F64) or source.format is not None
    if source.format is not None:
        x = widen(b, x, source.format)
    if target.format is not None and target.component == I8:
        # The constructors of fp8 saturate, and go through float from an integer.
        x = x if number else (b.sitofp if source.signed else b.uitofp)(x, F32)
        return narrow(b, x, target.format, mode, saturate=True)
    if target.format is not None:
        return (
            narrow(b, x, target.format, mode)
            if number
            else rounding.from_integer(b, x, source.signed, target.format, mode)
        )
    if target.component in (F32, F64):
        if not number:
            exact = FLOAT32 if target.component == F32 else FLOAT64
            return from_bits(b, rounding.from_integer(b, x, source.signed, exact, mode))
        if x.type == target.component:
            return x
        return b.fpext(x, F64) if target.component == F64 else from_bits(b, narrow(b, x, FLOAT32, mode))
    return rounding.to_integer(b, x, target.component.width, target.signed, mode)


def to_scale(b: ir.IRBuilder, x: ir.Value, source: CType, rounding_mode: ir.Value, saturates: ir.Value) -> ir.Value:
    """The e8m0 code of |x|; arguments as for `scale_format.from_double`. Its constructors round up and saturate."""
    if source.format is not None:
        x = widen(b, x, source.format)
    elif source.component not in (F32, F64):
        negative = b.icmp_signed("<", x, constant(x.type, 0))
        magnitude = b.select(negative, b.neg(x), x) if source.signed else x
        x = from_bits(b, rounding.from_integer(b, magnitude, False, FLOAT64, "ru"))
    return scale_format.from_double(b, x if x.type == F64 else b.fpext(x, F64), rounding_mode, saturates)


def load(b: ir.IRBuilder, pointer: ir.Value, type_: CType) -> Components:
    """The components of the object behind a pointer."""
    places = (b.gep(pointer, [constant(I32, i)], source_etype=type_.component) for i in range(type_.count))
    return [b.load(place, typ=type_.component) for place in places]


def store(b: ir.IRBuilder, values: Components, pointer: ir.Value, type_: CType) -> None:
    """Writes the components of an object."""
    for i, value in enumerate(values):
        b.store(value, b.gep(pointer, [constant(I32, i)], source_etype=type_.component))


def shim_function(count: int, body: Body) -> DeviceFunction:
    def emit(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
        body(b, arguments)
        return constant(I32, 0)

    return DeviceFunction(I32, (POINTER,) * count, emit)
