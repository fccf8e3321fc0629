"""How errors are distributed: against the length of the sums behind them, and in units in the last place."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from refkit.reports.drawing import Drawing, Sheet, decades, power_label
from refkit.reports.model import CaseView, KernelView
from refkit.reports.values import counted, plain

_POINTS_DRAWN = 200


def reduction_figure(kernel: KernelView, width: int = 360, height: int = 170) -> Drawing | None:
    """Relative error of each case against the longest sum behind it, with the error that the model allows; None where
    no case has both."""
    cases = [case for check in kernel.checks for case in check.cases_data if _drawable(case)]
    if not cases:
        return None
    lengths = [case.reduction or 1 for case in cases]
    errors = [case.error or 0.0 for case in cases]
    curve = _curve(cases)
    shown = [value for value in (*errors, *(case.allowed or 0.0 for case in cases)) if value > 0]
    low, high = math.floor(math.log10(min(shown))), math.ceil(math.log10(max(shown)))
    high = max(high, low + 1)
    longest = max(1.0, math.log10(max(lengths)))
    left, right, top, bottom = 58, width - 16, 24, height - 34
    sheet = Sheet(width, height)

    def place(length: float, error: float) -> tuple[float, float]:
        if error <= 0:
            return left + 6 + (right - left - 6) * math.log10(length) / longest, bottom
        up = (math.log10(error) - low) / (high - low)
        return left + 6 + (right - left - 6) * math.log10(length) / longest, bottom - 6 - (bottom - 6 - top) * up

    for exponent in decades(low, high, 5):
        y = place(1, 10.0**exponent)[1]
        sheet.segments([(left, y, right, y)], "line", width=0.5)
        sheet.text(left - 6, y, power_label(exponent), colour="muted", align="right")
    for exponent in decades(0, int(longest), 6):
        x = place(10**exponent, 1)[0]
        sheet.segments([(x, top, x, bottom)], "line", width=0.5)
        sheet.text(x, bottom + 12, power_label(exponent), colour="muted", align="center")
    sheet.text((left + right) / 2, height - 6, "terms of the longest sum", colour="muted", align="center")
    sheet.text(left, 9, "relative error (rms)", colour="muted")
    sheet.text(right, 9, "allowed", colour="bad", align="right")
    points = [place(case.reduction or 1, case.error or 0.0) for case in _thinned(cases)]
    sheet.dots(points, "point", size=3.5)
    at = [place(length, allowed) for length, allowed in curve]
    sheet.segments([(*a, *b) for a, b in itertools.pairwise(at)], "bad", width=1.5)
    sheet.dots(at, "bad", size=3.5)
    share = statistics.median((case.error or 0.0) / (case.allowed or 1.0) for case in cases)
    alt = (
        f"Error against the longest sum behind it: {counted(len(cases), 'case')}, sums of {min(lengths):,} to "
        f"{max(lengths):,} terms; the median error is {plain(share)} of the allowed one. Allowed, by length: "
        + ", ".join(f"{length:,}: {plain(allowed)}" for length, allowed in curve)
        + "."
    )
    caption = (
        "Root mean square error of each case, relative to its output, against the longest sum behind it; the line is "
        "the error that the model allows (median of the cases of similar length)."
    )
    return Drawing(sheet.figure, alt, caption, width)


def _drawable(case: CaseView) -> bool:
    return (
        case.reduction is not None
        and case.reduction > 0
        and case.error is not None
        and math.isfinite(case.error)
        and case.allowed is not None
        and 0 < case.allowed < math.inf
    )


def _curve(cases: Sequence[CaseView]) -> list[tuple[int, float]]:
    """The median allowed error of the cases of each octave of lengths, at their median length."""
    octaves: dict[int, list[CaseView]] = {}
    for case in cases:
        octaves.setdefault(int(math.log2(case.reduction or 1)), []).append(case)
    return [
        (
            round(statistics.median(case.reduction or 1 for case in members)),
            statistics.median(case.allowed or 0.0 for case in members),
        )
        for _, members in sorted(octaves.items())
    ]


def _thinned(cases: Sequence[CaseView]) -> Sequence[CaseView]:
    """The cases; of many, those with the largest errors and an even choice of the others."""
    if len(cases) <= _POINTS_DRAWN:
        return cases
    by_error = sorted(cases, key=lambda case: case.error or 0.0, reverse=True)
    worst, rest = by_error[: _POINTS_DRAWN // 4], by_error[_POINTS_DRAWN // 4 :]
    spare = _POINTS_DRAWN - len(worst)
    return [*worst, *(rest[k * len(rest) // spare] for k in range(spare))]


def ulps_of(kernel: KernelView) -> Mapping[str, int]:
    """The counts of `accuracy`; without them, of the check with the most."""
    accuracy = kernel.check("accuracy")
    if accuracy is not None and accuracy.ulps:
        return accuracy.ulps
    return max((check.ulps for check in kernel.checks), key=lambda counts: sum(counts.values()), default={})


def ulps_figure(kernel: KernelView, width: int = 360, height: int = 150) -> Drawing | None:
    """A bar for each distance from the expected value in units in the last place, heights on a log scale; None where
    nothing was counted."""
    counts = {float(low): number for low, number in ulps_of(kernel).items() if number}
    if not counts:
        return None
    total = sum(counts.values())
    finite = [low for low in counts if math.isfinite(low)]
    last = max((int(math.log2(low)) + 1 for low in finite if low >= 1), default=0)
    bars = [0.0, *(2.0**k for k in range(last))] + ([math.inf] if math.inf in counts else [])
    top, bottom, left = 24, height - 34, 46
    step = min(26.0, (width - left - 4) / len(bars))
    sheet = Sheet(width, height)
    high = max(1.0, math.log10(total))
    for exponent in decades(0, int(high), 4):
        y = bottom - 4 - (bottom - 4 - top) * exponent / high
        sheet.segments([(left, y, width - 4, y)], "line", width=0.5)
        sheet.text(left - 6, y, power_label(exponent), colour="muted", align="right")
    every = max(1, math.ceil(len(bars) * 30 / (width - left)))
    for i, low in enumerate(bars):
        x = left + 3 + step * i
        if number := counts.get(low):
            tall = 4 + (bottom - 4 - top) * math.log10(number) / high
            sheet.box(x, bottom - tall, step - 3, tall, "bad" if low == math.inf else "point")
        if i % every == 0 or low == math.inf:
            sheet.text(x + step / 2 - 1.5, bottom + 11, _bin_label(low), colour="muted", align="center")
    sheet.segments([(left, bottom, width - 4, bottom)], "line")
    sheet.text(left, 9, "elements", colour="muted")
    sheet.text((left + width) / 2, height - 6, "units in the last place", colour="muted", align="center")
    parts = [f"{_bin_name(low)}: {counts[low]:,}" for low in sorted(counts)]
    within = sum(number for low, number in counts.items() if low <= 1) / total
    alt = (
        f"Distance of {counted(total, 'output element')} from the expected value in units in the last place. "
        + "; ".join(parts)
    )
    caption = (
        f"Distance from the expected value rounded to the output's format, {counted(total, 'element')}: "
        f"{100 * within:.3g} % within one unit in the last place."
    )
    return Drawing(sheet.figure, alt + ".", caption, width)


def _bin_label(low: float) -> str:
    if low == math.inf:
        return "∞"
    return (
        f"{int(low)}"
        if low < 1000
        else "2" + str(int(math.log2(low))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    )


def _bin_name(low: float) -> str:
    if low == math.inf:
        return "not finite"
    return f"{int(low)}" if low < 2 else f"{int(low):,} to {int(2 * low) - 1:,}"
