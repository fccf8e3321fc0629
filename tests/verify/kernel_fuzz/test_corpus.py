"""Programs on disk, and their comparison with another backend."""

import dataclasses
import json
import operator
import os
import time

import pytest

from refkit.verify.kernel_fuzz import __main__ as command
from refkit.verify.kernel_fuzz import comparison, corpus, workers
from refkit.verify.kernel_fuzz.execution import Rendered, run
from refkit.verify.kernel_fuzz.interpreter import interpret
from refkit.verify.kernel_fuzz.search import draw_programs


@pytest.fixture(scope="module")
def entry():
    program = draw_programs(3, seed=8)[2]
    return corpus.Entry.of(Rendered.of(program), interpret(program))


def test_a_corpus_comes_back_as_it_was(tmp_path, entry):
    path = tmp_path / "corpus.json"
    corpus.write(path, [entry, entry], seed=8)
    entries, sha = corpus.read(path)
    assert entries == [entry, entry]
    assert len(sha) == 64
    assert json.loads(path.read_text())["seed"] == 8


@pytest.mark.parametrize("text", ["no json", "[]", '{"schema": 1}', '{"schema": 99, "programs": []}'])
def test_what_is_no_corpus_is_one_clear_error(tmp_path, text):
    path = tmp_path / "corpus.json"
    path.write_text(text)
    with pytest.raises(corpus.CorpusError, match=r"corpus\.json"):
        corpus.read(path)


@pytest.mark.cpu
def test_an_entry_that_agrees_gives_nothing(entry):
    assert comparison.examine(entry, "cpu") == {}


@pytest.mark.cpu
def test_a_difference_is_located_by_the_executor(entry, monkeypatch):
    def other(program, backend):
        result = run(program, "cpu")
        if backend == "cuda":
            result[1] ^= 4
        return result

    monkeypatch.setattr(comparison, "run", other)
    outcome = comparison.examine(entry, "cuda")
    assert outcome["kind"] == "value"
    assert outcome["message"].startswith("out[0, 1] (thread 0 of the grid): executor ")
    assert entry.program.source in outcome["report"]


@pytest.mark.cpu
def test_a_recorded_result_that_nothing_reproduces_is_told(entry):
    stale = dataclasses.replace(entry, digest="0" * 64)
    assert (
        comparison.examine(stale, "cpu")["message"] == "cpu and the executor here both differ from the recorded result"
    )


@pytest.mark.cpu
def test_a_program_that_does_not_compile_is_a_fault(entry):
    broken = dataclasses.replace(entry, program=dataclasses.replace(entry.program, source="def kernel(:"))
    outcome = comparison.examine(broken, "cpu")
    assert (outcome["kind"], outcome["message"].startswith("cpu: SyntaxError")) == ("fault", True)


def test_a_summary_counts_each_program_once(monkeypatch, tmp_path, entry):
    path = tmp_path / "corpus.json"
    corpus.write(path, [entry] * 5, seed=0)
    value = {"kind": "value", "message": "m", "report": "r"}
    fault = {"kind": "fault", "message": "m", "report": "r"}
    answers = iter([[{}, value, fault, fault, None], [{}, fault]])

    def each(task, items, **options):
        return enumerate(next(answers))

    monkeypatch.setattr(comparison.workers, "each", each)
    summary = comparison.compare(path, "cpu", jobs=1)
    # The fault of program 2 came from a neighbour: alone, it agrees.
    assert (summary.equal, summary.unanswered, summary.holds) == (2, 1, False)
    assert [outcome["program"] for outcome in summary.different] == [1]
    assert [outcome["program"] for outcome in summary.faults] == [3]
    assert summary.to_json()["environment"]["date"]


def test_workers_answer_in_order():
    assert list(workers.each(operator.neg, [1, 2, 3], jobs=2, timeout=60)) == [(0, -1), (1, -2), (2, -3)]


def exit_on_zero(item):
    """A task whose process dies of one item."""
    return os._exit(3) if item == 0 else item


def test_a_dead_worker_costs_one_answer():
    assert list(workers.each(exit_on_zero, [1, 0, 2], jobs=1, timeout=5)) == [(0, 1), (1, None), (2, 2)]


def test_a_hanging_worker_ends_the_run():
    answers = list(workers.each(time.sleep, [60, 60, 60, 60], jobs=1, timeout=0.5))
    assert answers == [(position, None) for position in range(4)]


def test_exit_statuses(tmp_path, capsys, monkeypatch):
    missing = tmp_path / "missing.json"
    assert command.main(["--compare", str(missing)]) == 2
    assert "missing.json" in capsys.readouterr().err
    monkeypatch.setattr(command, "_has_gpu", lambda: False)
    assert command.main(["--compare", str(missing), "--backend", "cuda"]) == 3
    with pytest.raises(SystemExit, match="2"):
        command.main(["--count", "0"])
