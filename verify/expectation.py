"""What a case's outputs must be: the reference evaluated with the error model, or exactly on small integers.

A reference that raises, or returns another number or shape of outputs than the spec declares, is a `SpecError` with the
user's file and line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from refkit.numerics import bound, formats
from refkit.numerics.bounded import Bounded
from refkit.verify.case import Case
from refkit.verify.errors import USERS_FAULTS, SpecError, raised_at
from refkit.verify.inputs import Inputs
from refkit.verify.spec import KernelSpec

Expectation = Mapping[str, Bounded]
"""By output, in the reference's order: its value and the absolute error allowed of each element."""


def expect(spec: KernelSpec, case: Case, inputs: Inputs) -> Expectation:
    """Each output with the error that the model allows it; `SpecError` where the reference does not fit the spec."""
    dtypes = [argument.storage for argument in spec.outputs.values()]
    returned: list[Any] = []

    def reference(**arguments: Any) -> Any:
        result = spec.reference(**arguments)
        spec.match_outputs(result, case.dims)
        return result

    returned = _guarded(spec, case, lambda: bound.evaluate(reference, inputs.for_reference(), spec.precision, dtypes))
    expectation = dict(zip(spec.outputs, returned))
    return expectation if spec.deterministic else {name: _flushed(bounded) for name, bounded in expectation.items()}


def _flushed(bounded: Bounded) -> Bounded:
    """The bound of a kernel that adds atomically: a float32 atomic in global memory flushes what is subnormal, both the
    operand and the sum (PTX ISA, `red`/`atom`), even where it adds a single term."""
    if bounded.kind == "exact":
        return bounded
    floor = 2 * formats.FORMATS["float32"].smallest_normal
    return dataclasses.replace(bounded, allowed=bounded.allowed + floor)


def plain_values(spec: KernelSpec, case: Case, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The reference's outputs by name for ready-made `arguments`, evaluated as plain NumPy in the precision of the
    arrays."""
    returned = _guarded(spec, case, lambda: spec.match_outputs(spec.reference(**arguments), case.dims))
    return {name: np.asarray(value) for name, value in zip(spec.outputs, returned)}


def _guarded(spec: KernelSpec, case: Case, evaluate: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return evaluate()
    except SpecError:
        raise
    except USERS_FAULTS as error:
        where = raised_at(error) or spec.source
        text = " ".join(str(error).split())
        raise SpecError(f"the reference raised {type(error).__name__}: {text} for {dict(case.dims)}", where) from error


def expect_exactly(spec: KernelSpec, case: Case, inputs: Inputs) -> Expectation:
    """The outputs of a case of small integers that any correct kernel gives exactly, rounded once to their storage
    format.

    An output is in it where its values are small multiples of 1/1024 (integers, but for a scale of 1/2 or 1/8) that the
    accumulation format holds, and where the reference evaluated in float32 comes to the same bits as in float64: then
    no step of it rounds, in whatever order it is summed.
    """
    exact = plain_values(spec, case, inputs.for_reference())
    single = plain_values(spec, case, _in_single(inputs.for_reference()))
    limit = 2.0**spec.precision.accumulate_format.significand
    kept = {}
    for name, value in exact.items():
        storage = spec.outputs[name].storage
        if not formats.is_floating(storage):
            kept[name] = Bounded(value, np.zeros(value.shape), "exact")
            continue
        value = value.astype(np.float64)
        with np.errstate(all="ignore"):
            dyadic = bool(
                np.all(np.isfinite(value) & (value * 1024 == np.rint(value * 1024)) & (np.abs(value) <= limit))
            )
        if dyadic and np.array_equal(value, single[name].astype(np.float64)):
            rounded = formats.round_to(value, formats.format_of(storage))
            kept[name] = Bounded(rounded, np.zeros(value.shape), "exact")
    return kept


def _in_single(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value
        for name, value in arguments.items()
    }
