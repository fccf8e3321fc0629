"""One trial: poison, guards, changed inputs, restored memory, faults."""

import numpy as np
import pytest

from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.slabs import Slab
from refkit.verify.trial import MODERATE, with_number_guards
from tests.verify import kernels
from tests.verify.numpy_backend import NumpyBackend

CASE = Case(dims={"R": 3, "C": 5}, values="normal")


def run(launch, case=CASE, spec_of=kernels.spec_of) -> CaseRun:
    return CaseRun(spec_of(launch), case, NumpyBackend())


@pytest.mark.parametrize("poison", ["nan", "large", MODERATE])
@pytest.mark.parametrize("layouts", [{}, {"x": "strided"}, {"x": "transposed", "s": "offset"}, {"s": "broadcast"}])
def test_a_right_launch_leaves_no_trace(poison, layouts):
    trial = run(kernels.right, Case(dims=CASE.dims, values="normal", layouts=layouts)).trial(poison=poison)
    assert not trial.guards
    assert not trial.changed
    assert not trial.unwritten["y"].any()
    assert trial.outputs["y"].dtype == np.float32


@pytest.mark.parametrize("poison", ["nan", "large", MODERATE])
def test_unwritten_elements_keep_any_poison(poison):
    trial = run(kernels.stops_one_column_early).trial(poison=poison)
    assert trial.unwritten["y"].tolist() == [[False] * 4 + [True]] * 3


@pytest.mark.parametrize("launch", [kernels.writes_past_the_end, kernels.adds_past_the_end])
def test_writing_and_adding_past_the_end_both_show(launch):
    assert run(launch).trial().guards["y"].after > 0


def test_the_product_of_an_inputs_guard_shows_past_the_end_of_the_output():
    def multiplies_one_column_too_many(x, s, y):
        wide = np.lib.stride_tricks.as_strided(x, (x.shape[0], x.shape[1] + 1), x.strides)
        target = np.lib.stride_tricks.as_strided(y, wide.shape, y.strides)
        target[...] = wide * s[:, None]

    one = Case(dims={"R": 1, "C": 1}, values="normal")
    assert run(multiplies_one_column_too_many, one).trial().guards


def test_number_guards_keep_the_elements_to_the_bit():
    array = np.array([1.5, np.nan, -0.0], np.float32)
    slab = Slab.place(array, "strided")
    guarded = with_number_guards(slab)
    assert guarded.elements(guarded.image).tobytes() == array.tobytes()
    assert not np.isnan(guarded.image[:256].view(np.float32)).any()
    integers = Slab.place(np.arange(3), "contiguous")
    assert with_number_guards(integers) is integers


def test_a_changed_input_is_named_with_its_first_element():
    assert run(kernels.writes_into_x).trial().changed == {"x": (0, 0)}


def test_every_trial_starts_from_restored_memory():
    case_run = run(kernels.column_sums, spec_of=kernels.sums_of)
    first, second = case_run.trial(), case_run.trial()
    assert first.same_bits(second) == ""
    after = case_run.continued(first).trial()
    assert first.same_bits(after).startswith("total[")


def test_a_launcher_that_raises_is_a_fault_with_the_users_line():
    trial = run(kernels.fails_from_seven_columns, Case(dims={"R": 1, "C": 7})).trial()
    assert trial.fault is not None
    assert trial.fault.kind == "launcher"
    assert "ValueError: seven" in str(trial.fault)
    assert trial.fault.location.startswith(kernels.__file__)
    assert not trial.outputs
