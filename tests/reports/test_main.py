"""`python -m refkit.reports`: the page is written, and a wrong call is one line and exit status 2."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys

import pytest

from refkit.reports.__main__ import main
from tests.reports.synthetic import synthetic_run


@pytest.fixture
def results(tmp_path):
    run = synthetic_run(kernels=2, cases=3, failing=())
    run["kernels"][0]["checks"][0]["cases_data"][0]["ratio"] = math.nan  # written as the bare token NaN
    file = tmp_path / "results.json"
    file.write_text(json.dumps(run), encoding="utf-8")
    return file


def test_the_module_writes_the_page_and_prints_its_path(results, tmp_path):
    command = [sys.executable, "-m", "refkit.reports", str(results), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(tmp_path / "out" / "index.html")
    assert (tmp_path / "out" / "index.html").stat().st_size > 10_000


def _failing_call(arguments, capsys):
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        status = exit_.code
    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("refkit.reports: ")
    assert error.count("\n") == 1, error
    return error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schema": 1, "kernels": [', "not JSON: .*line 1, column 27"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8 text: byte 0 is 0xff"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b"[1]", "JSON list, expected an object"),
        (b'{"schema": 7, "kernels": []}', "schema is 7, this refkit reads 1"),
        (b'{"schema": 1}', "kernels is missing"),
        (b'{"schema": 1, "kernels": [{"name": "k"}]}', r"kernels\[0\].status is missing"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_bad_file_is_one_line(content, message, tmp_path, capsys):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    error = _failing_call([file, "--out", tmp_path / "out"], capsys)
    assert str(file) in error
    assert re.search(message, error), error


def test_a_missing_file_is_named(tmp_path, capsys):
    missing = tmp_path / "none.json"
    assert f"{missing}: No such file" in _failing_call([missing, "--out", tmp_path], capsys)


def test_a_folder_that_is_a_file_is_named(results, capsys):
    assert str(results) in _failing_call([results, "--out", results], capsys)


@pytest.mark.parametrize(
    "arguments", [[], ["a.json"], ["a.json", "--out"], ["a.json", "--out", "x", "--wrong"]], ids=str
)
def test_a_wrong_call_is_one_line(arguments, capsys):
    _failing_call(arguments, capsys)
