"""A kernel's cases drawn: error against allowed error, and the shapes that were tried."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refkit.reports.drawing import Drawing, Sheet, decades, power_label, shorten
from refkit.reports.model import CaseView, CheckView, KernelView
from refkit.reports.values import counted, exceeds, plain, severity
from refkit.reports.values import ratio as shown_ratio

CASES_DRAWN = 240
"""Cases of one check that are drawn of a failing kernel; of a passing one a third."""
_ALWAYS_DRAWN = 20
_LABEL = 126
_ROW, _COMPACT_ROW = 26, 19


def errors_figure(kernel: KernelView, width: int = 460) -> Drawing | None:
    """A row per check and a dot per case: |error| / allowed error on a log scale, 1 marked; None without cases.

    Within its row the cases run from top to bottom in the order in which they were tried.
    """
    rows = [(check, _measured(check)) for check in kernel.checks]
    rows = [(check, cases) for check, cases in rows if cases]
    if not rows:
        return None
    ratios = [case.ratio for _, cases in rows for case in cases if case.ratio is not None]
    low, high = _ratio_range(ratios)
    row, most = (_ROW, CASES_DRAWN) if kernel.fails else (_COMPACT_ROW, CASES_DRAWN // 3)
    left, right, top = _LABEL + 30, width - 86, 30
    bottom = top + row * len(rows)
    sheet = Sheet(width, bottom + 26)

    def place(ratio: float) -> float:
        if not math.isfinite(ratio):
            return right + 20
        if ratio == 0:
            return left - 20
        exponent = min(max(math.log10(abs(ratio)), low), high)
        return left + (right - left) * (exponent - low) / (high - low)

    one = place(1.0)
    sheet.box(one, top - 4, right + 32 - one, bottom - top + 8, "band")
    exponents = decades(low, high, 5)
    ticks = [place(10.0**exponent) for exponent in exponents]
    sheet.segments([(x, top - 4, x, bottom + 4) for x in ticks], "line")
    sheet.segments(
        [(_LABEL, top + row * i, right + 32, top + row * i) for i in range(len(rows) + 1)], "line", width=0.5
    )
    sheet.segments([(one, top - 10, one, bottom + 4)], "bad", width=1.5)
    sheet.text(one, 9, "allowed", colour="bad", align="center")
    sheet.text(width - 4, 9, "worst", colour="muted", align="right")
    zero = any(ratio == 0 for ratio in ratios)
    not_finite = not all(math.isfinite(ratio) for ratio in ratios)
    for exponent, x in zip(exponents, ticks):
        crowded = (zero and x < left + 8) or (not_finite and x > right - 24)
        if not crowded or exponent == 0:
            sheet.text(x, bottom + 15, power_label(exponent), colour="muted", align="center")
    if zero:
        sheet.text(left - 20, bottom + 15, "0", colour="muted", align="center")
    if not_finite:
        sheet.text(right + 20, bottom + 15, "∞ NaN", colour="muted", align="center")
    good: list[tuple[float, float]] = []
    bad: list[tuple[float, float]] = []
    for i, (check, cases) in enumerate(rows):
        worst = max((case.ratio for case in cases), key=severity)
        y = top + row * i
        sheet.text(0, y + row / 2, shorten(check.name, 20), colour="bad" if check.fails else "ink")
        sheet.text(
            width - 4, y + row / 2, shown_ratio(worst), colour="bad" if exceeds(worst) else "muted", align="right"
        )
        for j, case in _thinned(cases, most):
            spread = 0.5 if len(cases) == 1 else j / (len(cases) - 1)
            (bad if exceeds(case.ratio) else good).append((place(case.ratio or 0.0), y + 4 + (row - 8) * spread))
    sheet.dots(good, "point", size=3.5)
    sheet.dots(bad, "bad", size=4.5)
    return Drawing(sheet.figure, _errors_alt(rows), _errors_caption(kernel, rows, most), width)


def coverage_figure(kernel: KernelView, width: int = 360) -> Drawing | None:
    """A strip per dim with a mark for every size tried, red where a case of that size failed; None without dims."""
    tried: dict[str, set[int]] = {}
    failed: dict[str, set[int]] = {}
    for case in kernel.all_cases:
        for name, size in case.dims.items():
            tried.setdefault(name, set()).add(size)
            if exceeds(case.ratio):
                failed.setdefault(name, set()).add(size)
    if not tried:
        return None
    top, left, right = 6, 58, width - 76
    bottom = top + _ROW * len(tried)
    sheet = Sheet(width, bottom + 24)
    largest = max(max(sizes) for sizes in tried.values())
    high = max(1.0, math.log10(max(largest, 1)))
    zero = any(0 in sizes for sizes in tried.values())
    start = left + (20 if zero else 4)

    def place(size: int) -> float:
        return left + 4 if size <= 0 else start + (right - start) * math.log10(size) / high

    exponents = decades(0, int(high), 5)
    ticks = [place(10**exponent) for exponent in exponents]
    sheet.segments([(x, top, x, bottom + 2) for x in ticks], "line")
    for exponent, x in zip(exponents, ticks):
        sheet.text(x, bottom + 12, power_label(exponent), colour="muted", align="center")
    if zero:
        sheet.text(left + 4, bottom + 12, "0", colour="muted", align="center")
    for i, (name, sizes) in enumerate(tried.items()):
        y = top + _ROW * i + _ROW / 2
        bad = failed.get(name, set())
        sheet.text(0, y, shorten(name, 8))
        sheet.segments([(left, y, right, y)], "line", width=0.75)
        sheet.segments([(place(s), y - 7, place(s), y + 7) for s in sorted(sizes - bad)], "point", width=1.25)
        sheet.segments([(place(s), y - 9, place(s), y + 9) for s in sorted(bad)], "bad", width=1.75)
        sheet.text(width - 4, y, counted(len(sizes), "size"), colour="muted", align="right")
    parts = [f"{name}: {counted(len(s), 'size')} from {min(s):,} to {max(s):,}" for name, s in tried.items()]
    caption = "Sizes tried of each dim" + (", red where a case of that size failed." if failed else ".")
    return Drawing(sheet.figure, "Sizes tried. " + "; ".join(parts) + ".", caption, width)


def _measured(check: CheckView) -> list[CaseView]:
    return [case for case in check.cases_data if case.ratio is not None]


def _ratio_range(ratios: Sequence[float]) -> tuple[int, int]:
    """Whole decades that hold 1 and every ratio from 1e-8 to 1e12; what lies beyond stands at the edge."""
    logs = [math.log10(abs(ratio)) for ratio in ratios if math.isfinite(ratio) and ratio != 0]
    low, high = math.floor(min(logs, default=-1.0)), math.ceil(max(logs, default=0.0))
    return max(min(low, -2), -8), min(max(high, 1), 12)


def _thinned(cases: list[CaseView], most: int) -> list[tuple[int, CaseView]]:
    """The cases with their numbers; of many, the worst ones and an even choice of the others."""
    numbered = list(enumerate(cases))
    if len(numbered) <= most:
        return numbered
    by_severity = sorted(numbered, key=lambda item: severity(item[1].ratio), reverse=True)
    kept = {j for j, _ in by_severity[:_ALWAYS_DRAWN]}
    others = [j for j, _ in numbered if j not in kept]
    spare = most - len(kept)
    kept |= {others[k * len(others) // spare] for k in range(spare)}
    return [(j, case) for j, case in numbered if j in kept]


def _errors_alt(rows: list[tuple[CheckView, list[CaseView]]]) -> str:
    parts = []
    for check, cases in rows:
        ratios = sorted((case.ratio for case in cases), key=severity)
        over = sum(exceeds(ratio) for ratio in ratios)
        parts.append(
            f"{check.name}: {counted(len(cases), 'case')}, median {plain(ratios[len(ratios) // 2])}, "
            f"worst {shown_ratio(ratios[-1])}, {over:,} above 1"
        )
    return "Error divided by allowed error. " + "; ".join(parts) + "."


def _errors_caption(kernel: KernelView, rows: list[tuple[CheckView, list[CaseView]]], most: int) -> str:
    total = sum(len(cases) for _, cases in rows)
    drawn = sum(min(len(cases), most) for _, cases in rows)
    unmeasured = len(kernel.all_cases) - total
    caption = f"Error divided by allowed error, a dot per case; {counted(total, 'case')}"
    caption += f", {drawn:,} of them drawn" if drawn < total else ""
    return caption + (f"; {unmeasured:,} not measured." if unmeasured else ".")
