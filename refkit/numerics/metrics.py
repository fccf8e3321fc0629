"""Distances between what a kernel gave and what the reference says."""

from __future__ import annotations

from typing import Any

import numpy as np

from refkit.numerics.bounded import Bounded
from refkit.numerics.formats import Format, format_of, round_to


def relative_error(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return |got - expected| / |expected|, float64; 0 where both are equal, inf where only `expected` is 0."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    with np.errstate(all="ignore"):
        ratio = np.abs(got - expected) / np.abs(expected)
    return np.where(_same(got, expected), 0.0, ratio)


def ulp_distance(got: np.ndarray, expected: np.ndarray, format: Format | str | None = None) -> np.ndarray:
    """Return how many steps of `format` lie between `got` and `expected` rounded to it, float64.

    `format` is by default that of `got`'s dtype. Equal values, two NaNs among them, are 0 apart; a NaN or an infinity
    against anything else is inf.
    """
    fmt = format_of(format if format is not None else np.asarray(got).dtype)
    got64 = np.asarray(got, np.float64)
    expected64 = round_to(np.asarray(expected, np.float64), fmt)
    with np.errstate(all="ignore"):
        steps = np.abs(_ordinal(got64, fmt) - _ordinal(expected64, fmt))
    finite = np.isfinite(got64) & np.isfinite(expected64)
    return np.where(_same(got64, expected64), 0.0, np.where(finite, steps, np.inf))


def _ordinal(x: np.ndarray, fmt: Format) -> np.ndarray:
    """Number the values of a format in order, zero being 0 (exact up to float32; float64 to about 2**53 steps)."""
    magnitude = np.abs(x)
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, fmt.min_exponent)
    significand = np.ldexp(magnitude, fmt.significand - 1 - exponent)
    return np.copysign((exponent - fmt.min_exponent) * 2.0 ** (fmt.significand - 1) + significand, x)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def error_ratio(got: Any, bounded: Bounded) -> np.ndarray:
    """Return |got - value| / allowed for each element, float64; the kernel holds where `ratio <= 1`.

    0/0 is 0. Where the reference is NaN only NaN holds, where it is infinite only the same infinity; anything else is
    inf there. A NaN or an infinity from the kernel where the reference is finite is inf, except that beyond
    `bounded.overflow` the kernel's format may overflow: there the infinity of that sign, or for a format without
    infinities NaN or the largest number, holds. The result is never NaN. Raises ValueError where the shapes differ.
    """
    value = np.asarray(bounded.value)
    got = np.asarray(got)
    if got.shape != value.shape:
        raise ValueError(f"error_ratio: the kernel's output has shape {got.shape}, the reference's {value.shape}")
    if bounded.kind == "exact":
        return np.where(got == value, 0.0, np.inf)
    got = got.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got - value)
        ratio = np.where(error == 0, 0.0, error / bounded.allowed)
    comparable = np.isfinite(got) & np.isfinite(value)
    ratio = np.where(comparable, ratio, np.inf)
    ratio = np.where(_same(got, value), 0.0, ratio)
    may_overflow = np.isfinite(value) & (np.abs(value) + bounded.allowed >= bounded.overflow)
    if may_overflow.any():
        ratio = np.where(may_overflow & _overflowed(got, value, bounded), 0.0, ratio)
    return np.where(np.isnan(ratio), np.inf, ratio)


def _overflowed(got: np.ndarray, value: np.ndarray, bounded: Bounded) -> np.ndarray:
    if bounded.has_infinity:
        return np.isinf(got) & (np.signbit(got) == np.signbit(value))
    saturated = (np.abs(got) >= bounded.max_finite) & (np.signbit(got) == np.signbit(value))
    return np.isnan(got) | saturated
