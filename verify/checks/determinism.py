"""Determinism: the result does not depend on the order in which threads, warps and blocks run.

On the CPU each case runs in several seeded orders, which is also what brings a missing barrier to light; on a GPU,
where the hardware chooses the order, it is launched several times. Bit for bit where the spec is deterministic, else
within twice the allowed error.
"""

from __future__ import annotations

from refkit.verify.attribution import differing_finding, examine_trial
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases

SHARE = 0.06


class Determinism(Check):
    name = "determinism"
    summary = "the same result in several seeded orders of threads"
    order = 80

    def __init__(self) -> None:
        self.orders = 3

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Invented contiguous cases."""
        self.orders = profile.schedules
        strategy = cases(spec, layouts=("contiguous",), budget=profile.budget)
        return Plan(tuple(draw_cases(strategy, profile.share(SHARE), seed_of(seed, spec.name, self.name))))

    def examine(self, run: CaseRun) -> Examination:
        """One launch in the ordinary order, judged, then one per other order, compared with it."""
        trial = run.trial()
        first = examine_trial(run, self.name, trial, run.expectation)
        if first.decisive is not None or trial.changed:
            return first
        for schedule in range(1, self.orders + 1):
            how = f"thread order {schedule}" if run.backend.schedules else "again"
            finding = differing_finding(run, trial, run.trial(schedule=schedule), how)
            if finding is not None:
                return Examination((*first.findings, finding), first.ratio, first.bound)
        return first


CHECK = Determinism()
