"""What one operation of a kernel adds to the error: unit roundoff, documented function errors, underflow.

Errors of a single rounding are taken as random with standard deviation U|v|, U = u / sqrt(3): that of a uniform error
whose largest value is u|v|. Function errors are stated as a multiple of U: one unit per documented ulp, which at
LAMBDA standard deviations allows a little over twice the documented maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from refkit.numerics.precision import Precision

LAMBDA = 8.0
"""Allowed error in standard deviations."""

NEAREST_ZERO = 16.0
"""A divisor or a root's operand is taken to come at most this many times closer to zero, however large its error."""


@dataclass(frozen=True)
class RoundingModel:
    """The rounding behaviour of a kernel of the given precision."""

    precision: Precision = field(default_factory=Precision)

    @cached_property
    def unit_variance(self) -> float:
        """Variance of one rounding of a value 1: u**2 / 3."""
        return self.precision.unit_roundoff**2 / 3

    @cached_property
    def largest(self) -> float:
        """Largest finite number of the accumulation format."""
        return self.precision.accumulate_format.max_finite

    @cached_property
    def flush(self) -> float:
        """Variance that lets LAMBDA standard deviations cover a subnormal result flushed to zero."""
        return (self.precision.accumulate_format.smallest_normal / LAMBDA) ** 2

    @cached_property
    def underflow(self) -> float:
        """Variance of a result that may fall among the subnormal numbers; with fast math it may be flushed."""
        if self.precision.fast_math:
            return self.flush
        return self.precision.accumulate_format.smallest_subnormal**2 / 12

    def representable(self, x: np.ndarray) -> bool:
        """Tell whether every element of `x` is a number of the accumulation format (then it has no error)."""
        fmt = self.precision.accumulate_format
        if fmt.name == "float64":
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.all((x.astype(np.float32) == x) | np.isnan(x)))

    def rounding(self, value: np.ndarray, multiple: float | np.ndarray = 1.0) -> np.ndarray:
        """Return the variance of rounding `value`, for an error `multiple` times that of one rounding."""
        # Always a new array of the value's shape, so that callers may add to it in place.
        variance = np.square(np.asarray(value))[...]
        variance *= self.unit_variance * (multiple * multiple)
        return variance
