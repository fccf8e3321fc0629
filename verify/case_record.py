"""What a check found, put into records: each case with its figures, and the figures of all cases together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from refkit.records import CaseRecord, WorstRecord
from refkit.verify.case import Case
from refkit.verify.findings import Examination


def case_record(
    case: Case,
    examination: Examination | None = None,
    ratio: float | None = None,
    reductions: Mapping[str, int] | None = None,
) -> CaseRecord:
    """The record of one case. reductions: the longest sum behind each output, by name; `ratio` counts where there is no
    examination."""
    worst = examination.worst if examination is not None else None
    return CaseRecord(
        dims=dict(case.dims),
        layout=dict(case.layouts),
        config=dict(case.config),
        ratio=examination.ratio if examination is not None else ratio,
        scenario=case.scenario,
        values=case.values,
        seed=case.seed,
        scalars=dict(case.scalars),
        absent=case.absent,
        reduction=(reductions or {}).get(worst.output) if worst is not None else None,
        error=worst.rms_error if worst is not None else None,
        allowed=worst.rms_allowed if worst is not None else None,
    )


def ulp_totals(worsts: Iterable[WorstRecord | None]) -> dict[str, int]:
    """The counts of `WorstRecord.ulps` added up, bins from the smallest on."""
    totals: Counter[str] = Counter()
    for worst in worsts:
        totals.update(worst.ulps if worst is not None else {})
    return {key: totals[key] for key in sorted(totals, key=float)}


def weakest_bound(kinds: Iterable[str]) -> str:
    """Estimated, else tracked, else exact, among `kinds`; empty of none."""
    present = set(kinds)
    return next((kind for kind in ("estimated", "tracked", "exact") if kind in present), "")


def sensitivity(figures: Iterable[Mapping[str, float]]) -> float | None:
    """The smallest relative fault that these cases would have caught, in the output where a fault is hardest to see.

    Of each output: the smallest figure over the cases of `judge.OutputJudgement.typical_sensitivity`, the relative
    fault of a typical element that the case would have caught. Of these, the largest.
    """
    smallest: dict[str, float] = {}
    for case in figures:
        for name, value in case.items():
            smallest[name] = min(value, smallest.get(name, value))
    return max(smallest.values(), default=None)
