"""The derivative check: the gradients it knows by name, a wrong one, and where it has nothing to do."""

import numpy as np
import pytest

from refkit.records import CheckRecord, Verdict
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.options import Options
from refkit.verify.profiles import PROFILES
from refkit.verify.runner import verify_spec
from tests.verify.numpy_backend import NumpyBackend

R, C = Dim("R", max=8), Dim("C", max=8)


def squared(de):
    return de * de


def derivative(spec: KernelSpec) -> CheckRecord:
    record = verify_spec(spec, Options(profile=PROFILES["quick"]), backend=NumpyBackend())
    return next(check for check in record.checks if check.name == "derivative")


def spec_of(output: str, upstream: str = "dout", factor: float = 2.0) -> KernelSpec:
    """The gradient of `squared` as an output and an upstream gradient of these names."""
    names = {"launch": None, "reference": None}
    exec(
        f"def launch({upstream}, de, {output}):\n    {output}[...] = {factor} * {upstream} * de\n"
        f"def reference({upstream}, de):\n    return {factor} * {upstream} * de\n",
        names,
    )
    args = {upstream: In(R, C), "de": In(R, C), output: Out(R, C)}
    return KernelSpec(launch=names["launch"], reference=names["reference"], args=args, derivative_of=squared)


@pytest.mark.parametrize("output", ["dde", "grad_de"])
@pytest.mark.parametrize("upstream", ["dout", "grad_out"])
def test_gradients_go_by_either_name(output, upstream):
    right, wrong = derivative(spec_of(output, upstream)), derivative(spec_of(output, upstream, factor=2.0 + 1e-5))
    assert right.status is Verdict.PASSED
    assert right.worst_ratio > 0
    assert wrong.status is Verdict.ERROR
    assert f"the reference VJP disagrees with its forward reference: {output} gives a slope" in wrong.message


def test_an_output_that_is_named_after_no_input_is_compared_with_nothing_and_says_so():
    found = derivative(spec_of("result", factor=5.0))
    assert found.status is Verdict.SKIPPED
    assert found.message == "no output is named after an input of the forward reference, as dx or grad_x is after x"


def test_an_upstream_gradient_of_no_output_is_a_reason_too():
    found = derivative(spec_of("grad_de", upstream="weight", factor=5.0))
    assert found.status is Verdict.SKIPPED
    assert found.message == "no input is named after an output of the forward reference, as dy is after y"


def test_statistics_that_the_forward_saves_are_its_own():
    """The backward kernel's `norm` is the forward's, not a drawn one: with another the slope would be wrong."""
    from typing import NamedTuple

    class Outputs(NamedTuple):
        y: np.ndarray
        norm: np.ndarray

    def forward(x):
        norm = np.sqrt((x * x).sum(axis=1))
        return Outputs(x / norm[:, None], norm)

    def vjp(dy, x, norm):
        y = x / norm[:, None]
        return (dy - y * (dy * y).sum(axis=1)[:, None]) / norm[:, None]

    def launch(dy, x, norm, dx):
        dx[...] = vjp(*(a.astype(np.float64) for a in (dy, x, norm)))

    args = {"dy": In(R, C), "x": In(R, C), "norm": In(R, values="positive"), "dx": Out(R, C)}
    found = derivative(KernelSpec(launch=launch, reference=vjp, args=args, derivative_of=forward))
    assert found.status is Verdict.PASSED
