"""What a user sees of `probe`: a line for each layout as it is found, then what was measured, then what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from refkit.verify.cli.render import console, counted

if TYPE_CHECKING:
    from refkit.verify.probes import ProbeResult
    from refkit.verify.probes.session import ProbeRun
    from refkit.verify.probes.values import ValueFacts

_STYLES = {"passed": "green", "failed": "bold red", "error": "bold red", "skipped": "yellow"}
_NAME_WIDTH = 32


def print_result(result: ProbeResult) -> None:
    """One line: backend, name, verdict, operands; and under it why, unless it passed."""
    out = console()
    operands = " ".join(each.operand for each in result.operands)
    line = Text.assemble(
        f"{result.backend:5}{result.name:{_NAME_WIDTH - 1}} ", (f"{result.status:8}", _STYLES[result.status]), operands
    )
    out.print(line, soft_wrap=True)
    if result.message:
        for each in result.operands:
            if each.status == "failed":
                out.print(Text(f"       {each.operand}: {each.message}"), soft_wrap=True)
        if not result.operands:
            out.print(Text(f"       {result.message}"), soft_wrap=True)


def print_summary(run: ProbeRun) -> None:
    """What was measured on each backend, where they differ, and the count of verdicts."""
    out = console()
    backends = list(dict.fromkeys(each.backend for each in run.results))
    for backend in backends:
        _, values = run.on(backend)
        if values:
            out.print(Text(f"\narithmetic on {backend}", "bold"))
            for names, facts in grouped(values):
                out.print(Text(f"  {names}"), soft_wrap=True)
                for name, fact in facts.items():
                    out.print(Text.assemble((f"    {name + ':':20}", "dim"), fact), soft_wrap=True)
        for each in values:
            if each.status != "measured":
                out.print(Text(f"  {each.name}: {each.status}: {each.message}"), soft_wrap=True)
    if len(backends) == 2:
        print_differences(backends[0], backends[1], run.differences)
    counts = Counter(each.status for each in run.results)
    words = ", ".join(f"{count} {status}" for status, count in counts.items()) or "none ran"
    out.print(f"\n{counted(len(run.results), 'probe')}: {words}; {run.seconds:.0f} s")


def print_differences(mine: str, other: str, lines: Sequence[str]) -> None:
    """Where two devices differ, or that they do not."""
    out = console()
    out.print(Text(f"\n{mine} and {other}", "bold"))
    for line in lines or ("agree in everything that both showed",):
        out.print(Text(f"  {line}"), soft_wrap=True)


def grouped(values: Sequence[ValueFacts]) -> list[tuple[str, dict[str, str]]]:
    """The facts, with the names of all that share them."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for each in values:
        if each.status == "measured":
            groups.setdefault(tuple(each.facts.items()), []).append(each.name)
    return [(", ".join(names), dict(facts)) for facts, names in groups.items()]
