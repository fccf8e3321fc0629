"""Arithmetic and conversions in each rounding mode of CUDA, exact in the sense of IEEE 754: one rounding.

No floating-point environment is touched (LLVM assumes round-to-nearest). A float32 operation is evaluated in double
with *round to odd* (the inexact result gets an odd last bit), which any later rounding to at most 51 bits sees through
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). A float64 operation is evaluated on
integers wide enough for the exact result, or for its leading bits and a sticky one.
"""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library.build import (
    F32,
    F64,
    I1,
    I32,
    I64,
    I128,
    I192,
    bits_of,
    call,
    constant,
    fma,
    from_bits,
    intrinsic,
    is_finite,
    is_nan,
    maximum,
    minimum,
    suffix,
)
from refkit.cpu.device_library.floats import FLOAT32, FLOAT64, Format, narrow, pack, unpack


def round_to_odd(b: ir.IRBuilder, nearest: ir.Value, error: ir.Value) -> ir.Value:
    """The odd one of the doubles around `nearest + error`, `nearest` if that is exact; only error's sign counts."""
    bits = bits_of(b, nearest)
    inexact = b.fcmp_ordered("!=", error, constant(F64, 0.0))
    even = b.not_(b.trunc(bits, I1))
    outward = b.icmp_signed(">=", b.xor(bits, bits_of(b, error)), constant(I64, 0))
    step = b.select(outward, constant(I64, 1), constant(I64, -1))
    return from_bits(b, b.add(bits, b.select(b.and_(inexact, even), step, constant(I64, 0))))


def sum_to_odd(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x + y of doubles, rounded to odd (Knuth's TwoSum gives the error)."""
    s = b.fadd(x, y)
    other = b.fsub(s, x)
    error = b.fadd(b.fsub(x, b.fsub(s, other)), b.fsub(y, other))
    return round_to_odd(b, s, error)


def fma_to_odd(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z in double, rounded to odd, for operands of at most 26 bits (the product is then exact)."""
    return sum_to_odd(b, b.fmul(x, y), z)


def _to_float32(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    return from_bits(b, narrow(b, x, FLOAT32, mode))


def _signed_zero(b: ir.IRBuilder, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """Sign of an exactly zero sum of terms with signs x and y: minus if both are, or rounding down if either is."""
    return b.or_(x, y) if mode == "rd" else b.and_(x, y)


def fma_directed(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value, mode: str) -> ir.Value:
    """x * y + z of floats or doubles, rounded once in the given mode."""
    if mode == "rn":
        return fma(b, x, y, z)
    if x.type == F32:
        wide = [b.fpext(v, F64) for v in (x, y, z)]
        product = b.fmul(wide[0], wide[1])
        return _repair_zero_sum(b, _to_float32(b, sum_to_odd(b, product, wide[2]), mode), product, wide[2], mode)
    exact = _fma_of_doubles(b, x, y, z, mode)
    finite = b.and_(b.and_(is_finite(b, x), is_finite(b, y)), is_finite(b, z))
    return b.select(finite, exact, fma(b, x, y, z))


def _repair_zero_sum(b: ir.IRBuilder, result: ir.Value, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """Rounding down, an exact cancellation gives -0 where round-to-nearest gives +0."""
    if mode != "rd":
        return result
    cancels = b.and_(
        b.fcmp_ordered("==", b.fadd(x, y), constant(F64, 0.0)),
        b.or_(*(b.icmp_signed("<", bits_of(b, v), constant(I64, 0)) for v in (x, y))),
    )
    return b.select(cancels, constant(F32, -0.0), result)


def _fma_of_doubles(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value, mode: str) -> ir.Value:
    """The finite case on 192-bit integers: product (106 bits) and addend are brought to one exponent and added.

    An addend further than 60 bits below the product, or 110 above it, is moved to that distance: it keeps its
    effect on the rounding, which only its sign and its not being zero have.
    """
    (sx, mx, ex), (sy, my, ey), (sz, mz, ez) = (unpack(b, v) for v in (x, y, z))
    product = b.mul(b.zext(mx, I192), b.zext(my, I192))
    exponent = b.add(ex, ey)
    # A zero has no exponent of its own, and takes the other term's.
    ez = b.select(b.icmp_unsigned("==", mz, constant(I64, 0)), exponent, ez)
    exponent = b.select(b.icmp_unsigned("==", product, constant(I192, 0)), ez, exponent)
    distance = maximum(b, minimum(b, b.sub(ez, exponent), constant(I32, 110)), constant(I32, -60))
    up = b.zext(maximum(b, distance, constant(I32, 0)), I192)
    down = b.zext(maximum(b, b.neg(distance), constant(I32, 0)), I192)
    left, right = b.shl(product, down), b.shl(b.zext(mz, I192), up)
    above = b.icmp_signed(">", distance, constant(I32, 0))
    unit = b.select(above, b.sub(ez, distance), b.add(exponent, distance))
    negative_product = b.xor(sx, sy)
    left, right = (b.select(s, b.neg(v), v) for s, v in ((negative_product, left), (sz, right)))
    total = b.add(left, right)
    below = b.icmp_signed("<", total, constant(I192, 0))
    magnitude = b.select(below, b.neg(total), total)
    is_zero = b.icmp_unsigned("==", magnitude, constant(I192, 0))
    negative = b.select(is_zero, _signed_zero(b, negative_product, sz, mode), below)
    return from_bits(b, pack(b, negative, magnitude, unit, FLOAT64, mode))


def add(b: ir.IRBuilder, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """x + y of floats or doubles in the given mode."""
    if mode == "rn":
        return b.fadd(x, y)
    return fma_directed(b, x, constant(x.type, 1.0), y, mode)


def sub(b: ir.IRBuilder, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """x - y of floats or doubles in the given mode."""
    return b.fsub(x, y) if mode == "rn" else add(b, x, b.fneg(y), mode)


def mul(b: ir.IRBuilder, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """x * y of floats or doubles in the given mode."""
    if mode == "rn":
        return b.fmul(x, y)
    if x.type == F32:
        return _to_float32(b, b.fmul(b.fpext(x, F64), b.fpext(y, F64)), mode)
    (sx, mx, ex), (sy, my, ey) = unpack(b, x), unpack(b, y)
    product = b.mul(b.zext(mx, I128), b.zext(my, I128))
    exact = from_bits(b, pack(b, b.xor(sx, sy), product, b.add(ex, ey), FLOAT64, mode))
    return b.select(b.and_(is_finite(b, x), is_finite(b, y)), exact, b.fmul(x, y))


def div(b: ir.IRBuilder, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """x / y of floats or doubles in the given mode."""
    if mode == "rn":
        return b.fdiv(x, y)
    if x.type == F32:
        wide_x, wide_y = b.fpext(x, F64), b.fpext(y, F64)
        quotient = b.fdiv(wide_x, wide_y)
        rest = fma(b, b.fneg(quotient), wide_y, wide_x)
        error = b.fmul(rest, intrinsic(b, "copysign", constant(F64, 1.0), wide_y))
        return _to_float32(b, round_to_odd(b, quotient, error), mode)
    exact = _scaled_quotient(b, x, y, mode)
    zero = constant(x.type, 0.0)
    regular = b.and_(b.and_(is_finite(b, x), is_finite(b, y)), b.fcmp_ordered("!=", y, zero))
    return b.select(b.and_(regular, b.fcmp_ordered("!=", x, zero)), exact, b.fdiv(x, y))


def _mantissa(b: ir.IRBuilder, m: ir.Value) -> ir.Value:
    return b.uitofp(m, F64)


def _with_sticky(b: ir.IRBuilder, nearest: ir.Value, error: ir.Value) -> ir.Value:
    """4 * nearest, one more or one less by the sign of the error: an i64 that rounds as the exact value does."""
    step = b.sub(
        b.zext(b.fcmp_ordered(">", error, constant(F64, 0.0)), I64),
        b.zext(b.fcmp_ordered("<", error, constant(F64, 0.0)), I64),
    )
    return b.add(b.shl(nearest, constant(I64, 2)), step)


def _scaled_quotient(b: ir.IRBuilder, x: ir.Value, y: ir.Value, mode: str) -> ir.Value:
    """x / y of finite non-zero doubles: the quotient of the significands, whose remainder one fma gives exactly."""
    (sx, mx, ex), (sy, my, ey) = unpack(b, x), unpack(b, y)
    a, d = _mantissa(b, mx), _mantissa(b, my)
    quotient = b.fdiv(a, d)  # in (1/2, 2)
    rest = fma(b, b.fneg(quotient), d, a)
    as_integer = b.fptoui(b.fmul(quotient, constant(F64, 2.0**53)), I64)
    magnitude = _with_sticky(b, as_integer, rest)
    return from_bits(b, pack(b, b.xor(sx, sy), magnitude, b.sub(b.sub(ex, ey), constant(I32, 55)), FLOAT64, mode))


def rcp(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    """1 / x of a float or double in the given mode."""
    return div(b, constant(x.type, 1.0), x, mode)


def sqrt(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    """The square root of a float or double in the given mode."""
    if mode == "rn":
        return intrinsic(b, "sqrt", x)
    if x.type == F32:
        wide = b.fpext(x, F64)
        root = intrinsic(b, "sqrt", wide)
        return _to_float32(b, round_to_odd(b, root, fma(b, b.fneg(root), root, wide)), mode)
    _, m, e = unpack(b, x)
    odd = b.and_(e, constant(I32, 1))
    scaled = _mantissa(b, b.shl(m, b.zext(odd, I64)))  # in [2^52, 2^54)
    root = intrinsic(b, "sqrt", scaled)  # in [2^26, 2^27)
    rest = fma(b, b.fneg(root), root, scaled)
    as_integer = b.fptoui(b.fmul(root, constant(F64, 2.0**27)), I64)
    half = b.ashr(b.sub(e, odd), constant(I32, 1))
    exact = pack(b, constant(I1, 0), _with_sticky(b, as_integer, rest), b.sub(half, constant(I32, 29)), FLOAT64, mode)
    regular = b.and_(is_finite(b, x), b.fcmp_ordered(">", x, constant(F64, 0.0)))
    return b.select(regular, from_bits(b, exact), intrinsic(b, "sqrt", x))


def rsqrt_to_nearest(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """1 / sqrt(x) of a float, rounded to nearest: the double's own error, from its exact square, rounds it to odd."""
    wide = b.fpext(x, F64)
    y = b.fdiv(constant(F64, 1.0), intrinsic(b, "sqrt", wide))
    square = b.fmul(y, y)
    rest = fma(b, y, y, b.fneg(square))
    error = b.fsub(fma(b, b.fneg(wide), square, constant(F64, 1.0)), b.fmul(wide, rest))
    return b.fptrunc(round_to_odd(b, y, error), F32)


def round_to_integral(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    """x rounded to an integral value of its own type."""
    return intrinsic(b, {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil", "rna": "round"}[mode], x)


def to_integer(b: ir.IRBuilder, x: ir.Value, bits: int, signed: bool, mode: str) -> ir.Value:
    """x rounded and saturated to an integer of 8 to 64 bits.

    NaN gives 0 from float32 to at most 32 bits, else only the top bit set (PTX ISA, `cvt`, "NaN inputs").
    """
    type_ = ir.IntType(bits)
    rounded = x if mode == "rz" else round_to_integral(b, x, mode)
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{suffix(type_)}.{suffix(x.type)}"
    saturated = call(b, name, type_, rounded)
    if x.type == F32 and bits < 64:
        return saturated
    return b.select(is_nan(b, x), constant(type_, 1 << (bits - 1)), saturated)


def from_integer(b: ir.IRBuilder, x: ir.Value, signed: bool, target: Format, mode: str) -> ir.Value:
    """Encoding in the target format of an integer of up to 64 bits, rounded once."""
    if mode == "rn" and target in (FLOAT32, FLOAT64):
        convert = b.sitofp if signed else b.uitofp
        return bits_of(b, convert(x, F32 if target is FLOAT32 else F64))
    wide = x if x.type == I64 else (b.sext if signed else b.zext)(x, I64)
    negative = b.icmp_signed("<", wide, constant(I64, 0)) if signed else constant(I1, 0)
    return pack(b, negative, b.select(negative, b.neg(wide), wide), constant(I32, 0), target, mode)
