"""Binary floating-point formats, and exact rounding of float64 values to them.

`round_to` works on the significand as an integer, so that subnormals, ties and overflow come out exactly as IEEE 754
(or, for the float8 formats, the OCP 8-bit specification) says. Checked bit for bit against NumPy and ml_dtypes over
every pattern of the 8- and 16-bit formats and every midpoint between neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np

RoundingMode = Literal["nearest-even", "nearest-away", "toward-zero"]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    `significand` counts the bits of the significand with the implicit one; `min_exponent` is the exponent of the
    smallest normal number, 2**min_exponent; `has_infinity` is False for float8_e4m3fn, where overflow gives NaN.
    """

    name: str
    significand: int
    min_exponent: int
    max_finite: float
    has_infinity: bool = True

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest: 2**-significand."""
        return 2.0**-self.significand

    @property
    def smallest_normal(self) -> float:
        """Smallest positive normal number."""
        return 2.0**self.min_exponent

    @property
    def smallest_subnormal(self) -> float:
        """Smallest positive number, and the spacing of all subnormal numbers."""
        return 2.0 ** (self.min_exponent - self.significand + 1)

    @property
    def overflow_threshold(self) -> float:
        """Smallest magnitude that can round beyond the largest finite number (half a unit above it)."""
        top = float(np.frexp(self.max_finite)[1]) - self.significand
        return self.max_finite + 2.0 ** (top - 1)

    def spacing(self, x: np.ndarray | float) -> np.ndarray:
        """Distance between neighbouring numbers of this format at |x|; float64, the shape of `x`."""
        exponent = np.frexp(np.asarray(x, np.float64))[1] - 1
        return np.ldexp(1.0, np.maximum(exponent, self.min_exponent) - self.significand + 1)


float64 = Format("float64", 53, -1022, float(np.finfo(np.float64).max))
float32 = Format("float32", 24, -126, float(np.finfo(np.float32).max))
tf32 = Format("tf32", 11, -126, (2 - 2.0**-10) * 2.0**127)
float16 = Format("float16", 11, -14, 65504.0)
bfloat16 = Format("bfloat16", 8, -126, (2 - 2.0**-7) * 2.0**127)
float8_e4m3fn = Format("float8_e4m3fn", 4, -6, 448.0, has_infinity=False)
float8_e5m2 = Format("float8_e5m2", 3, -14, 57344.0)

FORMATS: dict[str, Format] = {
    f.name: f for f in (float64, float32, tf32, float16, bfloat16, float8_e4m3fn, float8_e5m2)
}

STORAGE_DTYPES: dict[str, np.dtype] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


@cache
def _format_by_name(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"unknown floating-point format {name!r}; expected one of {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of(dtype: Any) -> Format:
    """Return the `Format` of a dtype, a dtype's name, or a `Format`. Raises ValueError where there is none."""
    if isinstance(dtype, Format):
        return dtype
    if isinstance(dtype, str) and dtype in FORMATS:
        return FORMATS[dtype]
    try:
        return _format_by_name(np.dtype(dtype).name)
    except TypeError:
        raise ValueError(f"unknown floating-point format {dtype!r}; expected one of {', '.join(FORMATS)}") from None


def is_floating(dtype: Any) -> bool:
    """Tell whether a NumPy dtype is a floating-point format known here, ml_dtypes' included."""
    return np.dtype(dtype).name in FORMATS


def round_to(
    x: np.ndarray | float, format: Format | str, mode: RoundingMode = "nearest-even", saturate: bool = False
) -> np.ndarray:
    """Return `x` (float64, any shape) rounded to `format`, as float64.

    Overflow under rounding to nearest gives an infinity, or NaN where the format has none; `saturate=True` gives the
    largest finite number instead, also for infinities (PTX `.satfinite`). Under "toward-zero" finite values never
    overflow. NaN stays NaN, and the sign of zero is kept.
    """
    fmt = format_of(format)
    x = np.asarray(x, np.float64)
    if fmt.name == "float64":
        return x.copy()
    exponent = np.frexp(x)[1] - 1
    shift = np.maximum(exponent, fmt.min_exponent) - fmt.significand + 1
    with np.errstate(invalid="ignore"):
        scaled = np.ldexp(x, -shift)
    if mode == "nearest-even":
        integer = np.rint(scaled)
    elif mode == "toward-zero":
        integer = np.trunc(scaled)
    elif mode == "nearest-away":
        # |scaled| < 2**25, so adding one half is exact.
        integer = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    else:
        raise ValueError(f"unknown rounding mode {mode!r}; expected 'nearest-even', 'nearest-away' or 'toward-zero'")
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.ldexp(integer, shift)
    beyond = np.abs(rounded) > fmt.max_finite
    if beyond.any():
        infinite = np.isinf(x)
        limit = np.inf if fmt.has_infinity else np.nan
        toward_limit = infinite if mode == "toward-zero" else beyond
        magnitude = np.where(toward_limit & (not saturate), limit, fmt.max_finite)
        rounded = np.where(beyond, np.copysign(magnitude, x), rounded)
    return rounded
