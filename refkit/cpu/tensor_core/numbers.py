"""Numbers and registers in Numba's dialect: bits of doubles, powers of two, small formats, the words of a lane."""

from dataclasses import dataclass

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

from ..runtime.layout import THREAD_VALUE, THREAD_WORDS
from ..runtime.primitives import words
from .model import ZERO_EXPONENT

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_F32, _F64 = ir.FloatType(), ir.DoubleType()
LANES = 32
LANE_BYTES = 8 * THREAD_WORDS


@dataclass(frozen=True)
class Encoding:
    """A binary format as it lies in a register: exponent and fraction bits, and where its lowest bit stands."""

    exponent_bits: int
    fraction_bits: int
    shift: int = 0
    infinities: bool = True  # e4m3 has none, and one NaN only

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def least_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias


ENCODINGS = {
    "f32": Encoding(8, 23),
    "tf32": Encoding(8, 10, shift=13),  # the unit does not look at the low 13 bits
    "bf16": Encoding(8, 7),
    "f16": Encoding(5, 10),
    "e4m3": Encoding(4, 3, infinities=False),
    "e5m2": Encoding(5, 2),
}


@cuda.jit(device=True)
def registers_of(first, lane):
    """The words of a lane that waits at a collective, given the address of the warp's first control block."""
    return words(words(first + lane * LANE_BYTES)[THREAD_VALUE])


def _cast(name, parameter, result):
    def typing(typingctx, value):
        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

        return result(parameter), generate

    typing.__name__ = name
    return intrinsic(typing)


double_of = _cast("double_of", types.int64, types.float64)
bits_of = _cast("bits_of", types.float64, types.int64)


def _unary(name):
    def typing(typingctx, value):
        def generate(context, builder, signature, arguments):
            return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [_F64]), arguments)

        return types.float64(types.float64), generate

    typing.__name__ = name
    return intrinsic(typing)


truncate = _unary("trunc")  # towards zero, to an integer
nearest = _unary("rint")  # to the nearest integer, ties to even
magnitude = _unary("fabs")


@intrinsic
def fused_multiply_add(typingctx, x, y, z):
    """x * y + z in float64, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@intrinsic
def float_bits(typingctx, value):
    """The bits of a float64 rounded to float32, to nearest even."""

    def generate(context, builder, signature, arguments):
        return builder.zext(builder.bitcast(builder.fptrunc(arguments[0], _F32), _I32), _I64)

    return types.int64(types.float64), generate


@intrinsic
def float_of(typingctx, bits):
    """The float64 of a float32's bits."""

    def generate(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(builder.trunc(arguments[0], _I32), _F32), _F64)

    return types.float64(types.int64), generate


@cuda.jit(device=True)
def power_of_two(exponent):
    """2 to an exponent between -1022 and 1023."""
    return double_of((exponent + 1023) << 52)


def decoder(encoding, least_exponent):
    """A device function from bits to `(value, exponent)`: float64, and the exponent that the unit aligns it by.

    Numbers below the format's normal range are normalised down to `least_exponent`. Zero has `ZERO_EXPONENT`; NaN and
    infinities come as such, with exponent 0.
    """
    width = encoding.exponent_bits
    fraction = encoding.fraction_bits
    bias = encoding.bias
    hidden = 1 << fraction
    ones = (1 << width) - 1
    infinities = encoding.infinities

    @cuda.jit(device=True)
    def decode(bits):
        field = (bits >> fraction) & ones
        significand = bits & (hidden - 1)
        if field == ones and (infinities or significand == hidden - 1):
            value = double_of(0x7FF0000000000000)
            if significand != 0:
                value = double_of(0x7FF8000000000000)
            exponent = 0
        else:
            if field == 0:
                exponent = 1 - bias
            else:
                exponent = field - bias
                significand |= hidden
            value = significand * power_of_two(exponent - fraction)
            if significand == 0:
                exponent = ZERO_EXPONENT
            else:
                while significand < hidden and exponent > least_exponent:
                    significand <<= 1
                    exponent -= 1
        if (bits >> (width + fraction)) & 1:
            value = -value
        return value, exponent

    return decode
