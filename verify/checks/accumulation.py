"""Accumulation: an array that the kernel updates is updated from whatever it holds, twice in a row.

The first launch adds onto non-zero values, the second onto what the first one left: an update that overwrites, or
that only works on zeros, shows in one of them.
"""

from __future__ import annotations

from refkit.verify.arguments import InOut
from refkit.verify.attribution import examine_trial
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases

SHARE = 0.05


class Accumulation(Check):
    name = "accumulation"
    summary = "`+=` onto non-zero values, twice in a row"
    order = 90

    def inapplicable(self, spec: KernelSpec) -> str:
        """Only an `InOut` array is accumulated into."""
        updates = any(isinstance(argument, InOut) for argument in spec.args.values())
        return "" if updates else "the kernel updates no array in place (no InOut)"

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Invented cases of ordinary values."""
        strategy = cases(spec, values=("normal", "positive"), budget=profile.budget)
        return Plan(tuple(draw_cases(strategy, profile.share(SHARE), seed_of(seed, spec.name, self.name))))

    def examine(self, run: CaseRun) -> Examination:
        """Two launches, the second on the arrays that the first one left; each is judged."""
        trial = run.trial()
        first = examine_trial(run, self.name, trial, run.expectation)
        if first.decisive is not None:
            return first
        after = run.continued(trial)
        return examine_trial(after, self.name, after.trial(), after.expectation)


CHECK = Accumulation()
