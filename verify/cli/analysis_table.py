"""What a user sees of `analyze`: per kernel its flagged lines, all lines in a table worst first, and what it needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from refkit.verify.cli.render import console, counted

if TYPE_CHECKING:
    from refkit.cpu import LineTraffic
    from refkit.verify.analysis.resources import Bounded, Resources
    from refkit.verify.analysis.subject import KernelAnalysis

POOR = "bold red"


def print_analysis(analysis: KernelAnalysis) -> None:
    """Everything about one spec."""
    out = console()
    settings = {**analysis.case.dims, **analysis.case.config}
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    out.print(Text.assemble((analysis.spec.name, "bold"), f"  ({shown})"), soft_wrap=True)
    if analysis.problem:
        out.print(Text(f"  did not run: {analysis.problem}", POOR), soft_wrap=True)
        return
    _print_lines(out, analysis.report.lines)
    _print_resources(out, analysis.resources)
    out.print()


def _print_lines(out: Console, lines: Sequence[LineTraffic]) -> None:
    table = _table()
    for heading in ("  line", "access", "bytes", "lanes"):
        table.add_column(heading, justify="left" if heading in ("  line", "access") else "right")
    for heading in ("sectors", "ideal", "passes", "worst", "ideal"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for line in lines:
        style = POOR if line.problem else ""
        table.add_row(
            Text(f"  {os.path.basename(line.file)}:{line.line}", style),
            Text(f"{line.space} {line.access}"),
            str(line.bytes_per_lane),
            f"{line.lanes:.1f}",
            _figure(line.sectors),
            _figure(line.ideal_sectors),
            _figure(line.passes),
            "" if line.worst_passes is None else str(line.worst_passes),
            _figure(line.ideal_passes),
            Text(line.problem, style),
        )
    out.print(table)


def _print_resources(out: Console, found: Sequence[Resources]) -> None:
    if not found:
        return
    table = _table()
    table.add_column("  kernel")
    for heading in ("cc", "registers", "spills B", "stack B", "shared B", "blocks/SM", "occupancy"):
        table.add_column(heading, justify="right")
    table.add_column("limited by")
    table.add_column("")
    for each in _without_repetition(found):
        name = Text(f"  {each.kernel}")
        version = "{}.{}".format(*each.compute_capability)
        if each.occupancy is None:
            table.add_row(name, version, "", "", "", "", "", "", Text(each.problem))
            continue
        table.add_row(
            name,
            version,
            str(each.registers),
            Text(str(each.spill_bytes), POOR if each.spill_bytes else ""),
            str(each.stack_bytes),
            str(each.shared_bytes),
            str(each.occupancy.blocks),
            f"{each.occupancy.fraction:.0%}",
            ", ".join(each.occupancy.limits),
            Text(_advice(each)),
        )
    out.print(table)


def _without_repetition(found: Sequence[Resources]) -> list[Resources]:
    """The records; of several architectures that a kernel fails on for the same reason, the first."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for each in found:
        if not each.problem or (each.kernel, each.problem) not in seen:
            kept.append(each)
        seen.add((each.kernel, each.problem))
    return kept


def _advice(each: Resources) -> str:
    """The nearest cliff, and what the compiler makes of being told to stay below it."""
    parts = []
    if each.cliff is not None:
        parts.append(f"{each.cliff.registers} registers would give {each.cliff.blocks}")
    tried = {found.launch_bounds: found for found in (each.bounded_256, each.bounded) if found is not None}
    parts += [_bounded(found) for found in tried.values() if _tells(found, each)]
    return "; ".join(parts)


def _tells(found: Bounded, each: Resources) -> bool:
    """Whether launch bounds change anything, or were tried because one more block was wanted."""
    return found is each.bounded or (found.registers, found.spill_bytes) != (each.registers, each.spill_bytes)


def _bounded(found: Bounded) -> str:
    spills = f", {found.spill_bytes} B of spills" if found.spill_bytes else ""
    return f"launch_bounds={found.launch_bounds}: {found.registers} registers{spills}, {found.blocks_per_sm} blocks"


def print_totals(analyses: Sequence[KernelAnalysis], missing: str) -> None:
    """How many lines are poor, and the tools that are not installed."""
    out = console()
    flagged = [(each.spec.name, line) for each in analyses for line in each.report.flagged]
    uncoalesced = sum(line.problem == "uncoalesced" for _, line in flagged)
    conflicts = len(flagged) - uncoalesced
    spilling = len({(each.spec.name, found.kernel) for each in analyses for found in each.spills})
    failed = sum(bool(each.problem) for each in analyses)
    counts = [counted(len(analyses), "kernel"), f"{uncoalesced} lines uncoalesced", f"{conflicts} with bank conflicts"]
    counts += [f"{spilling} kernels spill registers"] if spilling else []
    counts += [f"{failed} did not run"] if failed else []
    out.print("; ".join(counts), soft_wrap=True)
    if missing:
        out.print(Text(missing), soft_wrap=True)


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="dim")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
