"""What a tensor core computes, in NumPy, written from the published model and apart from the executor.

Significands are integers here, products are shifted into place, and a float32 is cut with `frexp`; the executor works
with doubles. All fragments at once, as encodings: A is (fragments, m, k), B (fragments, k, 8), C (fragments, m, 8).
"""

from __future__ import annotations

import ctypes
import ctypes.util

import ml_dtypes
import numpy as np

from .cases import Case

NUMPY = {"f64": np.float64, "f32": np.float32, "tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
NUMPY |= {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
LEAST = {"f32": -126, "tf32": -126, "bf16": -126, "f16": -14, "e5m2": -14, "e4m3": -6}
DIGITS = {"f32": 23, "tf32": 10, "bf16": 7, "f16": 10, "e5m2": 2, "e4m3": 3}
_NOWHERE = -10_000


def values(encoded: np.ndarray, kind: str) -> np.ndarray:
    """Encodings as float64; tf32 drops the bits that the unit does not look at."""
    if kind == "tf32":
        encoded = encoded & np.uint32(0xFFFFE000)
    return encoded.view(NUMPY[kind]).astype(np.float64)


def _split(x: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Integer significands and exponents: x = significand * 2**(exponent - digits); zero and non-finite count as 0."""
    finite = np.where(np.isfinite(x), x, 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, LEAST[kind]).astype(np.int64)
    significand = np.ldexp(finite, DIGITS[kind] - exponent).astype(np.int64)
    return significand, np.where(significand == 0, _NOWHERE, exponent)


def _shifted(significand: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Shifted left, or right with what falls off dropped from the magnitude."""
    left = np.abs(significand) << np.clip(places, 0, 40)
    right = left >> np.clip(-places, 0, 62)
    return np.sign(significand) * right


def _float_bits(x: np.ndarray, digits: int) -> np.ndarray:
    """float32 encodings of exact values, cut to `digits` fraction bits towards zero; too large is infinite."""
    exponent = np.maximum(np.frexp(x)[1] - 1, -126)
    cut = np.ldexp(np.trunc(np.ldexp(x, digits - exponent)), exponent - digits)
    with np.errstate(over="ignore"):
        bits = np.where(cut == 0, 0.0, cut).astype(np.float32).view(np.uint32)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), bits)


def _half_bits(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        bits = x.astype(np.float16).view(np.uint16)
    bits = np.where(bits & 0x7FFF == 0, np.uint16(0), bits)  # what is too small becomes +0
    return np.where(np.isnan(x), np.uint16(0x7FFF), bits)


def fused_sum(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: tuple[str, str, str], fraction_bits: int
) -> np.ndarray:
    """C + A B as float64 before the last rounding: one block, aligned, truncated, summed. Arguments are float64."""
    sa, ea = _split(a, kinds[0])
    sb, eb = _split(b, kinds[1])
    sc, ec = _split(c, kinds[2])
    products = sa[:, :, :, None] * sb[:, None, :, :]
    exponents = ea[:, :, :, None] + eb[:, None, :, :]
    top = np.maximum(exponents.max(axis=2), ec)
    digits = DIGITS[kinds[0]] + DIGITS[kinds[1]]
    terms = _shifted(products, fraction_bits - digits + exponents - top[:, :, None, :])
    total = terms.sum(axis=2) + _shifted(sc, fraction_bits - DIGITS[kinds[2]] + ec - top)
    exact = np.ldexp(total.astype(np.float64), np.maximum(top, -400) - fraction_bits)
    with np.errstate(invalid="ignore"):
        plain = (a[:, :, :, None] * b[:, None, :, :]).sum(axis=2) + c
    return np.where(np.isfinite(plain), exact, plain)


def multiply(case: Case, a: np.ndarray, b: np.ndarray, c: np.ndarray, architecture: str = "sm_90") -> np.ndarray:
    """D as encodings, by the architecture's model."""
    if case.accumulator == "s32":
        return _integers(case, a, b, c)
    x, y, z = values(a, case.a), values(b, case.b), values(c, case.accumulator)
    if case.a == "f64":
        return _doubles(x, y, z)
    fp8 = case.a in ("e4m3", "e5m2")
    kinds = ("f16", "f16", "f32") if fp8 and architecture == "sm_90" else (case.a, case.b, case.accumulator)
    digits = 23
    if architecture == "sm_90":
        fraction, blocks = 25, [np.arange(case.k)]
        if fp8:
            blocks = [np.arange(case.k)[np.arange(case.k) % 4 < 2], np.arange(case.k)[np.arange(case.k) % 4 >= 2]]
    else:
        size = {"tf32": 4, "e4m3": 16, "e5m2": 16}.get(case.a, 8)
        blocks = [np.arange(start, min(start + size, case.k)) for start in range(0, case.k, size)]
        fraction = 13 if fp8 else 24
        digits = 13 if fp8 else 23
    total = np.zeros_like(z) if fp8 and architecture == "sm_90" else z
    for block in blocks:
        total = fused_sum(x[:, :, block], y[:, block], total, kinds, fraction)
        bits = _half_bits(total) if case.accumulator == "f16" else _float_bits(total + 0.0, digits)
        total = values(bits, case.accumulator)
    if fp8 and architecture == "sm_90":
        with np.errstate(over="ignore", invalid="ignore"):
            last = z.astype(np.float32) + total.astype(np.float32)
        bits = np.where(np.isnan(last), np.uint32(0x7FFFFFFF), last.view(np.uint32))
    return bits


def _integers(case: Case, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    x = a.view(np.int8 if case.a == "s8" else np.uint8).astype(np.int64)
    y = b.view(np.int8 if case.b == "s8" else np.uint8).astype(np.int64)
    total = x @ y + c.view(np.int32)
    if case.saturates:
        total = np.clip(total, -(2**31), 2**31 - 1)
    return total.astype(np.int64).astype(np.uint32)


def _doubles(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """One fused multiply-add after the other, by the C library's own `fma`."""
    fma = ctypes.CDLL(ctypes.util.find_library("m")).fma
    fma.argtypes, fma.restype = [ctypes.c_double] * 3, ctypes.c_double
    total = z.copy()
    for index in np.ndindex(*total.shape):
        f, m, n = index
        for k in range(x.shape[2]):
            total[index] = fma(x[f, m, k], y[f, k, n], total[index])
    return total.view(np.uint64)
