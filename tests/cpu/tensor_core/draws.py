"""Random fragments that are hard to add up: of each class, as matrices of encodings."""

from __future__ import annotations

import numpy as np

from .cases import BITS, Case

FORMATS = {"f64": (11, 52), "f32": (8, 23), "tf32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "e5m2": (5, 2)}
FORMATS |= {"e4m3": (4, 3)}  # exponent bits, fraction bits, as stored: tf32 as a float32
CLASSES = ("random", "cancelling", "subnormal", "wide", "special")


def _encode(sign: np.ndarray, field: np.ndarray, fraction: np.ndarray, kind: str) -> np.ndarray:
    exponent_bits, fraction_bits = FORMATS[kind]
    word = (sign << (exponent_bits + fraction_bits)) | (field << fraction_bits) | fraction
    return word.astype(f"u{BITS[kind] // 8}")


def floats(rng: np.random.Generator, kind: str, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    """Encodings with random signs and fractions, and exponent fields from `low` to `high`."""
    exponent_bits, fraction_bits = FORMATS[kind]
    top = 2**exponent_bits - 1 - (kind != "e4m3")
    fields = rng.integers(min(max(low, 0), top), min(max(high, 0), top) + 1, shape, dtype=np.uint64)
    fraction = rng.integers(0, 2**fraction_bits, shape, dtype=np.uint64)
    fraction[rng.random(shape) < 0.2] = 0
    if kind == "e4m3":
        fraction[(fields == top) & (fraction == 7)] = 6  # 0x7F is its NaN
    return _encode(rng.integers(0, 2, shape, dtype=np.uint64), fields, fraction, kind)


def _bias(kind: str) -> int:
    return 2 ** (FORMATS[kind][0] - 1) - 1


def _operand(rng: np.random.Generator, kind: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    bias = _bias(kind)
    if what == "subnormal":
        return floats(rng, kind, shape, 0, 2)
    if what == "wide":
        return floats(rng, kind, shape, 0, 2 * bias)
    return floats(rng, kind, shape, bias - 3, bias + 3)


def _addend(rng: np.random.Generator, kind: str, of: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    bias, least = _bias(kind), 2 * (1 - _bias(of))
    if what == "subnormal":
        return floats(rng, kind, shape, bias + least - 2 * FORMATS[of][1], bias + least + 6)
    if what == "wide":
        return floats(rng, kind, shape, 0, 2 * bias)
    return floats(rng, kind, shape, bias - 12, bias + 6)


def _sprinkle(rng: np.random.Generator, encoded: np.ndarray, kind: str) -> None:
    """Zeros of both signs, infinities and NaN into some of the elements."""
    exponent_bits, fraction_bits = FORMATS[kind]
    ones = (2**exponent_bits - 1) << fraction_bits
    sign = 1 << (exponent_bits + fraction_bits)
    infinite = ones | (2**fraction_bits - 1) if kind == "e4m3" else ones
    values = [0, sign, 0, sign, infinite, infinite | sign, ones | (2**fraction_bits - 1)]
    chosen = rng.random(encoded.shape) < 0.06
    encoded[chosen] = rng.choice(np.array(values, np.uint64), int(chosen.sum())).astype(encoded.dtype)


def _integers(rng: np.random.Generator, case: Case, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a = rng.integers(0, 256, (count, 16, case.k)).astype(np.uint8)
    b = rng.integers(0, 256, (count, case.k, 8)).astype(np.uint8)
    c = rng.integers(0, 2**32, (count, 16, 8)).astype(np.uint32)
    near = rng.random(c.shape) < 0.5
    c[near] = (2**31 + rng.integers(-300_000, 300_000, int(near.sum()))).astype(np.uint32)
    a[: count // 4], b[: count // 4] = rng.choice(np.array([0, 127, 128, 255], np.uint8), 2)
    return a, b, c


def draw(case: Case, what: str, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C of `count` fragments of a class, as encodings: (count, m, k), (count, k, 8), (count, m, 8)."""
    rng = np.random.default_rng([seed, CLASSES.index(what), sum(map(ord, case.name))])
    if case.accumulator == "s32":
        return _integers(rng, case, count)
    a = _operand(rng, case.a, (count, case.m, case.k), what)
    b = _operand(rng, case.b, (count, case.k, 8), what)
    c = _addend(rng, case.accumulator, case.a, (count, case.m, 8), what)
    if what == "cancelling":
        a[:, :, 1::2] = a[:, :, 0::2]
        b[:, 1::2] = b[:, 0::2] ^ b.dtype.type(1 << (BITS[case.b] - 1))
        flipped = rng.random(b.shape) < 0.1
        b[flipped] ^= b.dtype.type(1 << (13 if case.b == "tf32" else 0))
        if case.b == "e4m3":
            b[b & 0x7F == 0x7F] ^= 1
    if what == "special":
        for encoded, kind in ((a, case.a), (b, case.b), (c, case.accumulator)):
            _sprinkle(rng, encoded, kind)
    return a, b, c
