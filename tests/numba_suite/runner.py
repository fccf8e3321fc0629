"""Finds numba-cuda's test modules and runs each in a process of its own."""

import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import results

PACKAGES = ("cudapy", "core", "doc_examples")
TEST_LIMIT = 120.0  # seconds of one test
_SILENCE = 3 * TEST_LIMIT  # seconds without a line from a worker: it hangs where no signal is seen
_RESTARTS = 12
_ROOT = Path(__file__).parents[2]


def test_modules() -> list[str]:
    """The dotted names of all test modules of `PACKAGES`."""
    names = []
    for package in PACKAGES:
        path = importlib.import_module("numba.cuda.tests").__path__
        folders = [str(Path(folder) / package) for folder in path]
        found = sorted(info.name for info in pkgutil.iter_modules(folders) if info.name.startswith("test_"))
        names += [f"numba.cuda.tests.{package}.{name}" for name in found]
    return names


def run_modules(
    modules: Iterable[str], jobs: int, on_module: Callable[[results.Module], None] = lambda module: None
) -> list[results.Module]:
    """Runs modules, `jobs` at a time; the results are in the order of the names."""
    with ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as folder:

        def one(name: str) -> results.Module:
            module = run_module(name, Path(folder))
            on_module(module)
            return module

        return list(pool.map(one, modules))


def run_module(name: str, folder: Path) -> results.Module:
    """Runs one module; a test that ends or stops its process is recorded, and the others run in a new one."""
    report, already, output = (folder / f"{name}.{suffix}" for suffix in ("jsonl", "already", "log"))
    start = time.monotonic()
    for _ in range(_RESTARTS):
        hung, status = _work(name, report, already, output)
        recorded = results.events(report)
        if any(event["event"] == "ended" for event in recorded):
            break
        finished = {event["id"] for event in recorded if event["event"] == "finished"}
        started = [event["id"] for event in recorded if event["event"] == "started" and event["id"] not in finished]
        if not started:
            recorded.append({"event": "not collected", "message": _tail(output)})
            return results.read(name, recorded, time.monotonic() - start)
        how = f"no sign of life for {_SILENCE:g} s" if hung else f"the process ended with status {status}"
        with report.open("a", encoding="utf-8") as file:
            outcome = "timed out" if hung else "crashed"
            file.write(results.line(event="finished", id=started[-1], outcome=outcome, message=how, launches=1))
        already.write_text("\n".join(finished | {started[-1]}))
    return results.read(name, results.events(report), time.monotonic() - start)


def _work(name: str, report: Path, already: Path, output: Path) -> tuple[bool, int]:
    """One worker process; returns whether it hung, and its exit status."""
    command = [sys.executable, "-m", "tests.numba_suite.worker", name, str(report), "--limit", str(TEST_LIMIT)]
    if already.exists():
        command += ["--already", str(already)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH")))),
    }
    with output.open("w") as log, tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=scratch, env=environment)
        try:
            seen, size = time.monotonic(), -1
            while process.poll() is None:
                now = report.stat().st_size if report.exists() else 0
                if now != size:
                    seen, size = time.monotonic(), now
                if time.monotonic() - seen > _SILENCE:
                    return True, 0
                time.sleep(0.1)
            return False, process.returncode
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _tail(output: Path) -> str:
    lines = output.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the process wrote nothing"
