"""Which input would explain a wrong output: the reference is evaluated again with one input shifted, ignored or set
to zero.

Where the kernel's wrong elements agree with such a wrong reference, the cause has a name: "s is read one place too
far along axis 0".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refkit.verify.case_run import CaseRun
from refkit.verify.errors import SpecError
from refkit.verify.expectation import plain_values
from refkit.verify.judge import OutputJudgement

ENOUGH = 4
"""The fewest wrong elements on which an agreement counts; with fewer it may be chance."""
LARGEST = 200_000
"""Elements of an output beyond which no suspect is sought, so that a diagnosis stays quick."""


def suspect(run: CaseRun, output: OutputJudgement) -> str:
    """One clause that names the input which, read wrongly, gives just this output; empty where none does."""
    wrong = output.wrong & np.isfinite(np.asarray(output.got).astype(np.float64))
    if wrong.sum() < ENOUGH or wrong.size > LARGEST:
        return ""
    got = np.asarray(output.got).astype(np.float64)
    arguments = run.inputs.for_reference()
    for clause, changed in _alternatives(run, arguments):
        try:
            other = plain_values(run.spec, run.case, {**arguments, **changed})[output.name].astype(np.float64)
        except SpecError:
            continue  # the reference has no value for such an input
        with np.errstate(all="ignore"):
            agree = np.abs(got - other) <= output.bounded.allowed
        # The shifted reference wraps round where the kernel runs out of the array, so a few elements may disagree.
        if agree[wrong].mean() >= 0.75 and (np.abs(other - output.bounded.value) > output.bounded.allowed)[wrong].all():
            return clause
    return ""


def _alternatives(run: CaseRun, arguments: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, argument in run.spec.inputs.items():
        array = arguments.get(name)
        if not isinstance(array, np.ndarray) or not array.size:
            continue
        for axis in range(array.ndim):
            if array.shape[axis] < 2:
                continue
            for step, words in ((1, "one place too far"), (-1, "one place too early")):
                where = f" along axis {axis}" if array.ndim > 1 else ""
                yield f"{name} seems to be read {words}{where}", {name: np.roll(array, -step, axis)}
        if argument.is_float:
            yield f"{name} seems to be ignored (taken as 1)", {name: np.ones_like(array)}
            yield f"{name} seems to be ignored (taken as 0)", {name: np.zeros_like(array)}
    for name in run.spec.scalars:
        if name in arguments and isinstance(arguments[name], float):
            yield f"{name} seems to be ignored (taken as 1)", {name: 1.0}
            yield f"{name} seems to be ignored (taken as 0)", {name: 0.0}
