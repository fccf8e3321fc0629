"""Runs the catalogue's faulty kernels under NVIDIA's compute-sanitizer and writes down who sees what.

    python -m tests.catalogue.compute_sanitizer --out DIR [--twins] [--jobs 8] [--timeout 60] [-k NAME]

Needs a GPU and `compute-sanitizer` on the PATH. Every entry marked `cuda` runs in a process of its own, under the tool
that looks for faults of its kind; the other entries could hang a GPU and are listed as not run. refkit's column comes
from the CPU executor's sanitizers in the same run. Writes `who_sees_what.json` and `who_sees_what.md` into DIR.
Exit status: 0 done; 2 a wrong call; 3 it cannot run here.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.catalogue.entry import Entry
from tests.catalogue.sanitizer_output import Output, read

TOOLS = {"memory": "memcheck", "race": "racecheck", "uninitialized": "initcheck", "barrier": "synccheck"}
ROOT = Path(__file__).resolve().parents[2]


def launch_one(name: str, twin: bool) -> None:
    """Launches one kernel on the GPU, compiled with line information; runs inside the tool's process."""
    from numba import cuda
    from numba.cuda.cudadrv.driver import CudaAPIError

    cuda.jit = functools.partial(cuda.jit, lineinfo=True)  # so that the tool can name source lines
    from tests.catalogue import entries

    entry = next(entry for entry in entries() if entry.name == name)
    if twin:
        entry.correct()
    elif entry.faulty is not None:
        # the tool stops a faulty kernel, and then the host's next call fails: the tool's report is what counts
        with contextlib.suppress(CudaAPIError):
            entry.faulty()


def under_tool(entry: Entry, *, twin: bool, timeout: float) -> tuple[Output, float]:
    """What the tool for this entry's kind says about its faulty kernel or its twin, and the seconds it took."""
    command = [
        "compute-sanitizer",
        *("--tool", TOOLS[entry.sanitizer], "--print-limit", "20"),
        *(sys.executable, "-m", "tests.catalogue.compute_sanitizer", "--launch", entry.name),
        *(["--twin"] if twin else []),
    ]
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        text += f"\n========= Stopped: no end within {timeout:g} s"
    return read(text, entry.lines), time.monotonic() - start


def seen_by_refkit(entry: Entry) -> dict[str, Any]:
    """What the CPU executor's sanitizers say about the faulty kernel."""
    from refkit.cpu import SANITIZERS, KernelFault, SanitizerFault, emulate

    assert entry.faulty is not None
    try:
        with emulate(sanitize=SANITIZERS):
            entry.faulty()
    except SanitizerFault as fault:
        findings = [f for f in fault.findings if f.sanitizer == entry.sanitizer]
        at_line = any(f.line in entry.lines.all and f.problem == entry.problem for f in findings)
        return {
            "seen": bool(findings),
            "at_marked_line": at_line,
            "first_line": findings[0].message if findings else "",
        }
    except KernelFault as fault:
        return {"seen": False, "at_marked_line": False, "first_line": str(fault)}
    return {"seen": False, "at_marked_line": False, "first_line": ""}


def row_of(entry: Entry, refkit: dict[str, Any], faulty: tuple[Output, float] | None, twin: Output | None) -> dict:
    """One row of the table, as JSON."""
    row: dict[str, Any] = {
        "entry": entry.name,
        "sanitizer": entry.sanitizer,
        "problem": entry.problem,
        "note": entry.note,
        "refkit": refkit,
        "tool": TOOLS[entry.sanitizer],
        "run": faulty is not None,
    }
    if faulty is not None:
        output, seconds = faulty
        row |= {"seen": output.seen, "at_marked_line": output.at_marked_line, "reports": len(output.reports)}
        row |= {"first_line": output.first_line, "failure": output.failure, "seconds": round(seconds, 1)}
    if twin is not None:
        row["twin"] = {"seen": twin.seen, "first_line": twin.first_line, "failure": twin.failure}
    return row


def markdown(record: dict[str, Any]) -> str:
    """The table "who sees what", with one line of sums per sanitizer above it."""
    lines = [
        "# Who sees what",
        "",
        f'{record["device"]}, {record["compute_sanitizer"]}, {record["date"]}. "yes" is a report of the fault\'s kind; '
        '"yes, line" one that also names the marked source line. Entries that could hang a GPU were not run there.',
        "",
        "| sanitizer | entries | refkit | run on the GPU | compute-sanitizer, of these |",
        "|---|---|---|---|---|",
    ]
    for kind, tool in TOOLS.items():
        rows = [row for row in record["rows"] if row["sanitizer"] == kind]
        run = [row for row in rows if row["run"]]
        refkit, nvidia = (sum(bool(part["seen"]) for part in parts) for parts in ([r["refkit"] for r in rows], run))
        lines.append(f"| {kind} | {len(rows)} | {refkit} | {len(run)} | {nvidia} ({tool}) |")
    twins = any("twin" in row for row in record["rows"])
    head = ["entry", "sanitizer", "problem", "refkit", "tool", "seen", "first line", *(["twin"] if twins else [])]
    lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in record["rows"]:
        cells = [f"`{row['entry']}`", row["sanitizer"], row["problem"], _answer(row["refkit"]), row["tool"]]
        cells += [_answer(row) if row["run"] else "not run", _escaped(row.get("first_line", ""))]
        if twins:
            twin = row.get("twin")
            cells.append("" if twin is None else "reported" if twin["seen"] else twin["failure"] or "quiet")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _answer(part: dict[str, Any]) -> str:
    if part["seen"]:
        return "yes, line" if part["at_marked_line"] else "yes"
    return f"failed: {_escaped(part['failure'])}" if part.get("failure") else "no"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _first_output_line(*command: str) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return next((line.strip() for line in reversed(result.stdout.splitlines()) if line.strip()), "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.catalogue.compute_sanitizer", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the JSON and the Markdown table")
    parser.add_argument("--jobs", type=int, default=8, help="processes at a time")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one kernel")
    parser.add_argument("--twins", action="store_true", help="run the correct twins as well")
    parser.add_argument("-k", metavar="NAME", default="", help="only entries whose name holds NAME")
    parser.add_argument("--launch", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--twin", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.launch:
        launch_one(options.launch, options.twin)
        return 0
    return compare(options)


def compare(options: argparse.Namespace) -> int:
    """Runs every chosen entry under both and writes the two files."""
    from tests.catalogue import entries

    device = _first_output_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    for missing, what in (
        (not device, "no NVIDIA GPU found"),
        (shutil.which("compute-sanitizer") is None, "compute-sanitizer is not on the PATH"),
    ):
        if missing:
            print(what, file=sys.stderr)
            return 3
    chosen = [entry for entry in entries() if entry.faulty is not None and options.k in entry.name]
    if not chosen:
        print(f"-k {options.k}: no entry of that name", file=sys.stderr)
        return 2
    jobs = [(entry, twin) for entry in chosen if entry.cuda for twin in ((False, True) if options.twins else (False,))]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(
            zip(
                ((entry.name, twin) for entry, twin in jobs),
                pool.map(lambda job: under_tool(job[0], twin=job[1], timeout=options.timeout), jobs),
            )
        )
    rows = []
    for entry in chosen:
        twin = results.get((entry.name, True))
        rows.append(
            row_of(entry, seen_by_refkit(entry), results.get((entry.name, False)), None if twin is None else twin[0])
        )
    record = {
        "date": datetime.date.today().isoformat(),
        "device": device,
        "compute_sanitizer": _first_output_line("compute-sanitizer", "--version"),
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "who_sees_what.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / "who_sees_what.md").write_text(markdown(record), encoding="utf-8")
    print(f"{len(rows)} entries, {len(jobs)} runs on the GPU: {options.out / 'who_sees_what.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
