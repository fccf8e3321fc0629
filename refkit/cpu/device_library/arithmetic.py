"""libdevice's arithmetic with rounding modes, its conversions, and the functions on the encoding of a number."""

from __future__ import annotations

import functools
from collections.abc import Callable

from llvmlite import ir

from refkit.cpu.device_library import rounding
from refkit.cpu.device_library.build import (
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    POINTER,
    DeviceFunction,
    Emitter,
    bits_of,
    call,
    constant,
    fabs,
    fma,
    from_bits,
    intrinsic,
    is_finite,
    is_nan,
)
from refkit.cpu.device_library.floats import FLOAT16, FLOAT32, FLOAT64, Format, narrow, unpack, widen

_MODES = ("rn", "rz", "rd", "ru")
_INTEGERS = {"int": (32, True), "uint": (32, False), "ll": (64, True), "ull": (64, False)}


def larger(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """CUDA's fmax: the other operand where one is NaN, and +0 above -0."""
    return intrinsic(b, "maximumnum", x, y)


def smaller(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """CUDA's fmin: the other operand where one is NaN, and -0 below +0."""
    return intrinsic(b, "minimumnum", x, y)


def saturate(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """x clamped to [0, 1]; NaN and -0 become +0."""
    above = b.fcmp_ordered(">", x, constant(x.type, 0.0))
    positive = b.select(above, x, constant(x.type, 0.0))
    return b.select(b.fcmp_ordered(">", positive, constant(x.type, 1.0)), constant(x.type, 1.0), positive)


def _fdim(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    positive = b.fcmp_unordered(">", x, y)  # true for NaN too, which the difference passes on
    return b.select(positive, b.fsub(x, y), constant(x.type, 0.0))


def _exponent(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """floor(log2 |x|) of a finite non-zero number, as i32."""
    _, _, e = unpack(b, b.fpext(x, F64) if x.type == F32 else x)
    return b.add(e, constant(I32, 52))


def _ilogb(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    irregular = b.or_(is_nan(b, x), b.fcmp_ordered("==", x, constant(x.type, 0.0)))
    infinite = b.fcmp_ordered("==", fabs(b, x), constant(x.type, float("inf")))
    value = b.select(infinite, constant(I32, 2**31 - 1), _exponent(b, x))
    return b.select(irregular, constant(I32, -(2**31)), value)


def _logb(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    value = b.sitofp(_exponent(b, x), x.type)
    value = b.select(is_finite(b, x), value, b.fmul(x, x))
    return b.select(b.fcmp_ordered("==", x, constant(x.type, 0.0)), constant(x.type, float("-inf")), value)


def _frexp(b: ir.IRBuilder, x: ir.Value, pointer: ir.Value) -> ir.Value:
    irregular = b.or_(b.not_(is_finite(b, x)), b.fcmp_ordered("==", x, constant(x.type, 0.0)))
    wide = b.fpext(x, F64) if x.type == F32 else x
    negative, m, e = unpack(b, wide)
    b.store(b.select(irregular, constant(I32, 0), b.add(e, constant(I32, 53))), pointer)
    half = from_bits(b, b.or_(b.and_(m, constant(I64, 2**52 - 1)), constant(I64, 0x3FE << 52)))
    fraction = b.select(negative, b.fneg(half), half)
    return b.select(irregular, x, b.fptrunc(fraction, F32) if x.type == F32 else fraction)


def _modf(b: ir.IRBuilder, x: ir.Value, pointer: ir.Value) -> ir.Value:
    whole = intrinsic(b, "trunc", x)
    b.store(whole, pointer)
    infinite = b.fcmp_ordered("==", fabs(b, x), constant(x.type, float("inf")))
    rest = b.select(infinite, constant(x.type, 0.0), b.fsub(x, whole))
    return intrinsic(b, "copysign", rest, x)


def _remquo(b: ir.IRBuilder, x: ir.Value, y: ir.Value, pointer: ir.Value) -> ir.Value:
    """The remainder from libm; of the quotient its low three bits with its sign, which is all that CUDA promises."""
    with b.goto_entry_block():
        quotient = b.alloca(I32)
    b.store(constant(I32, 0), quotient)
    wide = [b.fpext(v, F64) if v.type == F32 else v for v in (x, y)]
    rest = call(b, "remquo", F64, *wide, quotient)
    found = b.load(quotient, typ=I32)
    low = b.and_(intrinsic(b, "abs", found, constant(I1, 0)), constant(I32, 7))
    b.store(b.select(b.icmp_signed("<", found, constant(I32, 0)), b.neg(low), low), pointer)
    return b.fptrunc(rest, F32) if x.type == F32 else rest


def _ldexp(b: ir.IRBuilder, x: ir.Value, n: ir.Value) -> ir.Value:
    return call(b, "ldexpf" if x.type == F32 else "ldexp", x.type, x, n)


def _nextafter(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The neighbour of x toward y: one step of the encoding, outward or inward."""
    bits, integer = bits_of(b, x), bits_of(b, x).type
    outward = b.xor(b.fcmp_ordered(">", x, y), b.fcmp_ordered(">", x, constant(x.type, 0.0)))
    step = b.select(outward, constant(integer, 1), constant(integer, -1))
    moved = from_bits(b, b.add(bits, step))
    least = intrinsic(b, "copysign", from_bits(b, constant(integer, 1)), y)
    moved = b.select(b.fcmp_ordered("==", x, constant(x.type, 0.0)), least, moved)
    moved = b.select(b.fcmp_ordered("==", x, y), y, moved)
    return b.select(b.or_(is_nan(b, x), is_nan(b, y)), b.fadd(x, y), moved)


def _add_rounded_arithmetic(add) -> None:
    operations: dict[str, tuple[Callable[..., ir.Value], int]] = {
        "add": (rounding.add, 2),
        "sub": (rounding.sub, 2),
        "mul": (rounding.mul, 2),
        "div": (rounding.div, 2),
        "rcp": (rounding.rcp, 1),
        "sqrt": (rounding.sqrt, 1),
    }
    for mode in _MODES:
        for letter, type_ in (("f", F32), ("d", F64)):
            for name, (emit, count) in operations.items():
                add(f"{letter}{name}_{mode}", type_, (type_,) * count, functools.partial(_in_mode, emit, mode))
        fused = functools.partial(_in_mode, rounding.fma_directed, mode)
        add(f"fma_{mode}", F64, (F64,) * 3, fused)
        add(f"fmaf_{mode}", F32, (F32,) * 3, fused)
        add(f"fmaf_ieee_{mode}", F32, (F32,) * 3, fused)
    add("frsqrt_rn", F32, (F32,), rounding.rsqrt_to_nearest)


def _in_mode(emit: Callable[..., ir.Value], mode: str, b: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    return emit(b, *operands, mode)


def _add_conversions(add) -> None:
    for mode in _MODES:
        for name, (bits, signed) in _INTEGERS.items():
            integer = ir.IntType(bits)
            for floating, type_, format_ in (("float", F32, FLOAT32), ("double", F64, FLOAT64)):
                out = functools.partial(_to_integer, bits, signed, mode)
                add(f"{floating}2{name}_{mode}", integer, (type_,), out)
                if floating == "float" or bits == 64 or mode == "rn":  # the others are exact, and CUDA has one mode
                    into = functools.partial(_from_integer, signed, format_, mode)
                    add(f"{name}2{floating}_{mode}", type_, (integer,), into)
        add(f"double2float_{mode}", F32, (F64,), lambda b, x, m=mode: _double_to_float(b, x, m))
    add("float2half_rn", I16, (F32,), lambda b, x: narrow(b, x, FLOAT16))
    add("half2float", F32, (I16,), lambda b, x: widen(b, x, FLOAT16))


def _to_integer(bits: int, signed: bool, mode: str, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return rounding.to_integer(b, x, bits, signed, mode)


def _from_integer(signed: bool, target: Format, mode: str, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return from_bits(b, rounding.from_integer(b, x, signed, target, mode))


def _double_to_float(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    return b.fptrunc(x, F32) if mode == "rn" else from_bits(b, narrow(b, x, FLOAT32, mode))


def _add_encodings(add) -> None:
    add("double_as_longlong", I64, (F64,), bits_of)
    add("longlong_as_double", F64, (I64,), from_bits)
    for integer in ("int", "uint"):
        add(f"float_as_{integer}", I32, (F32,), bits_of)
        add(f"{integer}_as_float", F32, (I32,), from_bits)
    add("double2loint", I32, (F64,), lambda b, x: b.trunc(bits_of(b, x), I32))
    add("double2hiint", I32, (F64,), lambda b, x: b.trunc(b.lshr(bits_of(b, x), constant(I64, 32)), I32))
    add("hiloint2double", F64, (I32, I32), _join)
    for suffix_, type_ in (("f", F32), ("d", F64)):
        add(f"isnan{suffix_}", I32, (type_,), lambda b, x: b.zext(is_nan(b, x), I32))
        add(f"isinf{suffix_}", I32, (type_,), _is_infinite)
        sign = lambda b, x: b.zext(b.icmp_signed("<", bits_of(b, x), constant(bits_of(b, x).type, 0)), I32)  # noqa: E731
        add(f"signbit{suffix_}", I32, (type_,), sign)
        name = "finitef" if suffix_ == "f" else "isfinited"
        add(name, I32, (type_,), lambda b, x: b.zext(is_finite(b, x), I32))


def _join(b: ir.IRBuilder, high: ir.Value, low: ir.Value) -> ir.Value:
    return from_bits(b, b.or_(b.shl(b.zext(high, I64), constant(I64, 32)), b.zext(low, I64)))


def _is_infinite(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.zext(b.fcmp_ordered("==", fabs(b, x), constant(x.type, float("inf"))), I32)


def _add_shared_by_both_precisions(add) -> None:
    for ending, type_ in (("", F64), ("f", F32)):
        one, two = (type_,), (type_, type_)
        for name, spelt in {
            "floor": "floor",
            "ceil": "ceil",
            "trunc": "trunc",
            "round": "round",
            "fabs": "fabs",
        }.items():
            add(name + ending, type_, one, lambda b, x, s=spelt: intrinsic(b, s, x))
        for name in ("rint", "nearbyint"):
            add(name + ending, type_, one, lambda b, x: intrinsic(b, "rint", x))
        add("llrint" + ending, I64, one, lambda b, x: rounding.to_integer(b, x, 64, True, "rn"))
        add("llround" + ending, I64, one, lambda b, x: rounding.to_integer(b, x, 64, True, "rna"))
        add("sqrt" + ending, type_, one, lambda b, x: intrinsic(b, "sqrt", x))
        add("copysign" + ending, type_, two, lambda b, x, y: intrinsic(b, "copysign", x, y))
        add("fma" + ending, type_, (type_,) * 3, fma)
        for name, emit in (("fmax", larger), ("fmin", smaller), ("fdim", _fdim), ("nextafter", _nextafter)):
            add(name + ending, type_, two, emit)
        for name in ("ldexp", "scalbn"):
            add(name + ending, type_, (type_, I32), _ldexp)
        add("ilogb" + ending, I32, one, _ilogb)
        add("logb" + ending, type_, one, _logb)
        add("frexp" + ending, type_, (type_, POINTER), _frexp)
        add("modf" + ending, type_, (type_, POINTER), _modf)
        add("remquo" + ending, type_, (type_, type_, POINTER), _remquo)
    add("saturatef", F32, (F32,), saturate)


def _functions() -> dict[str, DeviceFunction]:
    table: dict[str, DeviceFunction] = {}

    def add(name: str, result: ir.Type, parameters: tuple[ir.Type, ...], emit) -> None:
        body: Emitter = lambda b, arguments: emit(b, *arguments)  # noqa: E731
        table["__nv_" + name] = DeviceFunction(result, parameters, body)

    _add_rounded_arithmetic(add)
    _add_conversions(add)
    _add_encodings(add)
    _add_shared_by_both_precisions(add)
    return table


FUNCTIONS = _functions()
