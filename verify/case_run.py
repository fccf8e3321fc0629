"""One case on one backend: its inputs, its expectation and its trials, each made once and when it is first asked
for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from refkit.verify.backends import Backend
from refkit.verify.case import Case
from refkit.verify.expectation import Expectation, expect, expect_exactly
from refkit.verify.inputs import Inputs, draw_inputs
from refkit.verify.slabs import Slab
from refkit.verify.spec import KernelSpec
from refkit.verify.trial import Trial, place_inputs, run_trial


class CaseRun:
    """What a check examines. Raises `SpecError` from `inputs` and the expectations where the spec itself is wrong."""

    def __init__(self, spec: KernelSpec, case: Case, backend: Backend) -> None:
        self.spec = spec
        self.case = case
        self.backend = backend

    @cached_property
    def inputs(self) -> Inputs:
        """The arguments of the launch."""
        return draw_inputs(self.spec, self.case)

    @cached_property
    def slabs(self) -> dict[str, Slab]:
        """The placed inputs."""
        return place_inputs(self.spec, self.case, self.inputs)

    @cached_property
    def expectation(self) -> Expectation:
        """The outputs with the error that the model allows."""
        return expect(self.spec, self.case, self.inputs)

    @cached_property
    def exact_expectation(self) -> Expectation:
        """The outputs that small integers make exact."""
        return expect_exactly(self.spec, self.case, self.inputs)

    def trial(self, *, poison: str = "nan", schedule: int | None = None) -> Trial:
        """Launch once, from restored memory."""
        return run_trial(self.spec, self.case, self.inputs, self.slabs, self.backend, poison=poison, schedule=schedule)

    def continued(self, trial: Trial) -> CaseRun:
        """The run of the same case whose `InOut` arrays start from what `trial` left in them."""
        after = CaseRun(self.spec, self.case, self.backend)
        arrays = {
            name: np.ascontiguousarray(trial.outputs[name]) if name in trial.outputs else array
            for name, array in self.inputs.arrays.items()
        }
        after.inputs = Inputs(self.spec, self.case, arrays, self.inputs.scalars)
        return after
