"""e8m0, the format of scale factors: eight bits of exponent, the value 2^(code - 127), 0xFF is NaN.

(OCP Microscaling Formats specification 1.0, section 5.4.1; what each conversion does, from the text of cuda_fp8.h.)
"""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library.build import F64, I8, I16, I64, constant

NEAREST, ZERO, UP, DOWN = range(4)  # cudaRoundMode
_BIAS, _NAN = 127, 0xFF
_DOUBLE_BIAS, _FRACTION_BITS = 1023, 52


def to_bfloat16(b: ir.IRBuilder, code: ir.Value) -> ir.Value:
    """The bits of the bfloat16 of a code, which is exact."""
    shifted = b.shl(b.zext(code, I16), constant(I16, 7))
    least = b.select(b.icmp_unsigned("==", code, constant(I8, 0)), constant(I16, 0x0040), shifted)
    return b.select(b.icmp_unsigned("==", code, constant(I8, _NAN)), constant(I16, 0x7FFF), least)


def from_double(b: ir.IRBuilder, x: ir.Value, rounding: ir.Value, saturates: ir.Value) -> ir.Value:
    """The code of |x|, rounded to a power of two; what is below 2^-127 gives that.

    rounding: i32, one of cudaRoundMode, an unknown one is upward; the nearest takes the upper of two powers at their
    midpoint. saturates: i1, beyond 2^127 gives that, otherwise NaN. A finite double beyond float's range counts as
    float's largest number, which toward zero is 2^127 in either case.
    """
    bits = b.and_(b.bitcast(x, I64), constant(I64, 2**63 - 1))
    huge, infinity = (constant(I64, exponent << _FRACTION_BITS) for exponent in (_DOUBLE_BIAS + 128, 2047))
    beyond = b.and_(b.icmp_unsigned(">=", bits, huge), b.icmp_unsigned("<", bits, infinity))
    bits = b.select(beyond, b.sub(huge, constant(I64, 1)), bits)
    exponent = b.lshr(bits, constant(I64, _FRACTION_BITS))
    fraction = b.and_(bits, constant(I64, 2**_FRACTION_BITS - 1))
    up = b.select(
        b.icmp_unsigned("==", rounding, constant(rounding.type, NEAREST)),
        b.icmp_unsigned(">=", fraction, constant(I64, 2 ** (_FRACTION_BITS - 1))),
        b.icmp_unsigned("!=", fraction, constant(I64, 0)),
    )
    down = b.or_(*(b.icmp_unsigned("==", rounding, constant(rounding.type, mode)) for mode in (ZERO, DOWN)))
    step = b.zext(b.and_(up, b.not_(down)), I64)
    code = b.add(b.sub(exponent, constant(I64, _DOUBLE_BIAS - _BIAS)), step)
    code = b.select(b.icmp_signed("<", code, constant(I64, 0)), constant(I64, 0), code)
    most = b.select(saturates, constant(I64, _NAN - 1), constant(I64, _NAN))
    code = b.select(b.icmp_signed(">", code, constant(I64, _NAN - 1)), most, code)
    unordered = b.fcmp_unordered("uno", x, constant(F64, 0.0))
    return b.select(unordered, constant(I8, _NAN), b.trunc(code, I8))
