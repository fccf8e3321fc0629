"""The last step of a tensor core: an exact sum, as float64, to the bits of float32 or float16."""

from numba import cuda

from .numbers import bits_of, float_bits, float_of, magnitude, nearest, power_of_two

FLOAT_NAN = 0x7FFFFFFF
HALF_NAN = 0x7FFF
HALF_INFINITY = 0x7C00
_OVERFLOW = 2.0**128


def to_float_toward_zero(result_bits):
    """A device function from float64 to the bits of float32, with `result_bits` fraction bits, rounded towards zero.

    What is too large becomes an infinity all the same; what is too small becomes +0 (seen on an H200).
    """
    dropped = 23 - result_bits

    @cuda.jit(device=True)
    def convert(value):
        if value != value:
            return FLOAT_NAN
        bits = float_bits(value)
        if magnitude(value) < _OVERFLOW:
            if magnitude(float_of(bits)) > magnitude(value):
                bits -= 1
            bits = (bits >> dropped) << dropped
            if bits & 0x7FFFFFFF == 0:
                bits = 0
        return bits

    return convert


@cuda.jit(device=True)
def to_half_nearest(value):
    """The bits of float16 nearest to a float64, ties to even; +0 for what is too small, whatever its sign."""
    if value != value:
        return HALF_NAN
    sign = (bits_of(value) >> 48) & 0x8000
    size = magnitude(value)
    exponent = ((bits_of(size) >> 52) & 0x7FF) - 1023
    if exponent >= 16:
        bits = HALF_INFINITY
    elif exponent < -14:
        bits = int(nearest(size * 2.0**24))
    else:
        bits = ((exponent + 14) << 10) + int(nearest(size * power_of_two(10 - exponent)))
        bits = min(bits, HALF_INFINITY)
    return bits | sign if bits != 0 else 0
