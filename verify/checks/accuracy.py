"""Accuracy: every output, saved statistics included, lies within the error that the model allows.

The fixed cases first (boundaries, tiles, maxima, every configuration), then invented ones over plain and adversarial
values, with NaN and infinities where the spec promises something for them, and indices out of range where the
launcher promises an error.
"""

from __future__ import annotations

from refkit.verify.attribution import examine_trial
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.findings import Examination, Finding
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases, fixed_cases
from refkit.verify.trial import Trial

SHARE = 0.5
SPECIAL_SHARE = 0.05
REFUSALS = ("launcher", "exception")
"""Kinds of launch fault by which a launcher keeps its promise to refuse an index out of range."""


class Accuracy(Check):
    name = "accuracy"
    summary = "every output within the error that the reference's own arithmetic allows, on fuzzed shapes and values"
    order = 10

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """The fixed cases, the special scenarios that apply, and invented cases up to this check's share."""
        own_seed = seed_of(seed, spec.name, self.name)
        always = fixed_cases(spec, seed=own_seed % 2**32, budget=profile.budget)
        special = []
        for scenario in ("nonfinite", "out_of_range"):
            strategy = cases(spec, scenarios=(scenario,), layouts=("contiguous",), budget=profile.budget)
            special += draw_cases(strategy, profile.share(SPECIAL_SHARE), own_seed)
        strategy = cases(spec, layouts=("contiguous",), budget=profile.budget)
        # However many fixed cases there are, a fifth of the share is invented.
        invented = max(profile.share(SHARE) - len(always) - len(special), profile.share(SHARE / 5))
        drawn = draw_cases(strategy, invented, own_seed, exclude=frozenset(always))
        return Plan((*always, *special, *drawn))

    def examine(self, run: CaseRun) -> Examination:
        """One launch on NaN poison, judged by the error model."""
        if run.case.values == "out_of_range":
            return self._refusal(run, run.trial())
        return examine_trial(run, self.name, run.trial(), run.expectation)

    def _refusal(self, run: CaseRun, trial: Trial) -> Examination:
        if trial.fault is not None and trial.fault.kind in REFUSALS:
            return Examination(ratio=None)
        if trial.fault is not None:
            return examine_trial(run, self.name, trial)
        message = "an index out of range was not refused, though the spec says out_of_range='error'"
        return Examination((Finding(self.name, message, "no bounds check on an index"),))


CHECK = Accuracy()
