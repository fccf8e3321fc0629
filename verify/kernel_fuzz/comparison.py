"""A corpus run on another backend and compared with its recorded results, bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from refkit.verify.environment import describe_environment

from . import workers
from .corpus import Entry, read
from .execution import run
from .judge import Discrepancy, first_difference

_ANSWER_WITHIN = 120.0
"""Seconds that one program may take: a kernel takes a fraction of one, a worker's start a few."""


@dataclass(frozen=True)
class Summary:
    """What a comparison found; `seconds` is wall-clock time, workers' starts included."""

    backend: str
    corpus: str
    corpus_sha256: str
    programs: int
    equal: int
    different: tuple[dict[str, Any], ...]
    faults: tuple[dict[str, Any], ...]
    unanswered: int
    jobs: int
    seconds: float
    environment: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether every program agreed."""
        return self.equal == self.programs

    def to_json(self) -> dict[str, Any]:
        """The summary as the object that is written."""
        return {"schema": 1, **asdict(self)}


def compare(
    path: Path, backend: str, jobs: int, on_program: Callable[[], None] = lambda: None, timeout: float = _ANSWER_WITHIN
) -> Summary:
    """Run the corpus at `path` on `backend` in `jobs` processes; raises CorpusError."""
    entries, sha = read(path)
    started = time.perf_counter()
    outcomes = _run_all(entries, backend, jobs, timeout, on_program)
    different = [outcome for outcome in outcomes if outcome is not None and outcome.get("kind") == "value"]
    faults = [outcome for outcome in outcomes if outcome is not None and outcome.get("kind") == "fault"]
    unanswered = sum(outcome is None for outcome in outcomes)
    return Summary(
        backend=backend,
        corpus=path.name,
        corpus_sha256=sha,
        programs=len(entries),
        equal=len(entries) - len(different) - len(faults) - unanswered,
        different=tuple(different),
        faults=tuple(faults),
        unanswered=unanswered,
        jobs=jobs,
        seconds=round(time.perf_counter() - started, 1),
        environment=describe_environment(backend),
    )


def _run_all(
    entries: Sequence[Entry], backend: str, jobs: int, timeout: float, on_program: Callable[[], None]
) -> list[dict[str, Any] | None]:
    task = partial(examine, backend=backend)
    outcomes: list[dict[str, Any] | None] = [None] * len(entries)
    for position, outcome in workers.each(task, entries, jobs=jobs, timeout=timeout):
        outcomes[position] = outcome
        on_program()
    # A fault costs its process the CUDA context and all programs after it: each gets a process of its own.
    again = [position for position, outcome in enumerate(outcomes) if outcome and outcome.get("kind") == "fault"]
    retried = workers.each(task, [entries[position] for position in again], jobs=jobs, timeout=timeout, fresh=True)
    for index, outcome in retried if again else ():
        if outcome is not None:
            outcomes[again[index]] = outcome
    return [None if outcome is None else _numbered(position, outcome) for position, outcome in enumerate(outcomes)]


def _numbered(position: int, outcome: dict[str, Any]) -> dict[str, Any]:
    return {"program": position, **outcome} if outcome else outcome


def examine(entry: Entry, backend: str) -> dict[str, Any]:
    """Run one entry: an empty object where it agrees, else `kind`, `message` and `report` with the source."""
    try:
        got = run(entry.program, backend)
    except Exception as error:  # any failure to compile or launch is a finding about this one program
        return _outcome(Discrepancy("fault", entry.program, f"{backend}: {type(error).__name__}: {error}"))
    if entry.agrees(got):
        return {}
    return _outcome(Discrepancy("value", entry.program, _difference(entry, got, backend)))


def _difference(entry: Entry, got: np.ndarray, backend: str) -> str:
    """The first difference in words; the executor runs again to find it, since a corpus holds first values only."""
    try:
        expected = run(entry.program, "cpu")
    except Exception as error:  # the difference stands, only its place cannot be told
        return f"{backend} differs from the recorded result; the executor here raises {type(error).__name__}: {error}"
    if not entry.agrees(expected):
        return f"{backend} and the executor here both differ from the recorded result"
    return first_difference(entry.program, expected, got, ("executor", backend))


def _outcome(discrepancy: Discrepancy) -> dict[str, Any]:
    return {"kind": discrepancy.kind, "message": discrepancy.message, "report": str(discrepancy)}
