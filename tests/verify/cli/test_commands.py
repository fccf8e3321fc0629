"""The commands from the outside: exit statuses, one-line errors, files written, a failing case replayed."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from refkit.records import RunRecord
from refkit.verify.__main__ import commands, main

SCALE_ROWS = """
    import numpy as np
    from numba import cuda
    from refkit.verify import Dim, In, KernelSpec, Out

    @cuda.jit
    def scale_rows_kernel(x, s, y):
        row = cuda.blockIdx.x
        for col in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
            y[row, col] = x[row, col] * s[row]

    def scale_rows(x, s, y):
        scale_rows_kernel[x.shape[0], 128](x, s, y)

    R, C = Dim("R"), Dim("C")

    scale_rows_spec = KernelSpec(
        launch=scale_rows,
        reference=lambda x, s: x * s[:, None],
        args=dict(x=In(R, C), s=In(R), y=Out(R, C)),
    )
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *changes: write(tmp_path / "scale_rows.py", *changes)


def write(path: Path, *changes: tuple[str, str]) -> Path:
    text = textwrap.dedent(SCALE_ROWS)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def one_line(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_every_file_with_help_is_a_command():
    assert {"all", "fuzz", "list", "replay"} <= set(commands())
    assert not {"options", "render", "junit", "keywords", "verification"} & set(commands())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["everything"], "invalid choice"),
        (["all", "--fast"], "unrecognized arguments: --fast"),
        (["all", "--backend", "tpu"], "invalid choice: 'tpu'"),
        (["all", "--seed", "x"], "'x' is not an integer"),
        (["all", "--seed", "-1"], "-1 is negative"),
        (["all", "--seed", "9" * 5000], f"{'9' * 30}...4970 more' is not an integer (see refkit all --help)"),
        (["list", "a.py", "b.py"], "unrecognized arguments: b.py (see refkit list --help)"),
        (["all", "-j", "0"], "expected at least 1"),
        (["fuzz"], "TARGET"),
        (["fuzz", "missing.py"], "no such file"),
        (["fuzz", "no.such.module"], "no module named 'no'"),
        (["replay", "missing.json"], "there is no case file"),
        (["list", "-k", "nothing_is_called_so"], " kernels: adamw, "),
        (["list", "-k", "a and"], "ends too early"),
        (["all", "--json", "no/such/folder/x.json"], "there is no folder"),
    ],
)
def test_a_wrong_call_is_one_line_and_status_2(file, capsys, arguments, words):
    assert main(arguments) == 2
    assert words in one_line(capsys)


def test_a_backend_that_cannot_run_is_status_3(file, capsys, monkeypatch):
    monkeypatch.setattr("refkit.verify.backends.cuda.gpu_problem", lambda: "no usable NVIDIA GPU here")
    assert main(["fuzz", str(file()), "--backend", "cuda"]) == 3
    assert "no usable NVIDIA GPU here" in one_line(capsys)


def test_numbas_simulator_is_refused(file, capsys, monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert main(["fuzz", str(file())]) == 2
    assert "NUMBA_ENABLE_CUDASIM" in one_line(capsys)


def test_traceback_comes_before_the_line_and_changes_no_status(file, capsys):
    assert main(["fuzz", "missing.py", "--traceback"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "refkit: missing.py: no such file"


def test_help_needs_neither_numba_nor_hypothesis():
    code = "import sys; from refkit.verify.__main__ import main; main(['--help']); print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment()).stdout
    assert "'numpy'" in shown
    assert not [name for name in ("numba", "hypothesis", "matplotlib", "scipy") if f"'{name}'" in shown]


@pytest.mark.parametrize("command", ["all", "list", "fuzz scale_rows.py", "analyze scale_rows.py", "replay case.json"])
def test_under_numbas_simulator_a_fresh_process_says_one_line(file, command):
    file()
    variables = {**environment(), "NUMBA_ENABLE_CUDASIM": "1"}
    call = [sys.executable, "-m", "refkit.verify", *command.split()]
    done = subprocess.run(call, capture_output=True, text=True, env=variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("refkit: NUMBA_ENABLE_CUDASIM is set; unset it")
    assert done.stderr.count("\n") == 1


def test_the_executor_is_refused_under_numbas_simulator_in_one_line():
    variables = {**environment(), "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", "import refkit.cpu"], capture_output=True, text=True, env=variables)
    assert done.stderr.splitlines()[-1].startswith("ImportError: NUMBA_ENABLE_CUDASIM is set; unset it")


def test_a_name_that_is_not_utf8_and_a_terminal_that_is_ascii(file):
    name = os.fsdecode(b"caf\xe9.py")
    file().rename(name)
    variables = {**environment(), "PYTHONIOENCODING": "ascii"}
    call = [sys.executable, "-m", "refkit.verify", "list", name, "--json", "list.json"]
    done = subprocess.run(call, capture_output=True, text=True, env=variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert name in json.loads(Path("list.json").read_text())["kernels"][0]["source"]
    missing = subprocess.run([*call[:4], os.fsdecode(b"\xe9.py")], capture_output=True, text=True, env=variables)
    assert (missing.returncode, missing.stderr) == (
        2,
        "refkit: \\udce9.py: no such file; did you mean caf\\udce9.py?\n",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("scale_rows_spec = KernelSpec(", "scale_rows_spec = dict(")], "no KernelSpec in it"),
        ([("In(R), y", "In(R), z")], "scale_rows.py:17"),
        ([("x=In(R, C), s=In", "x=In(R, C), t=In")], "scale_rows.py:17"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place_and_status_2(file, capsys, changes, words):
    assert main(["fuzz", str(file(*changes))]) == 2
    assert words in one_line(capsys)


def test_list_shows_what_a_file_holds(file, capsys):
    assert main(["list", str(file()), "--json", "list.json"]) == 0
    assert "scale_rows" in capsys.readouterr().out
    (kernel,) = json.loads(Path("list.json").read_text())["kernels"]
    assert (kernel["name"], kernel["direction"], kernel["precision"]) == ("scale_rows", "forward", "float32")
    assert "accuracy" in kernel["checks"]
    assert "accumulation" not in kernel["checks"]


@pytest.mark.cpu
def test_the_file_of_the_documentation_passes_and_every_result_is_written(file, capsys):
    arguments = ["fuzz", str(file()), "--profile", "quick", "--json", "run.json", "--junit", "run.xml", "-j", "1"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "[1/1] scale_rows: passed" in out
    assert "\x1b" not in out
    run = RunRecord.from_json(json.loads(Path("run.json").read_text()))
    assert run.summary["passed"] == 1
    assert run.environment["numpy"]
    assert not list(Path().glob(".run.json*"))
    suite = ElementTree.parse("run.xml").getroot()
    assert int(suite.attrib["tests"]) == len(run.kernels[0].checks)
    assert suite.attrib["failures"] == "0"


@pytest.mark.cpu
def test_a_failing_case_is_saved_replayed_and_fixed(file, capsys):
    target = file(("x.shape[1], cuda.blockDim", "x.shape[1] - 1, cuda.blockDim"))
    assert main(["fuzz", str(target), "--profile", "quick", "--json", "run.json", "-j", "1", "--no-progress"]) == 1
    assert "-m refkit.verify replay .refkit/cases/" in capsys.readouterr().out
    (check,) = [c for c in json.loads(Path("run.json").read_text())["kernels"][0]["checks"] if c["status"] == "failed"]
    assert check["name"] == "every_output_written"
    for changes, status, word in (([("x.shape[1], cuda", "x.shape[1] - 1, cuda")], 1, "failing"), ([], 0, "fixed")):
        write(target, *changes)
        command = [sys.executable, "-m", "refkit.verify", "replay", check["case_file"]]
        again = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert (again.returncode, again.stderr) == (status, "")
        assert f"\n{word}: " in again.stdout
    write(target, ('C = Dim("R"), Dim("C")', 'C = Dim("R"), Dim("D")'))
    assert main(["replay", check["case_file"]]) == 2
    assert "has changed since this case was saved: its dims are now D, R" in one_line(capsys)
    target.unlink()
    assert main(["replay", check["case_file"]]) == 2
    assert "no such file" in one_line(capsys)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        (
            [("    scale_rows_kernel[x", "    raise OSError('none')\n    scale_rows_kernel[x")],
            1,
            ":13: the launcher raised OSError",
        ),
        (
            [("* s[row]\n\ndef", "* s[row]\n        yield col\n\ndef")],
            1,
            ":14: the kernel does not compile: numba-cuda failed",
        ),
        ([("[x.shape[0], 128]", "[x.shape[0], 4096]")], 1, ":13: block.x = 4096 exceeds the limit"),
        ([("* s[row]\n\ndef", "* s[row].foo\n\ndef")], 1, "scale_rows.py:10: the kernel does not compile"),
        ([("x * s[:, None]", "x[:-1] * s[:-1, None]")], 2, "scale_rows.py:17: the reference returned shape"),
    ],
)
def test_what_is_wrong_is_said_with_the_users_line(file, capsys, changes, status, words):
    assert main(["fuzz", str(file(*changes)), "--profile", "quick", "-j", "1"]) == status
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count(words) >= 1
    assert captured.err.count(words) == (status == 2)
    assert (words in captured.out) == (status == 1)
    assert "Traceback" not in captured.out + captured.err


BAD_TAIL = ("x.shape[1], cuda.blockDim", "x.shape[1] - 1, cuda.blockDim")
"""A kernel that leaves out the last column."""


@pytest.mark.cpu
def test_a_kernel_that_crashes_is_located_by_the_sanitizers_and_replay_survives_it(file, capsys):
    target = file(("y[row, col] = ", "y[row, col + (1 << 40)] = "))
    assert main(["fuzz", str(target), "--profile", "quick", "-j", "1", "--json", "run.json", "--no-progress"]) == 1
    where = f"{target}:10: index 1099511627776 is outside axis 1 of y"
    assert f"failed scale_rows: sanitizers: {where}" in capsys.readouterr().out
    checks = {check["name"]: check for check in json.loads(Path("run.json").read_text())["kernels"][0]["checks"]}
    assert checks["accuracy"]["status"] == "error"
    assert "ended by SIGSEGV (an access out of bounds can do that)" in checks["accuracy"]["message"]
    assert main(["replay", checks["accuracy"]["case_file"]]) == 1
    out = capsys.readouterr().out
    assert "failing: accuracy: the process was ended by SIGSEGV" in out
    assert f"failing: sanitizers: {where}" in out


@pytest.mark.cpu
def test_a_fault_is_told_where_its_case_cannot_be_saved(file, capsys):
    Path(".refkit").write_text("a file where the folder should be")
    assert main(["fuzz", str(file(BAD_TAIL)), "--profile", "quick", "-j", "1", "--no-progress"]) == 1
    captured = capsys.readouterr()
    assert "failed scale_rows: every_output_written" in captured.out
    assert "again:" not in captured.out
    assert captured.err.startswith("refkit: failing cases will not be saved: ")


@pytest.mark.cpu
def test_results_that_cannot_be_written_at_the_end_cost_nothing_else(file, capsys, monkeypatch):
    def full(record, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("refkit.reports.write", full)
    monkeypatch.setattr("refkit.verify.store.os.replace", lambda a, b: full(a, b))
    arguments = ["fuzz", str(file()), "--profile", "quick", "-j", "1", "--json", "a.json", "--junit", "a.xml"]
    assert main([*arguments, "--report", "page"]) == 2
    captured = capsys.readouterr()
    assert "1 passed" in captured.out
    assert captured.err.splitlines() == [
        "refkit: --json a.json was not written: No space left on device",
        "refkit: --junit a.xml was not written: No space left on device",
        "refkit: --report page was not written: No space left on device",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "locked/a.json"], "--json locked/a.json: "),
        (["--junit", "locked/a.xml"], "--junit locked/a.xml: "),
        (["--report", "locked/new/page"], "--report locked/new/page: "),
        (["--report", "scale_rows.py/page"], "scale_rows.py is a file"),
        (["--json", "same", "--junit", "./same"], "--json and --junit both name same"),
    ],
)
def test_where_nothing_can_be_written_is_said_before_the_work(file, capsys, monkeypatch, arguments, words):
    Path("locked").mkdir()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path) and real(path, mode))
    assert main(["fuzz", str(file()), *arguments]) == 2
    assert words in one_line(capsys)


@pytest.mark.cpu
def test_a_pipe_takes_the_json_and_stays_a_pipe(file, capsys):
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        small = ["-j", "1", "--no-progress", "-k", "scale"]
        assert main(["list", str(file()), "--json", "pipe", *small[3:]]) == 0
        assert json.loads(os.read(reader, 1 << 16))["kernels"][0]["name"] == "scale_rows"
    finally:
        os.close(reader)
    assert Path("pipe").is_fifo()
    assert {entry.name for entry in Path().iterdir()} == {"pipe", "scale_rows.py"}


@pytest.mark.cpu
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_writes_what_it_found(file, number):
    slow = "import time, pathlib\n\ndef scale_rows(x, s, y):\n    pathlib.Path('started').touch(); time.sleep(0.1)\n"
    target = file(("def scale_rows(x, s, y):\n", slow))
    command = [sys.executable, "-u", "-m", "refkit.verify", "fuzz", str(target), "--json", "run.json", "-j", "1"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not Path("started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    time.sleep(0.003)
    process.send_signal(number)  # an impatient user presses it again at once
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "(interrupted)" in out
    run = RunRecord.from_json(json.loads(Path("run.json").read_text()))
    assert run.interrupted
    assert run.kernels[0].status.value == "skipped"


def environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[3])
    return {**os.environ, "PYTHONPATH": root}
