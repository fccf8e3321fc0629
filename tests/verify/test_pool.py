"""Worker processes: results in order, and what a dead, a hung and a crashed worker cost."""

import textwrap
from dataclasses import replace

import pytest

from refkit.records import Verdict
from refkit.verify import store
from refkit.verify.events import CheckDone, KernelDone
from refkit.verify.options import Options
from refkit.verify.pool import Task, run_pool
from refkit.verify.profiles import PROFILES

pytestmark = pytest.mark.cpu

TARGET = """
    import os, signal, time
    import numpy as np
    from refkit.verify import Dim, In, KernelSpec, Out

    R = Dim("R", max=20)

    def fine(x, y):
        y.host[...] = x.host

    def dies(x, y):
        if len(y) > 3:
            os.kill(os.getpid(), signal.SIGKILL)
        fine(x, y)

    def hangs(x, y):
        time.sleep(600)

    def leaves(x, y):
        raise SystemExit(3)

    def reference_that_leaves(x):
        raise SystemExit(3)

    def spec(launch, reference=lambda x: x * 1.0):
        return KernelSpec(launch=launch, reference=reference, args=dict(x=In(R), y=Out(R)),
        layouts=("contiguous",))

    fine_spec, dies_spec, hangs_spec, leaves_spec = spec(fine), spec(dies), spec(hangs), spec(leaves)
    reference_leaves_spec = spec(fine, reference_that_leaves)
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "target.py"
    path.write_text(textwrap.dedent(TARGET))
    return str(path)


def options(tmp_path) -> Options:
    return Options(backend="cpu", profile=PROFILES["quick"].with_cases(10), cases_dir=tmp_path / "cases")


def test_a_killed_worker_costs_one_kernel_and_what_it_had_found_stays(target, tmp_path):
    events = []
    tasks = [Task(target, "dies"), Task(target, "fine"), Task(target, "missing")]
    result = run_pool(tasks, options(tmp_path), 1, events.append)
    dies, fine, missing = result.records
    assert not result.interrupted
    assert dies.status is Verdict.ERROR
    assert "ended by SIGKILL (as the system does where memory runs out) while accuracy judged R=" in dies.message
    derivative = next(check for check in dies.checks if check.name == "derivative")
    assert derivative.status is Verdict.SKIPPED  # told before the worker died
    killer = store.load(store.Path(next(check.case_file for check in dies.checks if check.case_file)))
    assert killer.case.dims["R"] > 3
    assert fine.status is Verdict.PASSED
    assert missing.status is Verdict.ERROR
    assert "no spec named 'missing'" in missing.message
    assert [event.record.name for event in events if isinstance(event, KernelDone)] == ["dies", "fine", "missing"]
    assert {event.record.name for event in events if isinstance(event, CheckDone) and event.kernel == "fine"} == {
        check.name for check in fine.checks
    }


def test_a_silent_worker_is_stopped_and_replaced(target, tmp_path):
    tasks = [Task(target, "hangs"), Task(target, "fine")]
    hangs, fine = run_pool(tasks, options(tmp_path), 1, lambda event: None, silence=4.0).records
    assert hangs.status is Verdict.ERROR
    assert "no sign of life for 4 s" in hangs.message
    assert fine.status is Verdict.PASSED


def test_the_number_of_workers_changes_nothing_but_time(target, tmp_path):
    tasks = [Task(target, "fine"), Task(target, "dies"), Task(target, "fine")]
    alone = run_pool(tasks, options(tmp_path), 1, lambda event: None).records
    together = run_pool(tasks, options(tmp_path), 2, lambda event: None).records
    assert [replace(record, seconds=0.0) for record in alone] == [replace(record, seconds=0.0) for record in together]


def test_an_interrupt_keeps_what_was_found(target, tmp_path):
    def interrupt(event):
        if isinstance(event, CheckDone) and event.record.name == "accuracy":
            raise KeyboardInterrupt

    result = run_pool([Task(target, "fine"), Task(target, "fine")], options(tmp_path), 1, interrupt)
    assert result.interrupted
    (begun,) = result.records
    assert begun.status is Verdict.SKIPPED
    assert begun.message.startswith("interrupted after")
    assert "accuracy" in {check.name for check in begun.checks}


def test_an_interrupt_keeps_what_the_workers_had_sent(target, tmp_path):
    def interrupted(event):
        if isinstance(event, CheckDone) and event.record.name == "accuracy":
            raise KeyboardInterrupt

    result = run_pool([Task(target, "fine"), Task(target, "dies")], options(tmp_path), 1, interrupted)
    assert result.interrupted
    (fine,) = result.records
    assert fine.status is Verdict.SKIPPED
    assert "accuracy" in {check.name for check in fine.checks}


def test_a_listener_with_nowhere_to_write_ends_the_run_and_loses_nothing(target, tmp_path):
    def piped_to_head(event):
        if isinstance(event, KernelDone):
            raise BrokenPipeError

    result = run_pool([Task(target, "fine"), Task(target, "dies")], options(tmp_path), 1, piped_to_head)
    assert result.interrupted
    assert result.records[0].status is Verdict.PASSED


@pytest.mark.parametrize("name", ["leaves", "reference_leaves"])
def test_code_that_calls_exit_is_one_line_with_its_place(target, tmp_path, name):
    result = run_pool([Task(target, name)], options(tmp_path), 1, lambda event: None)
    (record,) = result.records
    said = record.message or next(check.message for check in record.checks if check.name == "accuracy")
    assert f"{target}:" in said
    assert "raised SystemExit: 3" in said
    assert record.wrong_call == (name == "reference_leaves")
