"""Runs one of numba-cuda's test modules inside `refkit.cpu.emulate()`, in this process, and reports every test.

    python -m tests.numba_suite.worker MODULE REPORT [--already FILE] [--limit SECONDS]

REPORT receives one JSON object per line: `collected` for every test, before any runs, `started` and `finished`. A line
is on disk before the next step, so that what ran is known even where the process dies.
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.cuda import testing
from numba.cuda.cudadrv import libs

from . import launches, source_facts

_CONFIGURATION = Path(__file__).with_name("numba_suite.ini")


class TooSlow(Exception):
    """A test ran past its time limit."""


class ModuleByName(pytest.Module):
    """A test module imported by its dotted name: pytest cannot see that `numba_cuda/numba/cuda` is `numba.cuda`."""

    dotted_name = ""

    def _getobj(self) -> Any:
        try:
            return importlib.import_module(self.dotted_name)
        except pytest.skip.Exception as skipped:
            raise self.CollectError(f"skipped: {skipped}") from skipped
        except Exception as error:
            raise self.CollectError(f"{type(error).__name__}: {error}") from error


class Recorder:
    """The pytest plugin that counts launches and writes the report."""

    def __init__(self, module: str, report: Path, already: frozenset[str], limit: float) -> None:
        self.module, self.already, self.limit = module, already, limit
        self.file = report.open("a", encoding="utf-8")
        self.letters, self.offset = report.with_suffix(".launches"), 0
        self.launches = self.completed = 0
        self.outcome, self.message, self.seconds = "passed", "", 0.0

    def write(self, event: str, **fields: Any) -> None:
        self.file.write(json.dumps({"event": event, **fields}) + "\n")
        self.file.flush()

    def asked(self) -> None:
        """A launch was asked for."""
        self.launches += 1

    def ended(self) -> None:
        """A launch ended without an error."""
        self.completed += 1

    # --- pytest's hooks ---

    @pytest.fixture
    def initialize_from_pytest_config(self, request: pytest.FixtureRequest) -> None:
        """The fixture that numba-cuda's own, unpublished conftest gives its test classes."""
        request.cls._dump_failed_filechecks = False

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir:
        return pytest.Dir.from_parent(parent, path=path)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module:
        module = ModuleByName.from_parent(parent, path=module_path)
        module.dotted_name = self.module
        return module

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.write("not collected", message=str(report.longrepr))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.nodeid not in self.already:
                self.write("collected", id=item.nodeid, facts=source_facts.facts_of(item))
        items[:] = [item for item in items if item.nodeid not in self.already]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.launches = self.completed = 0
        self.outcome, self.message, self.seconds = "passed", "", 0.0
        self.offset = self.letters.stat().st_size
        self.write("started", id=nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds += report.duration
        if hasattr(report, "wasxfail"):
            if report.skipped and self.outcome == "passed":
                self.outcome, self.message = "expected failure", str(report.wasxfail)
        elif report.skipped and self.outcome == "passed" and "::" in report.nodeid and not _is_subtest(report):
            self.outcome, self.message = "skipped", str(report.longrepr[-1] if report.longrepr else "")
        elif report.failed and self.outcome not in ("failed", "errored"):
            self.outcome = "failed" if report.when == "call" else "errored"
            self.message = _last_error(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        asked, completed, self.offset = launches.launches_of_started_processes(self.letters, self.offset)
        self.write(
            "finished",
            id=nodeid,
            outcome=self.outcome,
            message=self.message,
            launches=self.launches + asked,
            completed=self.completed + completed,
            seconds=round(self.seconds, 3),
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        with _time_limit(self.limit):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        with _time_limit(self.limit):
            return (yield)


def _is_subtest(report: Any) -> bool:
    return type(report).__name__ == "SubtestReport"


def _last_error(report: Any) -> str:
    """`Type: message` of the error that ended the test, on one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return " ".join(text.split())[:600]


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def expired(*_: Any) -> None:
        raise TooSlow(f"the test did not end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _without_toolkit() -> None:
    """Answers for the CUDA toolkit where the suite asks, on import, whether its files are there.

    Grid barriers need the library `cudadevrt` on a GPU, and nothing here; tests that include the toolkit's headers are
    skipped by the suite where these are reported missing, but its search raises another error without any toolkit.
    """
    testing.cudadevrt_missing = lambda: False
    try:
        libs.get_cuda_include_dir()
    except Exception as error:
        text = f"no CUDA toolkit: {error}"

        def missing() -> str:
            raise FileNotFoundError(text)

        libs.get_cuda_include_dir = missing


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.numba_suite.worker")
    parser.add_argument("module")
    parser.add_argument("report", type=Path)
    parser.add_argument("--already", type=Path)
    parser.add_argument("--limit", type=float, default=120.0)
    options = parser.parse_args()
    already = frozenset(options.already.read_text().split("\n")) if options.already else frozenset()
    recorder = Recorder(options.module, options.report, already, options.limit)
    spec = importlib.util.find_spec(options.module)
    assert spec is not None, f"no module {options.module}"
    assert spec.origin is not None, f"{options.module} has no file"
    path = Path(spec.origin)
    arguments = [str(path), "-q", "-p", "no:cacheprovider", "-c", str(_CONFIGURATION), f"--rootdir={path.parents[1]}"]
    _without_toolkit()
    launches.emulate_started_processes(recorder.letters)
    with launches.counted_emulation(recorder.asked, recorder.ended):
        status = pytest.main(arguments, plugins=[recorder])
    if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        sys.exit(f"pytest ended with {status!r}")
    recorder.write("ended")
    sys.stdout.flush()
    os._exit(0)  # threads and callbacks that a test left behind must not turn a finished run into a crash


if __name__ == "__main__":
    main()
