"""Integer-exact: on small integers, sums and products round nowhere, so that every correct kernel gives the same bits.

An allowed error can hide one dropped term among thousands; equality hides nothing. Which outputs are exact is not
declared but found out: see `expectation.expect_exactly`.
"""

from __future__ import annotations

from refkit.verify.attribution import examine_trial
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.expectation import expect_exactly
from refkit.verify.findings import Examination
from refkit.verify.inputs import draw_inputs, integer_lane_obstacle
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases, fixed_cases

SHARE = 0.18
MOST_FIXED = 0.5
"""The part of this check's cases that are fixed ones, those at a dim's maximum before all others."""


class IntegerExact(Check):
    name = "integer_exact"
    summary = "bit-exact on small integers, where no operation rounds"
    order = 20

    def inapplicable(self, spec: KernelSpec) -> str:
        """Values that the spec makes itself may be no integers."""
        return integer_lane_obstacle(spec)

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """Cases of integers, if at least one output is exact in all of them."""
        count, own_seed = profile.share(SHARE), seed_of(seed, spec.name, self.name)
        fixed = sorted(
            fixed_cases(spec, values="integers", seed=own_seed % 2**32, budget=profile.budget),
            key=lambda case: "maximum" not in case.scenario,
        )[: max(1, round(MOST_FIXED * count))]
        strategy = cases(spec, values="integers", layouts=("contiguous",), budget=profile.budget)
        planned = (*fixed, *draw_cases(strategy, count - len(fixed), own_seed, exclude=frozenset(fixed)))
        if not exact_outputs(spec, planned):
            return Plan(skip="no output is exact on small integers: some operation of the reference rounds")
        return Plan(planned)

    def examine(self, run: CaseRun) -> Examination:
        """One launch, compared for equality on the outputs that are exact."""
        trial = run.trial()
        if trial.fault is not None:
            return examine_trial(run, self.name, trial)
        return examine_trial(run, self.name, trial, run.exact_expectation)


def exact_outputs(spec: KernelSpec, planned: tuple[Case, ...]) -> set[str]:
    """The outputs that are exact in every planned case; a degenerate case alone (one column) proves nothing."""
    names = set(spec.outputs)
    # From the largest case down, since it is the one in which something rounds, if anything does.
    for case in sorted(planned, key=lambda case: -sum(case.dims.values())):
        names &= set(expect_exactly(spec, case, draw_inputs(spec, case)))
        if not names:
            break
    return names


CHECK = IntegerExact()
