"""Every check passes a right kernel and goes red, under its own name, on the fault that it is there for."""

import numpy as np
import pytest

from refkit.records import CheckRecord, KernelRecord, Verdict
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Scalar
from refkit.verify.checks import all_checks
from refkit.verify.options import Options
from refkit.verify.profiles import PROFILES
from refkit.verify.runner import verify_spec
from tests.verify import kernels
from tests.verify.numpy_backend import NumpyBackend


def verify(spec: KernelSpec, **more) -> KernelRecord:
    return verify_spec(spec, Options(profile=PROFILES["quick"], **more), backend=NumpyBackend())


def failed(record: KernelRecord) -> dict[str, CheckRecord]:
    return {check.name: check for check in record.checks if not check.status.holds}


def test_a_right_kernel_passes_every_check():
    record = verify(kernels.spec_of(kernels.right))
    assert record.status is Verdict.PASSED
    assert {check.name: check.status for check in record.checks if check.status is Verdict.SKIPPED}.keys() == {
        "derivative",
        "accumulation",
        "sanitizers",  # not in the quick profile
    }
    assert all(check.message for check in record.checks if check.status is Verdict.SKIPPED)
    assert record.cases >= 0.9 * PROFILES["quick"].cases
    accuracy = next(check for check in record.checks if check.name == "accuracy")
    assert 0 < accuracy.worst_ratio <= 1
    assert accuracy.bound == "tracked"
    assert 2**-24 <= accuracy.sensitivity < 2e-6


@pytest.mark.parametrize(
    ("launch", "check", "dims", "diagnosis"),
    [
        (kernels.stops_one_column_early, "every_output_written", {"R": 1, "C": 1}, "never written"),
        (kernels.writes_past_the_end, "guard_bands", {"R": 1, "C": 1}, "bounds test"),
        (kernels.adds_past_the_end, "guard_bands", {"R": 1, "C": 1}, "bounds test"),
        (kernels.reads_the_next_row, "accuracy", {"R": 1, "C": 1}, "s seems to be read one place too far"),
        (kernels.ignores_the_last_row, "every_output_written", {"R": 1, "C": 1}, "never written"),
        (kernels.writes_into_x, "inputs_unchanged", {"R": 1, "C": 1}, "scratch"),
        (kernels.adds_instead_of_assigns, "accuracy", {"R": 1, "C": 1}, "added to what its memory held before"),
        (kernels.depends_on_the_order, "determinism", {"R": 1, "C": 1}, "barrier"),
        (kernels.ignores_strides, "layouts", None, ""),
        (kernels.loses_a_little, "accuracy", {"R": 1, "C": 1}, ""),
        (kernels.computes_in_half, "accuracy", {"R": 1, "C": 1}, ""),
        (kernels.fails_from_seven_columns, "accuracy", {"R": 1, "C": 7}, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_fault_is_reported_by_the_right_check(launch, check, dims, diagnosis):
    record = verify(kernels.spec_of(launch))
    found = failed(record)
    assert record.status is Verdict.FAILED
    # The integer lane is the second lane of accuracy: a fault in every value shows in both.
    assert set(found) - {"integer_exact"} == {check}
    assert diagnosis in found[check].diagnosis
    if launch is kernels.fails_from_seven_columns:
        assert "kernels.py:88: the launcher raised ValueError: seven" in found[check].message
    if dims is not None:
        assert found[check].case.dims == dims


def test_state_kept_between_launches_is_the_second_launchs_finding():
    assert "second_launch" in failed(verify(kernels.spec_of(kernels.KeepsState())))


def test_a_difference_within_the_model_is_allowed_where_bits_are_not_promised():
    found = failed(verify(kernels.spec_of(kernels.KeepsState(), deterministic=False)))
    assert set(found) == {"integer_exact"}  # where nothing may round, a millionth is a fault


def test_accumulation_passes_and_overwriting_fails():
    assert verify(kernels.sums_of(kernels.column_sums)).status is Verdict.PASSED
    found = failed(verify(kernels.sums_of(kernels.column_sums_overwriting)))
    assert "accumulation" in found
    assert "overwritten instead of added" in found["accumulation"].diagnosis


def test_the_integer_lane_sees_one_dropped_term():
    K = Dim("K", min=2, max=4096)

    def reference(x):
        return x.sum(keepdims=True)

    def drops_a_term(x, y):
        y[0] = x[:-1].sum(dtype=np.float64)

    spec = KernelSpec(launch=drops_a_term, reference=reference, args={"x": In(K, values="uniform"), "y": Out(1)})
    assert failed(verify(spec))["integer_exact"].bound == "exact"


def test_the_integer_lane_is_left_out_where_something_rounds():
    def means(x, y):
        y[...] = x.mean(axis=1)

    R, C = Dim("R", max=9), Dim("C", max=50)
    spec = KernelSpec(launch=means, reference=lambda x: x.mean(axis=1), args={"x": In(R, C), "y": Out(R)})
    lane = next(check for check in verify(spec).checks if check.name == "integer_exact")
    assert lane.status is Verdict.SKIPPED
    assert "rounds" in lane.message


def test_values_that_tell_nothing_are_mistrusted():
    def zeros(rng, shape):
        return np.zeros(shape)

    R, C = kernels.R, kernels.C
    args = {"x": In(R, C, values=zeros), "s": In(R), "y": Out(R, C)}
    record = verify(kernels.spec_of(kernels.right, args=args))
    assert record.status is Verdict.MISTRUSTED
    assert "y = 0" in failed(record)["trust"].message


def test_an_output_of_the_scalars_alone_is_told_from_that_of_other_scalars():
    def multiples(x, step, y, places):
        y[...] = x
        places[...] = step * np.arange(len(places))

    def spec(*steps):
        return KernelSpec(
            launch=multiples,
            reference=lambda x, step: (x, step * np.arange(len(x))),
            args={"x": In(R), "step": Scalar(steps, dtype="int64"), "y": Out(R), "places": Out(R, dtype="int64")},
        )

    R = Dim("R")
    assert verify(spec(3, 5)).status is Verdict.PASSED
    assert "places = what another call left" in failed(verify(spec(3)))["trust"].message


def test_a_copying_kernel_is_trusted_though_a_copy_is_right():
    def copies(x, y):
        y[...] = x

    R, C = kernels.R, kernels.C
    spec = KernelSpec(launch=copies, reference=lambda x: x * 1.0, args={"x": In(R, C), "y": Out(R, C)})
    assert verify(spec).status is Verdict.PASSED


def test_an_update_that_does_nothing_is_not_excused_by_empty_cases():
    T = Dim("T", min=0, max=3)

    def adds_nothing(rng, shape):
        return np.zeros(shape)

    args = {"x": In(T, kernels.C, values=adds_nothing), "total": InOut(kernels.C)}
    spec = KernelSpec(launch=kernels.column_sums, reference=lambda x, total: total + x.sum(axis=0), args=args)
    assert failed(verify(spec))["trust"].status is Verdict.MISTRUSTED


def forward(x, w):
    return np.tanh(x) * w


@pytest.mark.parametrize(("factor", "status"), [(1.0, Verdict.PASSED), (1.0 + 1e-5, Verdict.ERROR)])
def test_a_wrong_vjp_is_an_error_of_the_reference(factor, status):
    def backward(dy, x, w, dx):
        dx[...] = dy * w * (1 - np.tanh(x.astype(np.float64)) ** 2) * factor

    R, C = kernels.R, kernels.C
    spec = KernelSpec(
        launch=backward,
        reference=lambda dy, x, w: factor * dy * w * (1 - np.tanh(x) ** 2),
        args={"dy": In(R, C), "x": In(R, C), "w": In(R, C), "dx": Out(R, C)},
        derivative_of=forward,
    )
    derivative = next(check for check in verify(spec).checks if check.name == "derivative")
    assert derivative.status is status
    assert ("the reference VJP disagrees" in derivative.message) == (status is Verdict.ERROR)


def test_out_of_range_indices_must_be_refused_where_promised():
    from refkit.verify import Index

    R, C = Dim("R", max=20), Dim("C", max=20)

    def gather(x, index, y):
        y[...] = x[np.clip(index, 0, len(x) - 1)]

    def checked_gather(x, index, y):
        if index.size and (index.min() < 0 or index.max() >= len(x)):
            raise IndexError("index out of range")
        y[...] = x[index]

    args = {"x": In(R), "index": Index(C, below=R, out_of_range="error"), "y": Out(C)}
    outcomes = {
        launch.__name__: failed(verify(KernelSpec(launch=launch, reference=lambda x, index: x[index], args=args)))
        for launch in (gather, checked_gather)
    }
    assert "was not refused" in outcomes["gather"]["accuracy"].message
    assert not outcomes["checked_gather"]


def test_every_check_has_a_name_a_summary_and_its_own_place():
    checks = all_checks()
    assert len({check.order for check in checks}) == len(checks)
    assert [check.name for check in checks][:2] == ["derivative", "accuracy"]
    assert all(check.summary for check in checks)
