"""What was recorded of each test, read from the lines that a worker wrote."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AGREES = ("passed", "expected failure")


@dataclass(frozen=True)
class Test:
    """One test of numba-cuda's suite, run on the executor.

    outcome: passed, expected failure, failed, errored, skipped, crashed (it ended the process), timed out, not run.
    launches: how often the test asked for a kernel to be launched; completed: how many of these ended without an error.
    """

    __test__ = False  # not a test class of pytest's

    id: str
    outcome: str
    message: str
    launches: int
    completed: int
    seconds: float
    names: frozenset[str]
    keywords: frozenset[str]
    writes_a_launch: bool

    @property
    def agrees(self) -> bool:
        """Whether the test ended as its authors expect."""
        return self.outcome in AGREES


@dataclass(frozen=True)
class Module:
    """One test module: its tests, and why it could not be imported, if so."""

    name: str
    tests: tuple[Test, ...]
    not_collected: str = ""
    seconds: float = 0.0


def events(path: Path) -> list[dict[str, Any]]:
    """The events that a worker wrote so far; an unfinished last line is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def line(**event: Any) -> str:
    """An event as it stands in a report."""
    return json.dumps(event) + "\n"


def read(name: str, recorded: Iterable[dict[str, Any]], seconds: float) -> Module:
    """The module that these events describe."""
    facts: dict[str, dict[str, Any]] = {}
    ended: dict[str, dict[str, Any]] = {}
    problems = []
    for event in recorded:
        if event["event"] == "collected":
            facts.setdefault(event["id"], event["facts"])
        elif event["event"] == "finished":
            ended[event["id"]] = event
        elif event["event"] == "not collected":
            problems.append(event["message"])
    tests = tuple(_test(identity, facts[identity], ended.get(identity, {})) for identity in facts)
    return Module(name, tests, problems[0] if problems else "", seconds)


def _test(identity: str, facts: dict[str, Any], end: dict[str, Any]) -> Test:
    return Test(
        id=identity,
        outcome=end.get("outcome", "not run"),
        message=end.get("message", ""),
        launches=end.get("launches", 0),
        completed=end.get("completed", 0),
        seconds=end.get("seconds", 0.0),
        names=frozenset(facts["names"]),
        keywords=frozenset(facts["keywords"]),
        writes_a_launch=facts["launches"],
    )
