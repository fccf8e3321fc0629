"""The JSON of a run: complete after every kernel, and each kernel turned into JSON once."""

import json
from dataclasses import replace

import pytest

from refkit.records import CheckRecord, KernelRecord, RunRecord, Verdict
from refkit.verify.cli.verification import Keeper
from refkit.verify.events import KernelDone


def kernel(name: str) -> KernelRecord:
    return KernelRecord(name, "op", "float32", Verdict.PASSED, 3, 0.5, (CheckRecord("accuracy", Verdict.PASSED),))


def record_of(kernels, interrupted: bool = False) -> RunRecord:
    return RunRecord("0", "cpu", "quick", 0, tuple(kernels), 1.0, {"os": "any"}, interrupted=interrupted)


def test_what_is_found_so_far_lies_beside_the_file_until_the_whole_takes_its_place(tmp_path):
    keeper = Keeper(tmp_path / "run.json", record_of)
    kernels = [kernel("one"), kernel("two")]
    for count, done in enumerate(kernels, 1):
        keeper.take(KernelDone(done))
        kept = json.loads((tmp_path / ".run.json.partial").read_text())
        assert kept == record_of(kernels[:count], True).to_json()
    assert keeper.finish(record_of(kernels)) == []
    assert json.loads((tmp_path / "run.json").read_text()) == record_of(kernels).to_json()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_run_without_kernels_is_valid_too(tmp_path):
    assert Keeper(tmp_path / "run.json", record_of).finish(record_of([])) == []
    assert json.loads((tmp_path / "run.json").read_text()) == record_of([]).to_json()


def test_each_kernel_becomes_json_once(tmp_path, monkeypatch):
    made = []
    original = KernelRecord.to_json
    monkeypatch.setattr(KernelRecord, "to_json", lambda self: made.append(self.name) or original(self))
    keeper = Keeper(tmp_path / "run.json", record_of)
    kernels = [kernel(name) for name in "abc"]
    for done in kernels:
        keeper.take(KernelDone(done))
    keeper.finish(record_of(kernels))
    assert made == ["a", "b", "c"]
    keeper.finish(record_of([replace(kernels[0], message="changed")]))
    assert json.loads((tmp_path / "run.json").read_text())["kernels"][0]["message"] == "changed"


def test_a_folder_that_is_gone_is_told_in_one_line(tmp_path):
    (problem,) = Keeper(tmp_path / "gone" / "run.json", record_of).finish(record_of([]))
    assert problem.endswith("was not written: No such file or directory")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_written_is_strict_json(tmp_path, bad):
    Keeper(tmp_path / "run.json", record_of).finish(record_of([replace(kernel("one"), seconds=bad)]))
    assert "NaN" not in (tmp_path / "run.json").read_text().replace('"NaN"', "")
    assert json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
