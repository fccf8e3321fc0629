"""The memory model against a GPU's own counters, on every pattern of `patterns.py`:

    python -m refkit.verify.analysis.validate --out DIR

predicts each pattern on the CPU, runs the same launches under `ncu`, and writes `memory_model.json` and
`memory_model.md` into DIR; it ends with 1 where a prediction is off. Without `ncu`: `--predict` prints the predictions
alone, and `--counters FILE` compares with the CSV of an `ncu` run made elsewhere (`--command` prints that command).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOLERANCE = 0.01
"""Relative difference up to which model and counter agree: counters are exact, so this is for printing alone."""
TIMEOUT = 600.0

_SUFFIX = {"read": "ld", "write": "st"}
_GLOBAL_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_GLOBAL_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
_SHARED_INSTRUCTIONS = "smsp__inst_executed_op_shared_{}.sum"
_SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_SHARED_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_SHARED_EXACT = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_ALWAYS = (_GLOBAL_REQUESTS, _GLOBAL_SECTORS, _SHARED_INSTRUCTIONS, _SHARED_PASSES, _SHARED_CONFLICTS)
_WHERE_KNOWN = (_SHARED_EXACT,)
"""Counted by patching the instructions, which not every version of ncu does."""


def metrics(*, exact: bool = True) -> list[str]:
    """The counters that are read."""
    names = _ALWAYS + (_WHERE_KNOWN if exact else ())
    return [name.format(suffix) for name in names for suffix in ("ld", "st")]


@dataclass(frozen=True)
class Comparison:
    """One pattern: sectors or passes per request as the model says and as the GPU counted.

    counted is None where nothing was counted; conflicts is ncu's own count of bank conflicts per request.
    """

    name: str
    space: str
    access: str
    expected: float
    model: float
    model_requests: int
    counted: float | None = None
    counted_requests: int | None = None
    conflicts: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether requests and sectors or passes are those of the GPU; None where nothing was counted."""
        if self.counted is None:
            return None
        close = abs(self.model - self.counted) <= TOLERANCE * max(self.model, 1)
        return close and self.model_requests == self.counted_requests


def predict() -> list[Comparison]:
    """What the model says of each pattern, on the CPU executor."""
    import refkit.cpu
    from refkit.verify.analysis.patterns import PATTERNS

    found = []
    for pattern in PATTERNS:
        with refkit.cpu.trace() as tracer:
            pattern.launch()
        lines = [
            line for line in tracer.report().lines if line.space == pattern.space and line.access == pattern.access
        ]
        requests = sum(line.executions for line in lines)
        total = sum((line.passes or line.sectors or 0.0) * line.executions for line in lines)
        found.append(
            Comparison(pattern.name, pattern.space, pattern.access, pattern.expected, total / requests, requests)
        )
    return found


def launch_all() -> None:
    """Launches every pattern once, in order; what ncu profiles."""
    from refkit.verify.analysis.patterns import PATTERNS

    for pattern in PATTERNS:
        pattern.launch()


def command(*, exact: bool = True) -> list[str]:
    """The ncu command that counts."""
    this = [sys.executable, "-m", "refkit.verify.analysis.validate", "--launch"]
    options = [
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--clock-control",
        "none",
        "--target-processes",
        "all",
    ]
    return ["ncu", *options, "--metrics", ",".join(metrics(exact=exact)), *this]


def count() -> str:
    """The CSV of an ncu run over all patterns. Raises RuntimeError with what ncu said."""
    if shutil.which("ncu") is None:
        raise RuntimeError("ncu (Nsight Compute) is not on PATH; --predict works without it")
    for exact in (True, False):
        done = subprocess.run(command(exact=exact), capture_output=True, text=True, check=False, timeout=TIMEOUT)
        if done.returncode == 0:
            return done.stdout
    raise RuntimeError(f"ncu ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:].strip()}")


def read_counters(text: str) -> list[dict[str, str]]:
    """One mapping per launch, in order: `Kernel Name`, and the value of each counter by name.

    Reads both tables that ncu writes as CSV: one row per launch (`--page raw`) and one row per launch and metric.
    """
    rows = [line for line in text.splitlines() if line.startswith('"')]
    if not rows:
        raise RuntimeError("no CSV rows in what ncu wrote")
    table = list(csv.DictReader(io.StringIO("\n".join(rows))))
    table = [row for row in table if row.get("ID")]  # the second line of a raw page holds units
    if not table or "Metric Name" not in table[0]:
        return table
    launches: dict[str, dict[str, str]] = {}
    for row in table:
        launch = launches.setdefault(row["ID"], {"Kernel Name": row["Kernel Name"]})
        launch[row["Metric Name"]] = row["Metric Value"]
    return list(launches.values())


def compare(predictions: Sequence[Comparison], launches: Sequence[Mapping[str, str]]) -> list[Comparison]:
    """The predictions with what was counted. Raises RuntimeError where the launches are not those of the patterns."""
    from refkit.verify.analysis.patterns import PATTERNS

    if len(launches) != len(PATTERNS):
        raise RuntimeError(f"ncu counted {len(launches)} launches; expected {len(PATTERNS)}, one per pattern")
    found = []
    for pattern, prediction, launch in zip(PATTERNS, predictions, launches):
        if not re.search(rf"\b\w*{pattern.kernel_name}", launch["Kernel Name"]):
            raise RuntimeError(f"launch of {launch['Kernel Name']!r} where {pattern.kernel_name} was expected")
        found.append(_with_counters(prediction, launch))
    return found


def _with_counters(prediction: Comparison, launch: Mapping[str, str]) -> Comparison:
    suffix = _SUFFIX[prediction.access]

    def value(name: str) -> float | None:
        text = launch.get(name.format(suffix), "").replace(",", "")
        return float(text) if text and text != "n/a" else None

    conflicts = None
    if prediction.space == "global":
        requests, moved = value(_GLOBAL_REQUESTS), value(_GLOBAL_SECTORS)
    else:
        requests, moved = value(_SHARED_INSTRUCTIONS), value(_SHARED_EXACT)
        moved = value(_SHARED_PASSES) if moved is None else moved
        conflicts = value(_SHARED_CONFLICTS)
    if not requests or moved is None:
        return prediction
    return Comparison(
        **{
            **asdict(prediction),
            "counted": moved / requests,
            "counted_requests": int(requests),
            "conflicts": None if conflicts is None else conflicts / requests,
        }
    )


def markdown(found: Sequence[Comparison], about: str) -> str:
    """A table of all patterns."""
    lines = [
        "# The memory model against hardware counters",
        "",
        about,
        "",
        "| space | access | pattern | unit per request | model | counted | requests (model, counted) | agrees |",
        "|---|---|---|---|---|---|---|---|",
    ]
    words = {None: "not counted", True: "yes", False: "**no**"}
    for each in found:
        counted = "" if each.counted is None else f"{each.counted:.3f}"
        unit = "sectors" if each.space == "global" else "passes"
        requests = f"{each.model_requests}, {each.counted_requests or ''}"
        lines.append(
            f"| {each.space} | {each.access} | {each.name} | {unit} | {each.model:.3f} | {counted} | {requests} "
            f"| {words[each.agrees]} |"
        )
    agreeing = sum(each.agrees is True for each in found)
    counted_patterns = sum(each.agrees is not None for each in found)
    return "\n".join([*lines, "", f"{agreeing} of {counted_patterns} counted patterns agree.", ""])


def _write(
    out: Path, found: Sequence[Comparison], launches: Sequence[Mapping[str, str]], environment: Mapping[str, Any]
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    records = [{**asdict(each), "agrees": each.agrees} for each in found]
    names = metrics()
    counters = [{name: launch[name] for name in names if name in launch} for launch in launches]
    data = {"environment": dict(environment), "patterns": records, "counters": counters}
    (out / "memory_model.json").write_text(json.dumps(data, indent=2) + "\n")
    gpu = environment.get("gpu") or {}
    about = f"{gpu.get('name', 'no GPU')}, {environment['date']}; `python -m refkit.verify.analysis.validate`."
    (out / "memory_model.md").write_text(markdown(found, about))


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict, count, compare, write."""
    from refkit.verify.backends.cuda import gpu_problem
    from refkit.verify.environment import describe_environment

    parser = argparse.ArgumentParser(prog="python -m refkit.verify.analysis.validate", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the JSON and the table are written")
    parser.add_argument("--counters", type=Path, metavar="FILE", help="CSV of an ncu run, instead of running ncu")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--predict", action="store_true", help="only the predictions")
    how.add_argument("--launch", action="store_true", help="only launch the patterns, on the GPU (for ncu)")
    how.add_argument("--command", action="store_true", help="print the ncu command")
    chosen = parser.parse_args(arguments)
    if chosen.command:
        print(" ".join(command()))
        return 0
    if chosen.launch:
        launch_all()
        return 0
    found = predict()
    launches: list[dict[str, str]] = []
    try:
        if not chosen.predict:
            launches = read_counters(chosen.counters.read_text() if chosen.counters else count())
            found = compare(found, launches)
    except (RuntimeError, OSError) as error:
        print(f"validate: {error}", file=sys.stderr)
        return 3
    if chosen.out is not None:
        _write(chosen.out, found, launches, describe_environment("cpu" if gpu_problem() else "cuda"))
    print(markdown(found, ""))
    return int(any(each.agrees is False for each in found))


if __name__ == "__main__":
    sys.exit(main())
