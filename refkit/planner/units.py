"""How a number of the planner is shown: `0.962 TFLOP`, `144 MiB`, `5.889 ms`.

`planner_arithmetic.js` shows numbers by the same rules; a test compares the two.
"""

from __future__ import annotations

import math
from typing import Any

SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "FLOP": (
        (1e18, "EFLOP"),
        (1e15, "PFLOP"),
        (1e12, "TFLOP"),
        (1e9, "GFLOP"),
        (1e6, "MFLOP"),
        (1e3, "kFLOP"),
        (1, "FLOP"),
    ),
    "FLOP/s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s")),
    "B": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}
"""Units that are scaled: from which size on which unit is used, largest first; FLOP counts go over a little earlier."""

SUFFIXES = {"count": "", "decimal": "", "FLOP/B": " FLOP/B", "times": "×", "text": "", "flag": "", "bytes each": " B"}
"""Units that are not: what follows the number."""

EARLY = 0.95
"""0.962 TFLOP is written so and not as 962 GFLOP; 696 GFLOP is not."""

SMALLEST = 0.001


def number(value: float) -> str:
    """Three significant digits or a little more: 3 decimals below 10, 1 below 100, none above; no trailing zeros."""
    size = abs(value)
    if 0 < size < SMALLEST / 2:
        return f"<{SMALLEST}"
    return _rounded(value, 3 if size < 10 else 1 if size < 100 else 0)


def _rounded(value: float, decimals: int) -> str:
    scale = 10**decimals
    rounded = math.floor(value * scale + 0.5) / scale  # halves go up, as they do in the page
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def show(value: Any, unit: str) -> str:
    """`value` in `unit` as text. unit: a key of `SCALES` or `SUFFIXES`, or "fraction", shown in percent."""
    if unit == "text":
        return str(value)
    if unit == "flag":
        return "yes" if value else "no"
    if unit == "count":
        return f"{math.floor(value + 0.5):,}"
    if unit == "fraction":
        return f"{_rounded(100 * value, 1 if value < 1 else 0)} %"
    if unit in SUFFIXES:
        return number(value) + SUFFIXES[unit]
    scales = SCALES[unit]
    early = EARLY if unit == "FLOP" else 1
    if value == 0:
        return f"0 {unit}"
    scale, name = next((each for each in scales if value >= early * each[0]), scales[-1])
    return f"{number(value / scale)} {name}"
