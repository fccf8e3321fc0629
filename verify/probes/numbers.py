"""What the value probes need to know of a number format: its range, and powers of two that products can be made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Range:
    """Powers of two of one operand type.

    least: exponent of the smallest number. normal: of the smallest normal one. most: the largest used here, so that
        products stay finite in the accumulator. infinities: whether the format has any.
    """

    least: int
    normal: int
    most: int
    infinities: bool = True


RANGES = {
    "tf32": Range(-136, -126, 60),
    "bf16": Range(-133, -126, 60),
    "f16": Range(-24, -14, 14),
    "e4m3": Range(-9, -6, 8, infinities=False),
    "e5m2": Range(-16, -14, 15),
    "f64": Range(-1074, -1022, 500),
    "f32": Range(-149, -126, 127),
}
DEEPEST = {"f32": -100, "f16": -24, "f64": -400}
"""The smallest exponent that probes let D have, by the type of D: normal, or exact all the same."""
ACCUMULATOR_MOST = {"f32": 60, "f16": 15, "f64": 500}
"""The largest exponent of a term, by the type of C and D."""


def split(exponent: int, a: Range, b: Range) -> tuple[int, int]:
    """Exponents of two factors with this sum, both normal if possible. Raises ValueError where there are none."""
    for low_a, low_b in ((a.normal, b.normal), (a.normal, b.least), (a.least, b.least)):
        of_a = min(max(exponent - exponent // 2, low_a, exponent - b.most), a.most)
        of_b = exponent - of_a
        if low_b <= of_b <= b.most and low_a <= of_a <= a.most:
            return of_a, of_b
        of_b = min(max(low_b, exponent - a.most), b.most)
        of_a = exponent - of_b
        if low_a <= of_a <= a.most and low_b <= of_b <= b.most:
            return of_a, of_b
    raise ValueError(f"no product of these formats is 2 to the {exponent}")


@dataclass(frozen=True)
class Term:
    """significand * 2 ** exponent; the significand has few bits, and its sign is the term's."""

    exponent: int
    significand: float = 1.0

    @property
    def value(self) -> float:
        """The number."""
        return float(np.ldexp(self.significand, self.exponent))
