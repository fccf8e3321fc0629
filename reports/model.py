"""A run as the report sees it: frozen classes with what the page asks of them (fields: docs/design/report_data.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from refkit.reports.analysis import AnalysisView
from refkit.reports.values import severity, text


@dataclass(frozen=True)
class CaseView:
    """One case of a check: what was tried and how close it came. `reduction`, `error` and `allowed` are those of
    `refkit.records.CaseRecord`."""

    dims: Mapping[str, int]
    layouts: Mapping[str, str]
    config: Mapping[str, Any]
    scenario: str
    values: str
    scalars: Mapping[str, Any]
    absent: tuple[str, ...]
    ratio: float | None
    reduction: int | None = None
    error: float | None = None
    allowed: float | None = None

    @property
    def shape(self) -> str:
        """The dims in one line, "R 7 · C 130", each name kept with its size."""
        return " · ".join(f"{name}\N{NO-BREAK SPACE}{size:,}" for name, size in self.dims.items()) or "no dims"

    @property
    def elements(self) -> int:
        """The product of the dims, the measure of a small case."""
        return math.prod(self.dims.values())

    @property
    def details(self) -> str:
        """Everything but the dims in one line; contiguous layouts go without saying."""
        layouts = {name: layout for name, layout in self.layouts.items() if layout != "contiguous"}
        parts = [
            text(self.config),
            text(layouts),
            self.values and f"values {self.values}",
            text(self.scalars),
            self.absent and f"without {', '.join(self.absent)}",
            self.scenario,
        ]
        return " · ".join(part for part in parts if part)


@dataclass(frozen=True)
class WorstView:
    """The worst element of a check; `map` is float64 (m, n), masked where nothing was compared."""

    output: str
    index: tuple[int, ...]
    got: float | None
    expected: float | None
    allowed: float | None
    shape: tuple[int, ...]
    map: np.ma.MaskedArray | None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def position(self) -> str:
        """The element as it is written in Python, "y[3, 17]"."""
        return f"{self.output or 'output'}[{', '.join(str(i) for i in self.index)}]"

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows and columns of the output seen as a matrix; (0, 0) where the shape is unknown."""
        if not self.shape:
            return (0, 0)
        return (math.prod(self.shape[:-1]), self.shape[-1])


@dataclass(frozen=True)
class FindingView:
    """What a sanitizer saw. `code` holds the lines around it: number, text, and whether it is the line meant."""

    what: str
    place: str
    rest: str = ""
    code: tuple[tuple[int, str, bool], ...] = ()


@dataclass(frozen=True)
class CheckView:
    """One check of one kernel."""

    name: str
    status: str
    cases: int
    worst_ratio: float | None
    message: str
    diagnosis: str
    case_file: str
    replay: str
    bound: str
    sensitivity: float | None
    cases_data: tuple[CaseView, ...]
    case: CaseView | None
    case_is_shrunk: bool
    worst: WorstView | None
    findings: tuple[FindingView, ...]
    ulps: Mapping[str, int] = field(default_factory=dict)
    orders: int | None = None
    pattern: WorstView | None = None

    @property
    def mapped(self) -> WorstView | None:
        """The element whose error map shows most: `pattern` where there is one, else `worst`; None without a map."""
        known = [each for each in (self.pattern, self.worst) if each is not None and each.map is not None]
        return known[0] if known else None

    @property
    def fails(self) -> bool:
        return self.status not in ("passed", "skipped")


@dataclass(frozen=True)
class MutationView:
    """What mutation testing of the kernel found; `survived` says what each survivor changed."""

    mutants: int
    killed: int
    survived: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelView:
    """One kernel; `slug` names its PNG files and its place in the page, unique in the run."""

    name: str
    operator: str
    direction: str
    precision: str
    status: str
    cases: int
    seconds: float | None
    source: str
    message: str
    checks: tuple[CheckView, ...]
    slug: str = ""
    deterministic: bool | None = None
    analysis: AnalysisView | None = None
    mutation: MutationView | None = None

    @property
    def fails(self) -> bool:
        return self.status not in ("passed", "skipped")

    def check(self, name: str) -> CheckView | None:
        """The check of that name."""
        return next((check for check in self.checks if check.name == name), None)

    @property
    def failing_checks(self) -> tuple[CheckView, ...]:
        return tuple(check for check in self.checks if check.fails)

    @cached_property
    def all_cases(self) -> tuple[CaseView, ...]:
        return tuple(case for check in self.checks for case in check.cases_data)

    @cached_property
    def worst_ratio(self) -> float | None:
        """The worst of the checks' own figures and of their cases."""
        ratios = [check.worst_ratio for check in self.checks] + [case.ratio for case in self.all_cases]
        return max(ratios, key=severity, default=None)

    @cached_property
    def worst_case(self) -> CaseView | None:
        """The case with the worst ratio, None where no case was measured."""
        measured = [case for case in self.all_cases if case.ratio is not None]
        return max(measured, key=lambda case: severity(case.ratio), default=None)

    @property
    def bounds(self) -> str:
        """The kinds of bound of the checks, "tracked, exact"."""
        return ", ".join(dict.fromkeys(check.bound for check in self.checks if check.bound))

    @property
    def sensitivity(self) -> float | None:
        """The smallest relative fault that `accuracy` would have caught, as the terminal shows it; without that check,
        any of the checks."""
        known = {check.name: check.sensitivity for check in self.checks}
        figures = [known["accuracy"]] if known.get("accuracy") is not None else list(known.values())
        return min((value for value in figures if value is not None and not math.isnan(value)), default=None)


@dataclass(frozen=True)
class RunView:
    """A whole run; `kernels` come failures first, then in the order of the run."""

    refkit: str
    backend: str
    profile: str
    seed: str
    command: str
    environment: tuple[tuple[str, str], ...]
    interrupted: str
    checks: int
    cases: int
    seconds: float | None
    kernels: tuple[KernelView, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def failing(self) -> tuple[KernelView, ...]:
        return tuple(kernel for kernel in self.kernels if kernel.fails)
