"""Determinism: the result does not depend on the order in which threads, warps and blocks run.

On the CPU each case runs in several seeded orders, which is also what brings a missing barrier to light; on a GPU,
where the hardware chooses the order, it is launched several times. All launches agree bit for bit where the spec is
deterministic, else within twice the allowed error.
"""

from __future__ import annotations

from refkit.verify.attribution import examine_trial, order_finding
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
        """One launch in the plain order, judged, then one per seeded order, compared with it."""
        trial = run.trial()
        first = examine_trial(run, self.name, trial, run.expectation)
        if first.decisive is not None or trial.changed:
            return first
        finding = order_finding(run, trial, self.orders)
        return first if finding is None else Examination((*first.findings, finding), first.ratio, first.bound)


CHECK = Determinism()
