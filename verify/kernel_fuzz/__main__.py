"""`python -m refkit.verify.kernel_fuzz`: random kernels on the executor, the interpreter and a GPU."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from refkit.verify.environment import available_cores

from . import corpus, tasks, workers
from .comparison import compare
from .execution import BACKENDS
from .search import draw_programs

_ANSWER_WITHIN = 900.0
"""Seconds for a worker's share of a search, shrinking included."""
_SHARE = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 all agree, 1 a discrepancy, 2 a wrong call, 3 no GPU."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.count < 1 or options.jobs < 1 or options.schedules < 0:
        parser.error("--count and -j are at least 1, --schedules at least 0")
    try:
        if options.compare is not None:
            return _compare(options)
        if options.write is not None:
            return _write(options)
        return _search(options)
    except (corpus.CorpusError, OSError) as error:
        print(f"kernel_fuzz: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m refkit.verify.kernel_fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100, metavar="N", help="programs to draw (100)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="what they are drawn from (0)")
    parser.add_argument("-j", dest="jobs", type=int, default=available_cores(), metavar="N", help="worker processes")
    parser.add_argument("--schedules", type=int, default=1, metavar="K", help="seeded schedules per program (1)")
    parser.add_argument("--sanitize", default="", metavar="NAMES", help="sanitizers that watch, by comma")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", type=Path, metavar="FILE", help="write programs and CPU results")
    mode.add_argument("--compare", type=Path, metavar="FILE", help="run the programs of a file and compare")
    parser.add_argument("--backend", choices=BACKENDS, default="cpu", help="where --compare runs them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary of --compare")
    return parser


def _search(options: argparse.Namespace) -> int:
    """The executor against the interpreter, in shares over worker processes."""
    started = time.perf_counter()
    sizes = [min(_SHARE, options.count - begun) for begun in range(0, options.count, _SHARE)]
    shares = [tasks.Share(size, options.seed * 1_000_003 + number) for number, size in enumerate(sizes)]
    sanitize = tuple(name for name in options.sanitize.split(",") if name)
    task = partial(tasks.search_share, schedules=tuple(range(1, options.schedules + 1)), sanitize=sanitize)
    bad = 0
    for position, outcome in workers.each(task, shares, jobs=options.jobs, timeout=_ANSWER_WITHIN):
        report = "no answer from the worker: it died or hangs" if outcome is None else outcome
        print(f"seed {shares[position].seed}: {shares[position].count} programs: {report or 'agree'}", flush=True)
        bad += bool(report)
    seconds = time.perf_counter() - started
    print(f"{options.count} programs in {seconds:.0f} s; {bad} of {len(shares)} shares with a discrepancy")
    return 1 if bad else 0


def _write(options: argparse.Namespace) -> int:
    """Programs and their CPU results into a file; only where the interpreter agrees with them."""
    programs = draw_programs(options.count, options.seed)
    entries, bad = [], 0
    for position, outcome in workers.each(tasks.recorded, programs, jobs=options.jobs, timeout=_ANSWER_WITHIN):
        if isinstance(outcome, corpus.Entry):
            entries.append(outcome)
        else:
            bad += 1
            print(f"program {position}: {outcome or 'no answer from the worker'}", flush=True)
    if bad:
        print(f"{bad} of {len(programs)} programs disagree: nothing written", file=sys.stderr)
        return 1
    corpus.write(options.write, entries, options.seed)
    print(f"{len(entries)} programs, {options.write.stat().st_size / 1e6:.1f} MB: {options.write}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    if options.backend == "cuda" and not _has_gpu():
        print("kernel_fuzz: --backend cuda: no usable GPU here", file=sys.stderr)
        return 3
    summary = compare(options.compare, options.backend, options.jobs)
    if options.json is not None:
        options.json.write_text(json.dumps(summary.to_json(), indent=1) + "\n")
    for outcome in (*summary.different, *summary.faults):
        print(f"program {outcome['program']}: {outcome['report']}\n")
    print(_line(summary.to_json()))
    return 0 if summary.holds else 1


def _line(summary: dict[str, Any]) -> str:
    unequal = f"{len(summary['different'])} differ, {len(summary['faults'])} fail, {summary['unanswered']} unanswered"
    return (
        f"{summary['equal']} of {summary['programs']} programs equal on {summary['backend']}; {unequal}; "
        f"{summary['seconds']} s with {summary['jobs']} processes"
    )


def _has_gpu() -> bool:
    from numba import cuda

    return cuda.is_available()


if __name__ == "__main__":
    sys.exit(main())
