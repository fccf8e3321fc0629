"""What a user sees: progress while kernels are verified, then one table, failures first. NO_COLOR and narrow
terminals are respected.

On a terminal the progress is bars that vanish when done; elsewhere it is one plain line per kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from refkit.records import SEVERITY, CheckRecord, KernelRecord, RunRecord, Verdict
from refkit.verify.cli import replay_command
from refkit.verify.events import CaseStarted, Event, KernelDone, KernelStarted

STYLES = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "bold red",
    Verdict.MISTRUSTED: "bold magenta",
    Verdict.SKIPPED: "yellow",
    Verdict.ERROR: "bold red",
}
CHECK_WIDTH = 20  # the longest name of a check, so that bars keep their place
PLAIN_WIDTH = 160
"""Columns of a table that does not go to a terminal."""


def console() -> Console:
    """The console on stdout; away from a terminal wide enough that no line is folded, and without colour."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, soft_wrap=False)


@contextmanager
def progress(kernels: int, *, enabled: bool) -> Iterator[Callable[[Event], None]]:
    """A listener that shows events as they come: bars on a terminal, lines elsewhere, nothing with `enabled=False`."""
    out = console()
    if not enabled:
        yield lambda event: None
    elif out.is_terminal:
        with _Bars(kernels, out) as bars:
            yield bars.take
    else:
        yield _Lines(kernels).take


class _Lines:
    """One plain line per finished kernel."""

    def __init__(self, kernels: int) -> None:
        self.kernels = kernels
        self.done = 0

    def take(self, event: Event) -> None:
        if isinstance(event, KernelDone):
            self.done += 1
            record = event.record
            what = f"{counted(record.cases, 'case')}, {record.seconds:.1f} s"
            print(f"[{self.done}/{self.kernels}] {record.name}: {record.status.value} ({what})", flush=True)


class _Bars:
    """One bar over all kernels, and one for each kernel in progress."""

    def __init__(self, kernels: int, out: Console) -> None:
        columns = [TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn()]
        if out.width >= 60:
            columns.append(TimeElapsedColumn())
        self.bars = Progress(*columns, console=out, transient=True)
        self.overall = self.bars.add_task("kernels", total=kernels)
        self.kernels: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self.bars.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.bars.stop()

    def take(self, event: Event) -> None:
        if isinstance(event, KernelStarted):
            self.kernels[event.kernel] = self.bars.add_task(event.kernel, total=max(event.cases, 1))
        elif isinstance(event, CaseStarted) and event.kernel in self.kernels:
            text = Text.assemble(event.kernel, " ", (event.check.ljust(CHECK_WIDTH), "dim")).markup
            self.bars.update(self.kernels[event.kernel], completed=event.done, description=text)
        elif isinstance(event, KernelDone):
            self._finish(event.record)

    def _finish(self, record: KernelRecord) -> None:
        task = self.kernels.pop(record.name, None)
        if task is not None:
            self.bars.remove_task(task)
        self.bars.advance(self.overall)
        if not record.status.holds:
            self.bars.console.print(Text.assemble((record.status.value, STYLES[record.status]), " ", record.name))


def print_summary(run: RunRecord) -> None:
    """The table of kernels, what did not hold with the command that replays it, and the totals."""
    out = console()
    worst_first = sorted(run.kernels, key=lambda kernel: -SEVERITY.index(kernel.status))
    out.print(_table(worst_first, out.width))
    for kernel in worst_first:
        for check in kernel.checks:
            # A wrong spec is told on stderr, once.
            if not check.status.holds and not kernel.wrong_call:
                _print_failure(out, kernel, check)
        if kernel.message and kernel.status.holds:
            out.print(Text(f"{kernel.name}: {kernel.message}"), soft_wrap=True)
    totals = run.summary
    counts = ", ".join(
        f"{totals[verdict.value]} {verdict.value}" for verdict in reversed(SEVERITY) if totals[verdict.value]
    )
    tail = " (interrupted)" if run.interrupted else ""
    out.print(
        f"{counted(totals['kernels'], 'kernel')} on {run.backend}: {counts or 'none'}; "
        f"{counted(totals['cases'], 'case')} in {run.seconds:.1f} s{tail}",
        soft_wrap=True,
    )


def _table(kernels: Sequence[KernelRecord], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kernel", overflow="fold")
    table.add_column("verdict")
    # A narrow terminal shows the verdict rather than half of every figure.
    roomy = width >= 72
    for heading in ("cases", "worst ratio", "sensitivity", "s") if roomy else ("cases",):
        table.add_column(heading, justify="right")
    for kernel in kernels:
        row: list[RenderableType] = [
            Text(kernel.name),
            Text(kernel.status.value, STYLES[kernel.status]),
            str(kernel.cases),
        ]
        if roomy:
            row += [_ratio(_worst_ratio(kernel)), _figure(_sensitivity(kernel)), f"{kernel.seconds:.1f}"]
        table.add_row(*row)
    return table


def _worst_ratio(kernel: KernelRecord) -> float | None:
    return max((check.worst_ratio for check in kernel.checks if check.worst_ratio is not None), default=None)


def _sensitivity(kernel: KernelRecord) -> float | None:
    return next((check.sensitivity for check in kernel.checks if check.name == "accuracy"), None)


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _ratio(value: float | None) -> str:
    # What holds is below 1 and must not be shown as 1.
    return ">0.99" if value is not None and 0.995 <= value < 1 else _figure(value)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _print_failure(out: Console, kernel: KernelRecord, check: CheckRecord) -> None:
    head = Text.assemble((check.status.value, STYLES[check.status]), f" {kernel.name}: {check.name}: {check.message}")
    out.print(head, soft_wrap=True)
    if check.diagnosis:
        out.print(Text(f"  looks like: {check.diagnosis}"), soft_wrap=True)
    if check.case_file:
        out.print(Text(f"  again: {replay_command(check.case_file)}"), soft_wrap=True)


def print_listing(kernels: Sequence[Mapping[str, Any]], checks: Sequence[Mapping[str, str]]) -> None:
    """The tables of `list`."""
    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    # A narrow terminal shows whole names rather than every column.
    headings = ["kernel", "direction", "precision"]
    if out.width >= 100:
        headings += ["operator", "deterministic", "checks"]
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in kernels:
        cells = {
            **row,
            "kernel": row["name"],
            "deterministic": "yes" if row["deterministic"] else "no",
            "checks": str(len(row["checks"])),
        }
        table.add_row(*(Text(cells[heading]) for heading in headings))
    out.print(table)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("check")
    table.add_column("what it does", overflow="fold")
    for check in checks:
        table.add_row(Text(check["name"]), Text(check["summary"]))
    out.print()
    out.print(table)
