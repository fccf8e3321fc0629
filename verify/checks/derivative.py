"""Derivative: the reference of a backward kernel really is the derivative of its forward reference.

For a gradient `dx` of the input `x`, a direction v and upstream gradients dy, the two sides of

    sum(dx * v)  =  d/dt sum(dy * forward(x + t v))  at t = 0

are compared in float64, the right one by central differences at two step sizes. Nothing is launched: a reference that
is wrong would make every verdict about the kernel wrong, so it is an error. Gradients and upstream gradients are known
by their names: `dx` or `grad_x` is that of `x`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refkit.records import Verdict
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan
from refkit.verify.drawing import seed_of
from refkit.verify.errors import USERS_FAULTS, SpecError, raised_at
from refkit.verify.expectation import plain_values
from refkit.verify.findings import Examination, Finding
from refkit.verify.inputs import Inputs, draw_inputs
from refkit.verify.profiles import Profile
from refkit.verify.sizes import small_dims
from refkit.verify.spec import KernelSpec

STEP = 2.0**-12
"""The larger step, against inputs of size one; the smaller is half of it. The error of a central difference falls
with the square of the step, that of its rounding grows with 2^-52 / step: at 2^-12 both are near 1e-8 or below."""
DIRECTIONS = 2


class Derivative(Check):
    name = "derivative"
    summary = "the reference of a backward kernel agrees with directional derivatives of the forward reference"
    order = 5

    def inapplicable(self, spec: KernelSpec) -> str:
        """Without a forward reference there is nothing to compare with."""
        return "" if spec.derivative_of is not None else "the spec names no forward reference (derivative_of)"

    def plan(self, spec: KernelSpec, profile: Profile, seed: int) -> Plan:
        """One small case of ordinary values."""
        case = Case(
            dims=small_dims(spec),
            config=spec.combinations[0],
            values="normal",
            scalars=spec.plain_scalars(),
            seed=seed_of(seed, spec.name, self.name) % 2**32,
            scenario="derivative",
        )
        missing = _Forward(spec, draw_inputs(spec, case)).obstacle
        return Plan(skip=missing) if missing else Plan((case,))

    def examine(self, run: CaseRun) -> Examination:
        """Compare each gradient in a few directions."""
        forward = _Forward(run.spec, run.inputs)
        gradients = forward.gradients(run.case)
        rng = np.random.default_rng(run.case.seed)
        worst = 0.0
        for name, gradient in gradients.items():
            for _ in range(DIRECTIONS):
                direction = rng.standard_normal(gradient.shape)
                stated = float(np.sum(gradient * direction))
                found, allowed = forward.slope(_subject(name), direction)
                # With no slope and no allowance, only equality holds.
                ratio = 0.0 if stated == found else abs(stated - found) / allowed if allowed else np.inf
                worst = max(worst, ratio) if not np.isnan(ratio) else np.inf
                if not ratio <= 1:
                    message = (
                        f"the reference VJP disagrees with its forward reference: {name} gives a slope of {stated:.9g} "
                        f"in a random direction, the forward reference {found:.9g} (±{allowed:.1g})"
                    )
                    finding = Finding(self.name, message, "the reference is wrong", verdict=Verdict.ERROR)
                    return Examination((finding,), ratio=worst)
        return Examination(ratio=worst)


class _Forward:
    """The forward reference with the values of one case.

    The forward's outputs are known by the fields of the named tuple that it returns, or, where it returns one
    array, by the only upstream gradient. Saved statistics among the backward kernel's inputs are taken from them.
    """

    def __init__(self, spec: KernelSpec, inputs: Inputs) -> None:
        assert spec.derivative_of is not None
        self.spec = spec
        self.function: Callable[..., Any] = spec.derivative_of
        self.given = {**inputs.for_reference(), **spec_arguments(spec, inputs)}
        parameters = inspect.signature(self.function).parameters
        self.values = {name: self.given[name] for name in parameters if name in self.given}
        self.obstacle = ""
        for name, parameter in parameters.items():
            if name not in self.given and parameter.default is inspect.Parameter.empty:
                self.obstacle = f"the forward reference needs {name!r}, which the backward kernel does not take"
                return
        self.outputs = self._named(self(**self.values))
        self.upstream = {_subject(name): array for name, array in self.given.items() if _subject(name) in self.outputs}
        if not self.upstream:
            self.obstacle = "no input is named after an output of the forward reference, as dy is after y"
        elif not any(self._differentiates(name) for name in spec.outputs):
            self.obstacle = "no output is named after an input of the forward reference, as dx or grad_x is after x"

    def __call__(self, **values: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return self.function(**values)
        except USERS_FAULTS as error:
            where = raised_at(error) or self.spec.source
            raise SpecError(f"the forward reference raised {type(error).__name__}: {error}", where) from error

    def _named(self, result: Any) -> dict[str, np.ndarray]:
        fields = getattr(result, "_fields", None)
        if fields:
            return dict(zip(fields, result))
        results = result if isinstance(result, (tuple, list)) else (result,)
        upstream = [_subject(name) for name in self.given if self._is_upstream(name)]
        return dict(zip(upstream, results))

    def _is_upstream(self, name: str) -> bool:
        return bool(_subject(name)) and name not in self.values and name not in self.spec.outputs

    def gradients(self, case: Case) -> dict[str, np.ndarray]:
        """The backward reference's gradients of forward inputs, from zeroed accumulators and the forward's own
        statistics."""
        arguments = dict(self.spec.reference_arguments(self.given, case.dims, case.config))
        for name in arguments:
            if name in self.outputs and name not in self.values:
                arguments[name] = np.asarray(self.outputs[name])
            elif name in self.spec.outputs:
                arguments[name] = np.zeros_like(arguments[name])
        outputs = plain_values(self.spec, case, arguments)
        return {name: array for name, array in outputs.items() if self._differentiates(name)}

    def _differentiates(self, name: str) -> bool:
        value = self.values.get(_subject(name))
        return isinstance(value, np.ndarray) and value.dtype == np.float64

    def slope(self, name: str, direction: np.ndarray) -> tuple[float, float]:
        """The derivative of sum(upstream * outputs) as `name` moves along `direction`, and how far off it may be.

        The two step sizes differ by three quarters of the larger one's truncation error; four times their difference,
        plus the rounding of the sums that are subtracted, is allowed.
        """
        coarse, size = self._difference(name, direction, STEP)
        fine, _ = self._difference(name, direction, STEP / 2)
        rounding = 64 * 2.0**-52 * size / STEP
        return fine, 4 * abs(coarse - fine) + rounding

    def _difference(self, name: str, direction: np.ndarray, step: float) -> tuple[float, float]:
        high, low = (self._weighted(name, direction, sign * step) for sign in (1, -1))
        return (high[0] - low[0]) / (2 * step), high[1]

    def _weighted(self, name: str, direction: np.ndarray, step: float) -> tuple[float, float]:
        moved = self._named(self(**{**self.values, name: self.values[name] + step * direction}))
        terms = [np.asarray(moved[output]) * upstream for output, upstream in self.upstream.items()]
        return float(sum(term.sum() for term in terms)), float(sum(np.abs(term).sum() for term in terms))


def _subject(name: str) -> str:
    """What an array named `name` is the gradient of: `x` for `dx` and `grad_x`; empty where it is named otherwise."""
    for prefix in ("grad_", "d"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return ""


def spec_arguments(spec: KernelSpec, inputs: Inputs) -> Mapping[str, Any]:
    """Every input array of the spec as the reference would get it, also those that its signature does not name."""
    return {
        name: array.astype(np.float64 if spec.arrays[name].is_float else np.int64)
        for name, array in inputs.arrays.items()
        if array is not None
    }


CHECK = Derivative()
