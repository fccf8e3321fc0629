"""Exact rounding of rational numbers to binary formats: the oracle that shares nothing with the code under test."""

from __future__ import annotations

import math
from fractions import Fraction

FLOAT32 = (24, -149, 128)  # significand bits, exponent of the smallest number, exponent of the first power beyond
FLOAT64 = (53, -1074, 1024)
FLOAT16 = (11, -24, 16)
BFLOAT16 = (8, -133, 128)


def exact_root(x: Fraction) -> Fraction:
    """A number that rounds as the square root of x does, in any format and mode."""
    scaled = x * 2**2400
    assert scaled.denominator == 1
    root = math.isqrt(scaled.numerator)
    return Fraction(2 * root + (root * root != scaled.numerator), 2**1201)


def rounded(x: Fraction, mode: str, form: tuple[int, int, int]) -> float:
    """x rounded to a format in one of the modes rn, rz, rd, ru; x is not zero."""
    bits, least, beyond = form
    negative, size = x < 0, abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    whole, rest = divmod(size, unit)
    rest /= unit
    half = Fraction(1, 2)
    up = {
        "rn": rest > half or (rest == half and whole % 2 == 1),
        "rz": False,
        "ru": not negative and rest > 0,
        "rd": negative and rest > 0,
    }[mode]
    value = (whole + up) * unit
    if value >= Fraction(2) ** beyond:
        infinite = mode == "rn" or mode == ("rd" if negative else "ru")
        size_rounded = math.inf if infinite else float((2**bits - 1) * Fraction(2) ** (beyond - bits))
    else:
        size_rounded = float(value)
    return -size_rounded if negative else size_rounded
