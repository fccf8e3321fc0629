"""A failing case made small: hypothesis looks among cases that are at most as large for the plainest that fails in
the same way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import hypothesis

from refkit.verify.case import Case
from refkit.verify.drawing import only_the_seed_decides, quiet_settings
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases

Fails = Callable[[Case], bool]

MOST_TRIALS = 400
"""Cases tried at most. The clock only guards against slow ones, so that the result depends on the seed alone."""


def shrink(spec: KernelSpec, case: Case, fails: Fails, seconds: float, seed: int = 0) -> Case:
    """The plainest case found that `fails` still holds for; `case` itself where nothing plainer was found in time."""
    search = _Search(fails, case, seconds)

    @hypothesis.seed(seed)
    @quiet_settings(max_examples=MOST_TRIALS, phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink))
    @hypothesis.given(cases(spec, anchor=case))
    def attempt(candidate: Case) -> None:
        if search.fails(candidate):
            raise _StillFails

    try:
        with only_the_seed_decides():
            attempt()
    except _StillFails:
        pass
    except hypothesis.errors.HypothesisException:
        # Out of time or of trials in the middle of its work: what was found by then stands.
        pass
    return search.best


class _StillFails(Exception):
    """How a failing candidate is shown to hypothesis."""


class _Search:
    """Every verdict is remembered, so that hypothesis sees the same outcome when it replays a case, and none is
    launched twice."""

    def __init__(self, fails: Fails, case: Case, seconds: float) -> None:
        self._fails = fails
        self._deadline = time.monotonic() + seconds
        self._known: dict[Case, bool] = {case: True}
        self.best = case

    def fails(self, candidate: Case) -> bool:
        if candidate not in self._known:
            if len(self._known) > MOST_TRIALS or time.monotonic() > self._deadline:
                return False
            self._known[candidate] = self._fails(candidate)
        if self._known[candidate] and complexity(candidate) < complexity(self.best):
            self.best = candidate
        return self._known[candidate]


def complexity(case: Case) -> tuple[Any, ...]:
    """What makes one case plainer than another: fewer elements, smaller dims, contiguous, ordinary values, a small
    seed."""
    sizes = list(case.dims.values())
    elements = 1
    for size in sizes:
        elements *= max(size, 1)
    plain_values = case.values in ("normal", "integers")
    return (sum(sizes), elements, len(case.layouts), len(case.absent), not plain_values, case.seed)
