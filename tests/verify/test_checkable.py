"""A spec inside a user's own tests: a right kernel passes, a wrong one fails with the reason."""

import inspect
import unittest

import numpy as np
import pytest
from hypothesis import given, settings
from numba import cuda

from refkit.records import CheckRecord, KernelRecord, Verdict
from refkit.verify import Case, Dim, In, Index, KernelSpec, Out, SpecError, checkable, runner
from refkit.verify.checkable import CheckableCase, CheckFailed, summary_of

R, C = Dim("R", max=40), Dim("C", max=40)


@cuda.jit
def scale_rows_kernel(x, s, y):
    row = cuda.blockIdx.x
    for col in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[row, col] = x[row, col] * s[row]


@cuda.jit
def short_kernel(x, s, y):
    row = cuda.blockIdx.x
    for col in range(cuda.threadIdx.x, x.shape[1] - 1, cuda.blockDim.x):
        y[row, col] = x[row, col] * s[row]


def scale_rows(x, s, y):
    scale_rows_kernel[x.shape[0], 32](x, s, y)


def short(x, s, y):
    short_kernel[x.shape[0], 32](x, s, y)


def make(launch=scale_rows, **changes):
    fields = {"reference": lambda x, s: x * s[:, None], "args": {"x": In(R, C), "s": In(R), "y": Out(R, C)}}
    return KernelSpec(launch=launch, **{**fields, **changes})


RIGHT, WRONG = make(), make(short)


@pytest.mark.cpu
@settings(max_examples=8, derandomize=True, database=None, deadline=None)
@given(RIGHT.cases())
def test_drawn_cases_of_a_right_kernel_pass(case):
    case.check(backend="cpu")


@pytest.mark.cpu
@pytest.mark.parametrize("values", ["normal", "integers"])
def test_a_wrong_kernel_fails_with_check_and_case(values):
    case = CheckableCase(Case(dims={"R": 2, "C": 5}, values=values), WRONG)
    with pytest.raises(CheckFailed, match=r"short: every_output_written: y\[0, 4\] was never written.*\[R=2 C=5, "):
        case.check(backend="cpu")


@pytest.mark.cpu
def test_as_test_of_a_right_kernel_passes():
    RIGHT.as_test(backend="cpu", cases=10)()


@pytest.mark.cpu
def test_as_test_of_a_wrong_kernel_fails_with_the_reason():
    with pytest.raises(CheckFailed, match=r"(?s)short: failed.*every_output_written: .* never written"):
        WRONG.as_test(backend="cpu", cases=10)()


def test_as_test_is_a_plain_function_for_pytest():
    test = RIGHT.as_test()
    assert inspect.isfunction(test)
    assert not inspect.signature(test).parameters
    assert test.__name__ == "test_scale_rows"
    assert RIGHT.source in test.__doc__
    assert not hasattr(test, "hypothesis")


def record(status, **fields):
    return KernelRecord("scale_rows", "scale_rows", "float32", status, 1, 0.0, **fields)


def test_verify_asks_for_what_it_was_told(monkeypatch):
    asked = []
    monkeypatch.setattr(runner, "verify_spec", lambda spec, options: asked.append((spec, options)) or "the record")
    assert RIGHT.verify(backend="cpu", cases=30, seed=5) == "the record"
    ((spec, options),) = asked
    assert spec is RIGHT
    assert (options.backend, options.profile.cases, options.seed, options.cases_dir) == ("cpu", 30, 5, None)


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.ERROR, Verdict.MISTRUSTED])
def test_only_what_holds_passes(monkeypatch, verdict):
    monkeypatch.setattr(runner, "verify_spec", lambda spec, options: record(verdict, message="because"))
    with pytest.raises(CheckFailed, match=f"scale_rows: {verdict.value}: because"):
        RIGHT.as_test()()


def test_a_skip_says_why(monkeypatch):
    monkeypatch.setattr(runner, "verify_spec", lambda spec, options: record(Verdict.SKIPPED, message="no GPU"))
    with pytest.raises(unittest.SkipTest, match="no GPU"):
        RIGHT.as_test()()


def test_summary_lists_what_does_not_hold():
    checks = (
        CheckRecord("accuracy", Verdict.FAILED, message="y[0] is 3", diagnosis="a row too many"),
        CheckRecord("layouts", Verdict.PASSED, message="fine"),
    )
    assert summary_of(record(Verdict.FAILED, checks=checks)).splitlines() == [
        "scale_rows: failed",
        "  accuracy: y[0] is 3 (a row too many)",
    ]


def test_a_reference_that_does_not_fit_is_found_before_any_launch():
    spec = make(reference=lambda x, s: x.sum(axis=0))
    for use in (spec.cases, spec.verify, spec.as_test(backend="cpu")):
        with pytest.raises(SpecError, match="the reference returned shape"):
            use()


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="backend is 'tpu'; expected one of auto, cpu, cuda"):
        RIGHT.as_test(backend="tpu")
    with pytest.raises(ValueError, match="cases is 0; expected at least 1"):
        RIGHT.verify(backend="cpu", cases=0)


def test_the_checks_of_a_case_follow_from_its_lane():
    def names(**fields):
        return list(checkable._checks_of(RIGHT, Case(dims={"R": 1, "C": 1}, **fields)))

    assert names() == ["accuracy", "every_output_written", "second_launch", "determinism"]
    assert names(values="integers") == ["integer_exact"]
    assert names(values="out_of_range") == ["accuracy"]


def test_out_of_range_cases_exist_only_where_promised():
    spec = KernelSpec(
        launch=lambda i, y: None,
        reference=lambda i: np.zeros(i.shape),
        args={"i": Index(R, below=C), "y": Out(R)},
    )
    assert spec.cases(scenarios=("out_of_range",)).is_empty
