"""Every output written: no element still holds what its memory held before the launch.

Two launches on different poison, a NaN and an enormous number (`fmax` would hide a NaN). That elements are unwritten
is also noticed wherever an output is wrong: see `attribution`.
"""

from __future__ import annotations

from refkit.verify.attribution import examine_trial, unwritten_finding
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases
from refkit.verify.trial import MODERATE

SHARE = 0.05


class EveryOutputWritten(Check):
    name = "every_output_written"
    summary = "outputs are poisoned before the launch, and no element keeps its poison"
    order = 30

    def inapplicable(self, spec: KernelSpec) -> str:
        """An updated array keeps its old value, and cannot be poisoned."""
        poisoned = any(not argument.given for argument in spec.outputs.values())
        return "" if poisoned else "the kernel has no pure output: it only updates arrays"

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Invented cases."""
        strategy = cases(spec, budget=profile.budget)
        return Plan(tuple(draw_cases(strategy, profile.share(SHARE), seed_of(seed, spec.name, self.name))))

    def examine(self, run: CaseRun) -> Examination:
        """Launches on each poison; an element is unwritten where it keeps both an enormous and an ordinary number."""
        first = examine_trial(run, self.name, trial := run.trial(poison="large"), run.expectation)
        if first.decisive is not None:
            return first
        second = run.trial(poison=MODERATE)
        if second.fault is not None:
            return examine_trial(run, self.name, second)
        finding = unwritten_finding(run, trial, second)
        return first if finding is None else Examination((*first.findings, finding), first.ratio, first.bound)


CHECK = EveryOutputWritten()
