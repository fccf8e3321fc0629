"""One kernel from spec to record: events, reproducibility, saved cases, and whatever is wrong with the spec."""

import json
from dataclasses import replace

import pytest

from refkit.records import Verdict
from refkit.verify import Dim, In, KernelSpec, Out, Precision, store
from refkit.verify.backends import LaunchFault
from refkit.verify.case import Case
from refkit.verify.case_record import sensitivity
from refkit.verify.checks import find_check
from refkit.verify.describe import describe_case, precision_label
from refkit.verify.events import CaseStarted, CheckDone, KernelStarted
from refkit.verify.options import Options
from refkit.verify.profiles import PROFILES
from refkit.verify.runner import verify_spec
from tests.verify import kernels
from tests.verify.numpy_backend import NumpyBackend

QUICK = Options(profile=PROFILES["quick"])


def plain(record) -> str:
    return json.dumps(replace(record, seconds=0.0).to_json(), allow_nan=False)


@pytest.mark.parametrize("launch", [kernels.right, kernels.ignores_the_last_row])
def test_the_same_seed_gives_the_same_record(launch):
    first, second = (verify_spec(kernels.spec_of(launch), QUICK, backend=NumpyBackend()) for _ in range(2))
    assert plain(first) == plain(second)
    other = verify_spec(kernels.spec_of(launch), replace(QUICK, seed=1), backend=NumpyBackend())
    assert plain(first) != plain(other)


def test_events_tell_every_case_and_every_verdict_in_order():
    events = []
    record = verify_spec(kernels.spec_of(kernels.right), QUICK, events.append, NumpyBackend())
    assert isinstance(events[0], KernelStarted)
    assert events[0].cases >= 30
    started = [event for event in events if isinstance(event, CaseStarted)]
    assert [event.done for event in started] == sorted(event.done for event in started)
    assert all(Case.from_json(event.case).dims for event in started)
    verdicts = {event.record.name: event.record for event in events if isinstance(event, CheckDone)}
    assert set(verdicts) == {check.name for check in record.checks}
    assert verdicts["accuracy"] == record.checks[1]


def test_a_failing_case_is_saved_small_and_the_larger_one_removed(tmp_path):
    options = replace(QUICK, cases_dir=tmp_path)
    record = verify_spec(kernels.spec_of(kernels.depends_on_the_order), options, backend=NumpyBackend())
    check = next(check for check in record.checks if check.name == "determinism")
    files = list(tmp_path.iterdir())
    assert [str(path) for path in files] == [check.case_file]
    saved = store.load(files[0])
    assert saved.check == "determinism"
    assert saved.case.dims == check.case.dims == {"R": 1, "C": 1}


def test_a_failure_is_told_before_it_is_made_small(tmp_path):
    told = []
    options = replace(QUICK, cases_dir=tmp_path)

    def listen(event):
        if isinstance(event, CheckDone) and event.record.status is Verdict.FAILED:
            told.append((event.record.name, store.load(store.Path(event.record.case_file)).case.dims))

    verify_spec(kernels.spec_of(kernels.fails_from_seven_columns), options, listen, NumpyBackend())
    assert told[0][0] == "accuracy"
    assert told[-1][1] == {"R": 1, "C": 7}
    assert ("accuracy", {"R": 1, "C": 7}) in told


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda x, s: (x * s[:, None])[:-1], "returned shape"),
        (lambda x, s: (x, s), "returned 2 outputs"),
        (lambda x, s: x @ s[:, None, None], "the reference raised ValueError"),
    ],
)
def test_a_wrong_reference_is_the_specs_error_with_the_users_line(reference, words):
    backend = NumpyBackend()
    record = verify_spec(kernels.spec_of(kernels.right, reference=reference), QUICK, backend=backend)
    assert record.status is Verdict.ERROR
    assert record.wrong_call
    assert words in record.message
    assert record.message.startswith((__file__, kernels.__file__))
    assert backend.launches == 0


def test_a_launch_that_no_case_can_do_without_ends_the_kernel():
    def does_not_compile(x, s, y):
        raise LaunchFault("compile", "the kernel does not compile: no attribute foo", "k.py:3")

    backend = NumpyBackend()
    record = verify_spec(kernels.spec_of(does_not_compile), QUICK, backend=backend)
    accuracy = record.checks[1]
    assert (accuracy.status, accuracy.cases) == (Verdict.FAILED, 1)
    assert accuracy.message.startswith("k.py:3: the kernel does not compile")
    assert {check.status for check in record.checks[2:-2]} == {Verdict.SKIPPED}
    assert backend.launches == 1


def test_what_the_backend_cannot_run_is_an_error_not_a_failure():
    def links_device_code(x, s, y):
        raise LaunchFault("unsupported", "linked device code cannot run on the CPU")

    assert verify_spec(kernels.spec_of(links_device_code), QUICK, backend=NumpyBackend()).status is Verdict.ERROR


def test_an_error_inside_a_check_costs_that_check_alone(monkeypatch):
    from refkit.verify.checks.layouts import Layouts

    def broken(self, run):
        raise RuntimeError("out of order")

    monkeypatch.setattr(Layouts, "examine", broken)
    record = verify_spec(kernels.spec_of(kernels.right), QUICK, backend=NumpyBackend())
    bad = [check for check in record.checks if not check.status.holds]
    assert [check.name for check in bad] == ["layouts"]
    assert "out of order" in bad[0].message
    assert record.status is Verdict.ERROR


def test_a_broken_process_is_reported():
    def kills_the_context(x, s, y):
        raise LaunchFault("memory", "illegal address", fatal=True)

    from refkit.verify.runner import _KernelRun

    run = _KernelRun(kernels.spec_of(kills_the_context), QUICK, lambda event: None, NumpyBackend())
    assert run.record().status is Verdict.FAILED
    assert run.broken


def test_sensitivity_is_the_best_case_of_the_dullest_output():
    assert sensitivity([{"y": 0.1, "m": 0.5}, {"y": 0.01}]) == 0.5
    assert sensitivity([{}]) is None


def test_descriptions():
    case = Case(
        dims={"R": 1}, config={"block": 64}, layouts={"x": "strided"}, scalars={"eps": 0.5}, absent=("b",), seed=3
    )
    assert describe_case(case) == "R=1, block=64, x strided, eps=0.5, without b, mixture values, seed 3"
    N = Dim("N")
    args = {"x": In(N, dtype="bfloat16"), "y": Out(N)}
    spec = KernelSpec(launch=lambda x, y: None, reference=lambda x: x, args=args, precision=Precision(fast_math=True))
    assert precision_label(spec) == "bfloat16 -> float32, fast math"
    assert precision_label(kernels.spec_of(kernels.right)) == "float32"


def test_a_check_that_breaks_while_planning_costs_itself_alone(monkeypatch):
    def breaks(spec, profile, seed):
        raise RuntimeError("no plan")

    monkeypatch.setattr(find_check("layouts"), "plan", breaks)
    record = verify_spec(kernels.spec_of(kernels.right), QUICK, backend=NumpyBackend())
    verdicts = {check.name: (check.status, check.message) for check in record.checks}
    assert verdicts["layouts"] == (Verdict.ERROR, "the check itself failed: RuntimeError: no plan")
    assert verdicts["accuracy"][0] is Verdict.PASSED
    assert record.status is Verdict.ERROR
