"""What a run of the suite adds up to: the share, the tests that count and disagree, and those that do not count."""

import dataclasses
import datetime
import json
import platform
import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from . import reasons, rules
from .results import Module, Test

_PACKAGES = ("numba-cuda", "numba", "llvmlite", "numpy", "nvidia-cuda-nvrtc", "nvidia-nvvm")


@dataclasses.dataclass(frozen=True)
class Suite:
    """All modules of a run, and where it ran."""

    modules: tuple[Module, ...]
    environment: dict[str, str]

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        return tuple(test for module in self.modules for test in module.tests)

    @cached_property
    def counted(self) -> tuple[Test, ...]:
        """The denominator."""
        return tuple(test for test in self.tests if rules.outside(test) is None)

    @cached_property
    def disagreeing(self) -> tuple[Test, ...]:
        return tuple(test for test in self.counted if not test.agrees)

    @cached_property
    def left_out(self) -> dict[str, list[Test]]:
        """The tests outside the denominator, by the name of the rule."""
        by_rule: dict[str, list[Test]] = {rule.name: [] for rule in rules.RULES}
        for test in self.tests:
            if rule := rules.outside(test):
                by_rule[rule.name].append(test)
        return by_rule

    @cached_property
    def refused(self) -> int:
        """How many tests agree though no launch completed: the kernel is to be refused, or to raise."""
        return sum(test.agrees and not test.completed for test in self.counted)

    @property
    def not_collected(self) -> tuple[Module, ...]:
        return tuple(module for module in self.modules if module.not_collected)

    @property
    def share(self) -> float:
        """The part of the tests that count which end as their authors expect; 0 where none counts."""
        return 1 - len(self.disagreeing) / len(self.counted) if self.counted else 0.0


def environment() -> dict[str, str]:
    """Date, Python and the versions that the result depends on."""
    found = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def line(module: Module) -> str:
    """One module in a line: `test_lang: 3 passed (2.1 s)`."""
    counts = Counter(test.outcome for test in module.tests)
    text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    text = text or "no test"
    note = f"; {module.not_collected}" if module.not_collected else ""
    return f"{module.name.removeprefix('numba.cuda.tests.')}: {text} ({module.seconds:.0f} s){note}"


def summary(suite: Suite) -> str:
    """The share, what stands outside the denominator and why, and each test that disagrees, as text."""
    agreeing = len(suite.counted) - len(suite.disagreeing)
    lines = [
        f"{len(suite.tests)} tests in {len(suite.modules)} modules; {len(suite.counted)} count",
        f"{agreeing} of {len(suite.counted)} agree: {suite.share:.1%} ({suite.refused} by a launch that is to fail)",
        "Outside the denominator:",
        *(f"  {len(tests):5d}  {name}" for name, tests in suite.left_out.items()),
        *(f"Not collected: {module.name}: {module.not_collected}" for module in suite.not_collected),
        "Disagreeing:",
    ]
    for test in suite.disagreeing:
        lines += [f"  {test.outcome}: {test.id}", f"      {test.message[:200]}", f"      {_reason(test)}"]
    return "\n".join(lines)


def _reason(test: Test) -> str:
    return reasons.reason_for(test.id) or "unexplained"


def dump(suite: Suite) -> str:
    """Everything recorded, as JSON; `load` reads it back."""
    modules = [
        {
            "name": module.name,
            "seconds": round(module.seconds, 1),
            "not_collected": module.not_collected,
            "tests": [_test_to_json(test) for test in module.tests],
        }
        for module in suite.modules
    ]
    total = {"tests": len(suite.tests), "counted": len(suite.counted), "share": suite.share}
    return json.dumps({"schema": 1, "environment": suite.environment, "summary": total, "modules": modules}, indent=1)


def _test_to_json(test: Test) -> dict[str, Any]:
    fields = dataclasses.asdict(test)
    rule = rules.outside(test)
    return {
        **fields,
        "names": sorted(test.names & (rules.INSPECTION | rules.FOREIGN | rules.HARDWARE)),
        "keywords": sorted(test.keywords),
        "outside": rule.name if rule else None,
    }


def load(path: Path) -> Suite:
    """The suite that `dump` wrote to a file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    modules = tuple(
        Module(
            module["name"],
            tuple(_test_from_json(test) for test in module["tests"]),
            module["not_collected"],
            module["seconds"],
        )
        for module in document["modules"]
    )
    return Suite(modules, document["environment"])


def _test_from_json(fields: dict[str, Any]) -> Test:
    known = {key: value for key, value in fields.items() if key != "outside"}
    return Test(**{**known, "names": frozenset(known["names"]), "keywords": frozenset(known["keywords"])})


def markdown(suite: Suite) -> str:
    """The report as a page."""
    agreeing = len(suite.counted) - len(suite.disagreeing)
    versions = ", ".join(f"{name} {value}" for name, value in suite.environment.items() if name != "date")
    parts = [
        "# numba-cuda's own test suite on the CPU executor",
        f"**{agreeing} of {len(suite.counted)} tests agree: {suite.share:.1%}** "
        f"({suite.environment['date']}; {versions}). {suite.refused} of them agree without a launch that completes: "
        "their kernels are to be refused, or to raise.",
        _METHOD,
        "## What is outside the denominator",
        _table(("tests", "rule", "meaning"), _left_out_rows(suite)),
        *_not_collected(suite),
        "## The tests that count and do not agree",
        _table(("test", "outcome", "last line of the error", "why"), _disagreeing_rows(suite)),
        "## The tests that launch nothing and fail",
        "Most expect an error as soon as a kernel with a declared signature is made; the executor compiles at launch.",
        _table(("test", "last line of the error"), _without_launch_rows(suite)),
        "## By module",
        _table(("module", "tests", "count", "agree"), _module_rows(suite)),
    ]
    return "\n\n".join(parts) + "\n"


_METHOD = """\
This page is written by `python -m tests.numba_suite -j 2 --markdown docs/numba_suite.md`. The tests are real kernels
with known results that nobody wrote for refkit: the packages `cudapy`, `core` and `doc_examples` of `numba.cuda.tests`,
as they are installed with numba-cuda (the last are the examples of its documentation). They need its test
dependencies: `pip install cffi filecheck psutil`.

Each module runs unchanged in a process of its own, inside one `refkit.cpu.emulate(always_raise=False)`, which reports
exceptions of kernels as a GPU does; so are the Python processes that its tests start. Every test is recorded: how it
ended, and how many launches it asked for. A test that ends its process, or hangs, is recorded as such, and the others
run in a new one. A test counts unless one of the
rules below applies. They stand in `tests/numba_suite/rules.py`, read the source of the test, and do not depend on what
the executor made of its kernels; a test that was skipped, and one that launched nothing, are told by the run itself. A
test agrees if it ends as its authors expect, which includes failing where the suite says that it must."""


def _left_out_rows(suite: Suite) -> Iterable[tuple[str, ...]]:
    meanings = {rule.name: rule.meaning for rule in rules.RULES}
    return [(str(len(tests)), name, meanings[name]) for name, tests in suite.left_out.items()]


def _not_collected(suite: Suite) -> list[str]:
    if not suite.not_collected:
        return []
    rows = [(module.name, module.not_collected) for module in suite.not_collected]
    return ["## Modules that could not be imported", _table(("module", "error"), rows)]


def _disagreeing_rows(suite: Suite) -> Iterable[tuple[str, ...]]:
    return [(f"`{test.id}`", test.outcome, _brief(test), _reason(test)) for test in suite.disagreeing]


def _brief(test: Test) -> str:
    """The error, without the folders in which packages are installed here."""
    return re.sub(r"/\S*/site-packages/", "", test.message)[:160]


def _without_launch_rows(suite: Suite) -> Iterable[tuple[str, ...]]:
    tests = suite.left_out[rules.LAUNCHES_NOTHING]
    return [(f"`{test.id}`", _brief(test)) for test in tests if not test.agrees]


def _module_rows(suite: Suite) -> Iterable[tuple[str, ...]]:
    for module in suite.modules:
        counted = [test for test in module.tests if rules.outside(test) is None]
        agree = sum(test.agrees for test in counted)
        name = module.name.removeprefix("numba.cuda.tests.")
        yield name, str(len(module.tests)), str(len(counted)), str(agree)


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)
