"""That a discrepancy is found, told and shrunk."""

import numpy as np
import pytest

from refkit.verify.kernel_fuzz import judge as judge_module
from refkit.verify.kernel_fuzz.execution import Rendered
from refkit.verify.kernel_fuzz.judge import Discrepancy, judge
from refkit.verify.kernel_fuzz.render import render
from refkit.verify.kernel_fuzz.search import draw_programs, search


@pytest.mark.cpu
def test_executor_and_interpreter_agree_in_order_and_under_a_schedule():
    examined = []

    def examine(program):
        examined.append(program)
        return judge(program, schedules=(1,))

    found = search(16, 2026, examine, nodes=20)
    assert found is None, str(found)
    assert len(examined) >= 12


def altered(result):
    """A run that differs from the interpreter in the third value."""

    def run(program, backend, **options):
        changed = result.copy()
        changed[2] += 1
        return changed

    return run


def test_a_wrong_value_is_located(monkeypatch):
    program = draw_programs(1, seed=1)[0]
    right = judge_module.interpret(program)
    monkeypatch.setattr(judge_module, "run", altered(right))
    found = judge(program)
    assert found is not None
    assert found.kind == "value"
    assert found.message.startswith(f"out[0, 2] (thread 0 of the grid): interpreter {right[2]}, executor (in order)")
    assert found.program.source in str(found)


def test_a_schedule_that_changes_a_result_is_told_by_its_seed(monkeypatch):
    program = draw_programs(1, seed=1)[0]
    right = judge_module.interpret(program)
    wrong = altered(right)
    monkeypatch.setattr(
        judge_module, "run", lambda *a, schedule, **k: right if schedule is None else wrong(*a, schedule=schedule, **k)
    )
    found = judge(program, schedules=(7,))
    assert found is not None
    assert (found.kind, "executor (schedule 7)" in found.message) == ("schedule", True)


def test_a_launch_that_raises_is_a_fault(monkeypatch):
    def run(*arguments, **options):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(judge_module, "run", run)
    found = judge(draw_programs(1, seed=1)[0])
    assert found is not None
    assert (found.kind, found.message) == ("fault", "executor (in order): RuntimeError: no such instruction")


def test_sanitizers_watch_the_schedules_where_there_are_some(monkeypatch):
    program = draw_programs(1, seed=1)[0]
    right, watched = judge_module.interpret(program), []
    monkeypatch.setattr(
        judge_module, "run", lambda *a, schedule, sanitize, **k: watched.append((schedule, sanitize)) or right
    )
    assert judge(program, schedules=(3,), sanitize=("race",)) is None
    assert judge(program, sanitize=("race",)) is None
    assert watched == [(None, ()), (3, ("race",)), (None, ("race",))]


def test_a_failing_program_is_shrunk():
    """A judge that objects to any xor shuffle: what is left should hold little else."""

    def objects(program):
        rendered = Rendered.of(program)
        return Discrepancy("value", rendered, "xor") if "shfl_xor_sync" in rendered.source else None

    found = search(200, 5, objects)
    assert found is not None
    assert found.program.source.count("shfl_xor_sync") == 1
    lines = found.program.source[found.program.source.index("v0 =") :].splitlines()
    assert len(lines) <= 14, found.program.source
    assert found.program.grid == (1,)


def test_results_are_located_in_every_array():
    program = Rendered.of(draw_programs(1, seed=1)[0])
    size = program.threads * program.outputs
    expected = np.zeros(size + program.threads * 11 + 20, np.int64)
    got = expected.copy()
    got[size + 5] = 1
    message = judge_module.first_difference(program, expected, got, ("a", "b"))
    assert message == f"rows64[1, 1] (thread 1 of the grid): a 0, b 1; 1 of {len(got)} values differ"
    assert render(draw_programs(1, seed=1)[0]) == program.source
