"""Second launch: from restored memory, the same launch gives the same again.

The outputs lie on other poison, so that a result that leans on old memory differs; a launcher or kernel that keeps
state between calls (a counter that is not reset, a workspace that is not cleared) differs too. Bit for bit where the
spec is deterministic, else within twice the allowed error.
"""

from __future__ import annotations

from refkit.verify.attribution import difference, examine_trial, launch_finding
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination, Finding
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases

SHARE = 0.06


class SecondLaunch(Check):
    name = "second_launch"
    summary = "a second launch from restored memory gives the same result"
    order = 60

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Invented cases in any layout."""
        strategy = cases(spec, budget=profile.budget)
        return Plan(tuple(draw_cases(strategy, profile.share(SHARE), seed_of(seed, spec.name, self.name))))

    def examine(self, run: CaseRun) -> Examination:
        """Two launches; the first is judged, the second compared with it."""
        trial = run.trial()
        first = examine_trial(run, self.name, trial, run.expectation)
        if first.decisive is not None or trial.changed:
            return first
        second = run.trial(poison="large")
        if second.fault is not None:
            return Examination((*first.findings, launch_finding(self.name, second)))
        place = difference(run, trial, second)
        if not place:
            return first
        message = f"{place} differs in the second launch of the same case, its memory restored"
        cause = "state is kept between launches, or the result depends on what the output held before"
        return Examination((*first.findings, Finding(self.name, message, cause)), first.ratio, first.bound)


CHECK = SecondLaunch()
