"""Sanitizers: on the CPU, every access is watched for races, overruns and unwritten reads, every barrier for misuse.

Whatever the backend of the run, these launches run on the CPU executor: in order, and in one seeded order. The results
are judged elsewhere; what counts here is what the sanitizers report.
"""

from __future__ import annotations

from collections.abc import Iterator

from refkit.records import SourceFinding
from refkit.verify.backends import LaunchFault
from refkit.verify.backends.cpu import CpuBackend
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination, Finding
from refkit.verify.profiles import Profile
from refkit.verify.sizes import Budget
from refkit.verify.source import lines_around
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases

SHARE = 0.06
TIMEOUT = 60.0  # seconds of one watched launch
MOST_ELEMENTS = 2**13  # a watched access costs some twenty plain ones


class Sanitizers(Check):
    name = "sanitizers"
    summary = "no race, no access out of bounds, no read of what nothing wrote, no misused barrier"
    order = 85

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Invented contiguous cases of moderate size, in at most two configurations."""
        if not profile.sanitize:
            return Plan(skip=f"not in the profile {profile.name}")
        budget = Budget(min(profile.budget.elements, MOST_ELEMENTS), min(profile.budget.operations, 2**16))
        strategy = cases(spec, layouts=("contiguous",), budget=budget)
        drawn = draw_cases(strategy, 3 * profile.share(SHARE), seed_of(seed, spec.name, self.name))
        return Plan(tuple(_in_few_configurations(drawn))[: profile.share(SHARE)])

    def examine(self, run: CaseRun) -> Examination:
        """The case under all sanitizers, in order and in one seeded order of threads."""
        backend = CpuBackend(timeout=TIMEOUT, sanitize=True)
        with backend.active():
            for schedule in (None, run.case.seed % 2**31):
                trial = CaseRun(run.spec, run.case, backend).trial(schedule=schedule)
                if trial.fault is not None:
                    return _examination(trial.fault)
        return Examination()


def _in_few_configurations(drawn: list[Case]) -> Iterator[Case]:
    """The cases in the first two configurations that occur, with the arguments present that the first case has."""
    configurations: list[object] = []
    for case in drawn:
        if case.config not in configurations and len(configurations) < 2:
            configurations.append(case.config)
        if case.config in configurations and case.absent == drawn[0].absent:
            yield case


def _examination(fault: LaunchFault) -> Examination:
    if fault.kind != "sanitizer":
        return Examination((Finding("sanitizers", str(fault), fault.cause),))
    sources = tuple(
        SourceFinding(
            f"{finding.sanitizer}: {finding.problem}",
            finding.message,
            finding.file,
            finding.line,
            *lines_around(finding.file, finding.line),
        )
        for finding in fault.findings
    )
    first = fault.findings[0]
    return Examination(
        (Finding("sanitizers", str(fault), f"{first.sanitizer}: {first.problem}", decisive=False),), sources=sources
    )


CHECK = Sanitizers()
