"""Trust: would these cases have rejected a kernel that does nothing?

Fake outputs (zeros, a constant, a copy of an input, the output of another call) go through the same judgement as the
kernel's. A fake that no case rejects means that a pass proves nothing: the verdict is `mistrusted`, never `passed`.
Nothing is launched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from refkit.numerics.bounded import Bounded
from refkit.numerics.formats import format_of, is_floating, round_to
from refkit.records import Verdict
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.checks.accuracy import CHECK as ACCURACY
from refkit.verify.expectation import plain_values
from refkit.verify.findings import Examination, Finding
from refkit.verify.inputs import draw_inputs
from refkit.verify.judge import judge
from refkit.verify.profiles import Profile
from refkit.verify.spec import KernelSpec


class Trust(Check):
    name = "trust"
    summary = "fake outputs (zeros, a constant, copies, stale results) are rejected by the accuracy cases"
    order = 100

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """The accuracy cases, without those whose launch is to be refused."""
        planned = ACCURACY.plan(spec, profile, seed).cases
        return Plan(tuple(case for case in planned if case.values != "out_of_range"))

    def examine(self, run: CaseRun) -> Examination:
        """The fakes that this case lets pass."""
        survivors, identical = _surviving(run)
        return Examination(survivors=survivors, identical=identical)

    def enough(self, examinations: Sequence[Examination]) -> bool:
        """True once every fake was rejected by some case."""
        return not frozenset.intersection(*(examination.survivors for examination in examinations))

    def conclude(self, examinations: Sequence[Examination]) -> Finding | None:
        """The finding that names the fakes which no case rejected."""
        if not examinations:
            return None
        survivors = frozenset.intersection(*(examination.survivors for examination in examinations))
        # A kernel that is to copy its input is not faked by a copy.
        survivors -= frozenset.intersection(*(examination.identical for examination in examinations))
        if not survivors:
            return None
        message = f"no case rejects {', '.join(sorted(survivors))}: a pass of these cases proves nothing"
        return Finding(self.name, message, "the values drawn do not tell right from wrong", verdict=Verdict.MISTRUSTED)


def _surviving(run: CaseRun) -> tuple[frozenset[str], frozenset[str]]:
    """The labels of the fakes that this case does not reject, and of the copies that are just what is expected."""
    survivors, identical = set(), set()
    stale = _stale_outputs(run)
    for name, bounded in run.expectation.items():
        storage = run.spec.outputs[name].storage
        value = np.asarray(bounded.value)
        fakes = {"0": np.zeros(value.shape), "1": np.ones(value.shape), "what another call left": stale[name]}
        for words, fake in fakes.items():
            if _holds(name, bounded, _stored(fake, storage)):
                survivors.add(f"{name} = {words}")
        expected = _stored(value, storage)
        for key, argument in run.spec.inputs.items():
            if len(argument.dims) != value.ndim:
                continue
            label = f"{name} = a copy of {key}"
            array = run.inputs.arrays[key]
            if array is None or array.shape != value.shape:
                # A case in which the copy cannot be made speaks neither for it nor against it.
                survivors.add(label)
                identical.add(label)
                continue
            fake = _stored(array, storage)
            if _holds(name, bounded, fake):
                survivors.add(label)
                # An update that changes nothing in any case is not an identity but a case that shows nothing.
                if key != name and np.array_equal(_values(fake), _values(expected), equal_nan=True):
                    identical.add(label)
    return frozenset(survivors), frozenset(identical)


def _values(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if is_floating(array.dtype) else array


def _holds(name: str, bounded: Bounded, fake: np.ndarray) -> bool:
    return judge({name: bounded}, {name: fake}).holds


def _stale_outputs(run: CaseRun) -> dict[str, np.ndarray]:
    """What a launch that does nothing would leave of an earlier call: the right outputs of the same case with another
    seed, and of other scalars where an output does not depend on the arrays at all."""
    other = replace(run.case, seed=run.case.seed ^ 0x5BD1E995)
    stale = _right_outputs(run.spec, other)
    same = [name for name, bounded in run.expectation.items() if np.array_equal(stale[name], np.asarray(bounded.value))]
    if same and run.spec.scalars:
        with_other_scalars = _right_outputs(run.spec, replace(other, scalars=_other_scalars(run)))
        stale |= {name: with_other_scalars[name] for name in same}
    return stale


def _right_outputs(spec: KernelSpec, case: Case) -> dict[str, np.ndarray]:
    return plain_values(spec, case, draw_inputs(spec, case).for_reference())


def _other_scalars(run: CaseRun) -> dict[str, float | int | bool]:
    """Each scalar's next choice, and each flag turned over."""
    others: dict[str, float | int | bool] = {}
    for name, value in {**run.spec.plain_scalars(), **run.case.scalars}.items():
        choices = getattr(run.spec.scalars[name], "values", (False, True))
        place = choices.index(value) if value in choices else -1
        others[name] = choices[(place + 1) % len(choices)]
    return others


def _stored(fake: np.ndarray, storage: np.dtype) -> np.ndarray:
    fake = np.asarray(fake)
    with np.errstate(all="ignore"):
        if is_floating(storage) and storage.itemsize < 4:
            return round_to(fake.astype(np.float64), format_of(storage)).astype(storage)
        return fake.astype(storage)


CHECK = Trust()
