"""Binary floating-point formats in integer arithmetic: rounding an exact value to a format, and reading one.

`pack` is the one place where a value is rounded to a format; every conversion and every operation with a rounding mode
ends in it. Nothing here needs compiler-rt (`__truncsfhf2` and its kin), which a JIT in a Python process cannot resolve.
Modes are PTX's: rn (nearest, ties to even), rz (toward zero), rd/rm (down), ru/rp (up), rna (nearest, ties away).
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from refkit.cpu.device_library.build import (
    F32,
    F64,
    I1,
    I32,
    I64,
    constant,
    fabs,
    from_bits,
    intrinsic,
    is_nan,
    maximum,
    minimum,
)


@dataclass(frozen=True)
class Format:
    """A binary format: widths in bits of the whole, the exponent and the stored fraction.

    `infinities=False` is the OCP e4m3 encoding, whose only non-finite value is the all-ones NaN.
    """

    name: str
    width: int
    exponent_bits: int
    fraction_bits: int
    infinities: bool = True

    @property
    def least_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 2 - 2 ** (self.exponent_bits - 1)

    @property
    def infinity(self) -> int:
        """Encoding of +infinity, or what would be it."""
        return (2**self.exponent_bits - 1) << self.fraction_bits

    @property
    def largest(self) -> int:
        """Encoding of the largest finite number."""
        return self.infinity - 1 if self.infinities else self.nan - 1

    @property
    def nan(self) -> int:
        """Encoding of the NaN that a GPU returns: every bit but the sign is one."""
        return 2 ** (self.width - 1) - 1


FLOAT64 = Format("float64", 64, 11, 52)
FLOAT32 = Format("float32", 32, 8, 23)
FLOAT16 = Format("float16", 16, 5, 10)
BFLOAT16 = Format("bfloat16", 16, 8, 7)
FLOAT8_E5M2 = Format("float8_e5m2", 8, 5, 2)
FLOAT8_E4M3 = Format("float8_e4m3fn", 8, 4, 3, infinities=False)

MODES = {"rn": "rn", "rni": "rn", "rz": "rz", "rzi": "rz", "rd": "rd", "rm": "rd", "rmi": "rd"} | {
    "ru": "ru",
    "rp": "ru",
    "rpi": "ru",
    "rna": "rna",
}
_KEPT = 62  # significant bits that survive normalisation; the lowest is sticky


def _normalise(b: ir.IRBuilder, magnitude: ir.Value, exponent: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The leading 62 bits of a non-zero magnitude (the last one sticky) as i64, and the exponent of the leading bit."""
    type_ = magnitude.type
    zeros = intrinsic(b, "ctlz", magnitude, constant(I1, 0))
    shifted = b.shl(magnitude, zeros)
    dropped = type_.width - _KEPT
    top = b.lshr(shifted, constant(type_, dropped))
    sticky = b.icmp_unsigned("!=", b.and_(shifted, constant(type_, (1 << dropped) - 1)), constant(type_, 0))
    kept = b.or_(_resize(b, top, I64), b.zext(sticky, I64))
    leading = b.sub(b.add(exponent, constant(I32, type_.width - 1)), _resize(b, zeros, I32))
    return kept, leading


def _resize(b: ir.IRBuilder, x: ir.Value, type_: ir.IntType) -> ir.Value:
    if x.type.width == type_.width:
        return x
    return b.trunc(x, type_) if x.type.width > type_.width else b.zext(x, type_)


def _rounds_up(b: ir.IRBuilder, mode: str, negative: ir.Value, quotient: ir.Value, rest: ir.Value, half: ir.Value):
    zero = constant(I64, 0)
    if mode == "rz":
        return constant(I1, 0)
    if mode == "rna":
        return b.icmp_unsigned(">=", rest, half)
    if mode == "rn":
        odd = b.trunc(quotient, I1)
        return b.or_(b.icmp_unsigned(">", rest, half), b.and_(b.icmp_unsigned("==", rest, half), odd))
    away = negative if mode == "rd" else b.not_(negative)
    return b.and_(b.icmp_unsigned("!=", rest, zero), away)


def _overflow(b: ir.IRBuilder, mode: str, negative: ir.Value, target: Format, saturate: bool) -> ir.Value:
    largest = constant(I64, target.largest)
    if saturate or mode == "rz":
        return largest
    beyond = constant(I64, target.infinity if target.infinities else target.nan)
    if mode in ("rn", "rna"):
        return beyond
    return b.select(negative, *((beyond, largest) if mode == "rd" else (largest, beyond)))


def pack(
    b: ir.IRBuilder,
    negative: ir.Value,
    magnitude: ir.Value,
    exponent: ir.Value,
    target: Format,
    mode: str = "rn",
    saturate: bool = False,
) -> ir.Value:
    """Encoding, as an integer of the target's width, of (-1)^negative * magnitude * 2^exponent, rounded once.

    `magnitude` is an unsigned integer of 64 bits or more, whose lowest bit may stand for any non-zero rest as long as
    it has more bits than the target keeps; `exponent` is an i32. Zero keeps the sign `negative`. Too large a value
    becomes what IEEE 754 says of the mode, or the largest finite number where `saturate` is set.
    """
    is_zero = b.icmp_unsigned("==", magnitude, constant(magnitude.type, 0))
    nonzero = b.select(is_zero, constant(magnitude.type, 1), magnitude)
    kept, leading = _normalise(b, nonzero, exponent)
    above = b.sub(leading, constant(I32, target.least_exponent))
    below = maximum(b, b.neg(above), constant(I32, 0))
    dropped = minimum(b, b.add(below, constant(I32, _KEPT - 1 - target.fraction_bits)), constant(I32, 63))
    shift = b.zext(dropped, I64)
    quotient = b.lshr(kept, shift)
    unit = b.shl(constant(I64, 1), shift)
    rest = b.and_(kept, b.sub(unit, constant(I64, 1)))
    up = _rounds_up(b, mode, negative, quotient, rest, b.lshr(unit, constant(I64, 1)))
    field = minimum(b, maximum(b, above, constant(I32, 0)), constant(I32, 2**target.exponent_bits))
    # The leading one of a normal number adds the last 1 to its exponent field, and so does a carry out of the fraction.
    rounded = b.add(quotient, b.zext(up, I64))
    bits = b.add(b.shl(b.zext(field, I64), constant(I64, target.fraction_bits)), rounded)
    # A double's field fills the i64 to the sign bit, so that only an unsigned comparison tells overflow.
    too_large = b.icmp_unsigned(">", bits, constant(I64, target.largest))
    bits = b.select(too_large, _overflow(b, mode, negative, target, saturate), bits)
    bits = b.select(is_zero, constant(I64, 0), bits)
    bits = b.or_(bits, b.shl(b.zext(negative, I64), constant(I64, target.width - 1)))
    return _resize(b, bits, ir.IntType(target.width))


def unpack(b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(negative i1, m i64, e i32) of a finite double: |x| = m * 2^e, with 2^52 <= m < 2^53, or m = 0 for zero."""
    bits = b.bitcast(x, I64)
    negative = b.icmp_signed("<", bits, constant(I64, 0))
    field = b.and_(b.trunc(b.lshr(bits, constant(I64, 52)), I32), constant(I32, 0x7FF))
    fraction = b.and_(bits, constant(I64, 2**52 - 1))
    subnormal = b.icmp_signed("==", field, constant(I32, 0))
    whole = b.select(subnormal, fraction, b.or_(fraction, constant(I64, 2**52)))
    exponent = b.sub(b.select(subnormal, constant(I32, 1), field), constant(I32, 1075))
    is_zero = b.icmp_unsigned("==", whole, constant(I64, 0))
    zeros = b.sub(intrinsic(b, "ctlz", b.or_(whole, b.zext(is_zero, I64)), constant(I1, 0)), constant(I64, 11))
    return negative, b.shl(whole, zeros), b.sub(exponent, b.trunc(zeros, I32))


def narrow(b: ir.IRBuilder, x: ir.Value, target: Format, mode: str = "rn", saturate: bool = False) -> ir.Value:
    """Encoding of a float or double in a narrower format, rounded once; NaN becomes the target's canonical NaN."""
    if x.type == F32 and target is BFLOAT16 and not saturate and mode != "rna":
        return _narrow_to_bfloat16(b, x, mode)
    wide = b.fpext(x, F64) if x.type == F32 else x
    negative, magnitude, exponent = unpack(b, wide)
    bits = pack(b, negative, magnitude, exponent, target, mode, saturate)
    type_ = bits.type
    beyond = target.largest if saturate else target.infinity if target.infinities else target.nan
    sign = b.shl(b.zext(negative, type_), constant(type_, target.width - 1))
    infinite = b.fcmp_ordered("==", fabs(b, wide), constant(F64, float("inf")))
    bits = b.select(infinite, b.or_(constant(type_, beyond), sign), bits)
    return b.select(is_nan(b, wide), constant(type_, target.nan), bits)


def _narrow_to_bfloat16(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    """float to bfloat16: both have the same exponents, so that rounding is an addition to the encoding."""
    bits = b.bitcast(x, I32)
    magnitude = b.and_(bits, constant(I32, 0x7FFFFFFF))
    negative = b.icmp_signed("<", bits, constant(I32, 0))
    if mode == "rn":
        odd = b.and_(b.lshr(bits, constant(I32, 16)), constant(I32, 1))
        added = b.add(odd, constant(I32, 0x7FFF))
    elif mode == "rz":
        added = constant(I32, 0)
    else:
        away = negative if mode == "rd" else b.not_(negative)
        added = b.select(away, constant(I32, 0xFFFF), constant(I32, 0))
    # The fraction of an infinity is zero and that of a number never carries past infinity, so neither needs a case.
    rounded = b.trunc(b.lshr(b.add(bits, added), constant(I32, 16)), ir.IntType(16))
    unordered = b.icmp_unsigned(">", magnitude, constant(I32, FLOAT32.infinity))
    return b.select(unordered, constant(ir.IntType(16), BFLOAT16.nan), rounded)


def widen(b: ir.IRBuilder, bits: ir.Value, source: Format) -> ir.Value:
    """The float with the value of an encoding of 16 or 8 bits (exact); NaN becomes 0x7fffffff, as on a GPU."""
    wide = b.zext(bits, I32)
    if source is BFLOAT16:
        return b.bitcast(b.shl(wide, constant(I32, 16)), F32)
    sign = b.shl(wide, constant(I32, 32 - source.width))
    sign = b.and_(sign, constant(I32, 0x80000000))
    magnitude = b.and_(wide, constant(I32, 2 ** (source.width - 1) - 1))
    rebias = (source.least_exponent - FLOAT32.least_exponent) << FLOAT32.fraction_bits
    shifted = b.shl(magnitude, constant(I32, FLOAT32.fraction_bits - source.fraction_bits))
    normal = b.add(shifted, constant(I32, rebias))
    unit = constant(F32, 2.0 ** (source.least_exponent - source.fraction_bits))
    subnormal = b.bitcast(b.fmul(b.uitofp(magnitude, F32), unit), I32)
    is_small = b.icmp_unsigned("<", magnitude, constant(I32, 2**source.fraction_bits))
    value = b.select(is_small, subnormal, normal)
    if source.infinities:
        infinite = b.icmp_unsigned("==", magnitude, constant(I32, source.infinity))
        value = b.select(infinite, constant(I32, FLOAT32.infinity), value)
        unordered = b.icmp_unsigned(">", magnitude, constant(I32, source.infinity))
    else:
        unordered = b.icmp_unsigned("==", magnitude, constant(I32, source.nan))
    signed = b.or_(value, sign)
    return from_bits(b, b.select(unordered, constant(I32, FLOAT32.nan), signed))
