"""The checks: what a verification does to a kernel, a file each. A file that defines `CHECK` is a check; no list
needs an edit.

    CHECK.inapplicable(spec)          why the check has nothing to say about a spec, or nothing
    CHECK.plan(spec, profile, seed)   the cases
    CHECK.examine(run)                one case on one backend, which gives findings and figures
    CHECK.notice(run, trial)          what the check sees in any trial (guard bands, changed inputs)
    CHECK.conclude(examinations)      a finding about all cases together (fake outputs that no case rejected)

`run` is a `case_run.CaseRun`. Checks run in the order of `CHECK.order`, each on its own; see `runner`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.findings import Examination, Finding
from refkit.verify.profiles import Profile
from refkit.verify.trial import Trial

if TYPE_CHECKING:
    from refkit.verify.spec import KernelSpec


@dataclass(frozen=True)
class Plan:
    """The cases that a check judges; with none, `skip` says why it does not apply (empty for a check that only
    notices)."""

    cases: tuple[Case, ...] = ()
    skip: str = ""


class Check:
    """One check. `name` is the name in records, `summary` one line for `list`, `order` its place among the checks.

    `notices` marks a check that sees its fault in the trials of all others and has no cases of its own.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    order: ClassVar[int]
    notices: ClassVar[bool] = False

    def inapplicable(self, spec: KernelSpec) -> str:
        """Why the check has nothing to say about `spec`, as the spec alone shows; empty where it has."""
        return ""

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """The cases to judge."""
        return Plan()

    def examine(self, run: CaseRun) -> Examination:
        """Judge one case."""
        raise NotImplementedError

    def notice(self, run: CaseRun, trial: Trial) -> list[Finding]:
        """Findings against this check in a trial that any check made."""
        return []

    def enough(self, examinations: Sequence[Examination]) -> bool:
        """True where further cases would add nothing."""
        return False

    def conclude(self, examinations: Sequence[Examination]) -> Finding | None:
        """A finding that only all cases together show."""
        return None


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check of this folder, in order."""
    modules = (importlib.import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__))
    return tuple(
        sorted((module.CHECK for module in modules if hasattr(module, "CHECK")), key=lambda check: check.order)
    )


def find_check(name: str) -> Check:
    """The check called `name`; KeyError where there is none."""
    return {check.name: check for check in all_checks()}[name]


@cache
def passive_checks() -> tuple[Check, ...]:
    """The checks that notice faults in any trial."""
    return tuple(check for check in all_checks() if check.notices)
