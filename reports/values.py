"""JSON values as they arrive, made safe to show: ratios, counts, texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_SPECIAL = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
_SPECIAL |= {"infinity": math.inf, "-infinity": -math.inf}
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # no font and no HTML page takes these


def number(value: Any) -> float | None:
    """The number in `value`, NaN and infinities in either spelling included; None where there is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        return _SPECIAL.get(value.strip().lower())
    return None


def count(value: Any, default: int = 0) -> int:
    """A non-negative whole number, or `default`."""
    found = number(value)
    if found is None or not math.isfinite(found) or found < 0:
        return default
    return int(found)


def exceeds(ratio: float | None) -> bool:
    """Whether a measured ratio is a failure; NaN is, a ratio that was not measured is not."""
    return ratio is not None and not abs(ratio) <= 1.0


def severity(ratio: float | None) -> tuple[int, float]:
    """A key that sorts ratios from harmless to worst: not measured, numbers, infinity, NaN."""
    if ratio is None:
        return (0, 0.0)
    return (2, 0.0) if math.isnan(ratio) else (1, abs(ratio))


def text(value: Any) -> str:
    """One line of text for any JSON value: objects as "name value", lists joined, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{text(key)} {text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(text(item) for item in value)
    if isinstance(value, float):
        return plain(value)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))


def plain(value: float | None) -> str:
    """A number in few characters: "0.31", "12,400", "3.2e-06", "NaN", "∞"; "–" for None."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.2g}"


def ratio(value: float | None) -> str:
    """An error over the allowed error; what holds is below 1 and is never shown as 1."""
    return ">0.99" if value is not None and 0.995 <= value < 1 else plain(value)


def exact(value: float | None) -> str:
    """A number with the nine digits that tell two float32 values apart."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return plain(value)
    return f"{value:.9g}"


def seconds(value: float | None) -> str:
    """A duration: "0.42 s", "12 s", "2 min 5 s"."""
    if value is None or not math.isfinite(value):
        return "–"
    if value < 10:
        return f"{value:.2g} s" if value >= 0.01 else "<0.01 s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{int(value // 60)} min {int(value % 60)} s"


def counted(number_of: int, noun: str) -> str:
    """ "1 kernel", "2 kernels"."""
    return f"{number_of:,} {noun}" if number_of == 1 else f"{number_of:,} {noun}s"
