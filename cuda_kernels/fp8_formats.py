"""The two 8-bit formats as kernels see them: bytes, and device functions that turn them into float32 and back.

Numba has no type for arrays of float8, so kernels are given bytes: launchers take float8_e4m3fn and float8_e5m2 arrays
and view them, or take uint8 arrays whose format a keyword names. The conversions need compute capability 8.9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .primitives.convert import (
    e4m3_bits_to_float32,
    e5m2_bits_to_float32,
    float32_to_e4m3_bits,
    float32_to_e5m2_bits,
)

FP8 = ("float8_e4m3fn", "float8_e5m2", "uint8")
"""The dtypes of an array of fp8 numbers."""


class Fp8Format(NamedTuple):
    """`largest` is the largest number; `encode` (float32 -> uint8) rounds to nearest even, `decode` is exact."""

    name: str
    dtype: str
    largest: float
    encode: Any
    decode: Any


FORMATS = {
    "e4m3": Fp8Format("e4m3", "float8_e4m3fn", 448.0, float32_to_e4m3_bits, e4m3_bits_to_float32),
    "e5m2": Fp8Format("e5m2", "float8_e5m2", 57344.0, float32_to_e5m2_bits, e5m2_bits_to_float32),
}


def format_of(name: str, array: Any, format: str | None) -> Fp8Format:
    """The format of `array`, called `name`: its dtype's, or for bytes the one that `format` names.

    Raises ValueError where `format` is none of "e4m3" and "e5m2", is missing, or is not that of the dtype.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"the format of {name} is {format!r}, expected one of {', '.join(FORMATS)}")
    dtype = array.dtype.name
    if dtype == "uint8":
        if format is None:
            raise ValueError(f"{name} holds bytes (uint8): its format must be named, one of {', '.join(FORMATS)}")
        return FORMATS[format]
    found = next(candidate for candidate in FORMATS.values() if candidate.dtype == dtype)
    if format is not None and format != found.name:
        raise ValueError(f"{name} has dtype {dtype}, but its format is said to be {format!r}")
    return found


def as_bytes(array: Any) -> Any:
    """A uint8 view of an array of fp8 numbers; no element is copied."""
    return array if array.dtype == np.uint8 else array.view(np.uint8)
