"""Layouts: inputs that are strided, transposed, offset or broadcast give what contiguous ones give.

The layout of each input is drawn on its own (an upstream gradient is often broadcast, with stride 0, while `x` is not).
"""

from __future__ import annotations

from refkit.verify.attribution import examine_trial
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination
from refkit.verify.layouts import LAYOUTS
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases

SHARE = 0.14


class Layouts(Check):
    name = "layouts"
    summary = "strided, transposed, offset and broadcast arrays are read and written right"
    order = 70

    def inapplicable(self, spec: KernelSpec) -> str:
        """A launcher that takes contiguous arrays only is given no others."""
        only = all(spec.layouts_of(name) == ("contiguous",) for name in spec.arrays)
        return "the spec takes contiguous arrays only" if only else ""

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Invented cases in which at least one array is not contiguous."""
        count = profile.share(SHARE)
        # The odd case in which every array came out contiguous is left out, so one in two more is drawn.
        strategy = cases(spec, layouts=LAYOUTS, budget=profile.budget)
        drawn = draw_cases(strategy, 2 * count, seed_of(seed, spec.name, self.name))
        return Plan(tuple([case for case in drawn if case.layouts][:count]))

    def examine(self, run: CaseRun) -> Examination:
        """One launch, judged by the error model."""
        return examine_trial(run, self.name, run.trial(), run.expectation)


CHECK = Layouts()
