"""What a user sees of `plan`: the answer in sentences, then the figures in tables, then, on demand, every formula."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from refkit.planner.devices import DEVICES, FORMATS
from refkit.planner.plan import Plan
from refkit.planner.sheet import TABLES, Figure, Group
from refkit.planner.units import number
from refkit.verify.cli.render import console

_VERDICTS = {"recompute": "bold", "pays": "bold", "memory": "yellow"}


def print_plan(made: Plan, *, formulas: bool = False) -> None:
    """Everything about one plan; with `formulas`, intermediate steps and the formula of every number too."""
    out = console()
    out.print(Text.assemble((made.values.sheet.title, "bold"), f": {made.values.sheet.about}"), soft_wrap=True)
    out.print(Text(_machine(made), "dim"), soft_wrap=True)
    out.print()
    for sentence in made.values.summary():
        out.print(Text(sentence), soft_wrap=True)
    for table, heading in TABLES.items():
        groups = made.table(table)
        if not groups:
            continue
        out.print(Text(f"\n{heading}", "bold"))
        if table == "totals":
            _print_lists(out, made, groups)
        elif table == "ledger":
            _print_rows(out, made, groups)
        else:
            _print_columns(out, made, groups, steps=formulas)
    if formulas:
        _print_formulas(out, made)
    else:
        out.print(Text("\n--formulas shows where each number comes from", "dim"))


def _machine(made: Plan) -> str:
    inputs, shown = made.values.inputs, made.values.shown
    sizes = ", ".join(
        f"{each.name}={inputs[each.name]}"
        for each in made.values.sheet.parameters
        if inputs[each.name] or not each.optional
    )
    if not made.values.sheet.uses("rate"):
        return f"{sizes}\n{made.device.title}: compute capability {made.device.multiprocessor.name}"
    rates = f"{shown('rate')} in {made.dtype}, {shown('bandwidth')}, {inputs['SMs']} SMs"
    given = f"; given: {', '.join(made.given)}" if made.given else ""
    return f"{sizes}\n{made.device.title}: {rates}{given}"


def _print_columns(out: Console, made: Plan, groups: Sequence[Group], *, steps: bool) -> None:
    """A line per figure, a column per group."""
    table = _table()
    table.add_column("")
    for group in groups:
        table.add_column(group.title, justify="right")
    for label, figures in _by_label(groups):
        if steps or not all(each is None or each.step for each in figures):
            table.add_row(f"  {label}", *(_cell(made, group, each) for group, each in zip(groups, figures)))
    out.print(table)
    for group in groups:
        out.print(Text(f"  {group.title}: {group.about}", "dim"), soft_wrap=True)


def _print_rows(out: Console, made: Plan, groups: Sequence[Group]) -> None:
    """A line per group, a column per figure."""
    table = _table()
    table.add_column("")
    rows = _by_label(groups)
    for label, figures in rows:
        is_text = any(each is not None and each.unit == "text" for each in figures)
        table.add_column(label, justify="left" if is_text else "right")
    for index, group in enumerate(groups):
        table.add_row(f"  {group.title}", *(_cell(made, group, figures[index]) for _, figures in rows))
    out.print(table)
    for group in groups:
        out.print(Text(f"  {group.title}: {group.about}", "dim"), soft_wrap=True)


def _print_lists(out: Console, made: Plan, groups: Sequence[Group]) -> None:
    """Groups that share no figures: a line each."""
    for group in groups:
        figures = ", ".join(f"{each.label} {made.shown(group, each)}" for each in group.figures)
        out.print(Text(f"  {group.title}: {figures}"), soft_wrap=True)


def _print_formulas(out: Console, made: Plan) -> None:
    out.print(Text("\nFormulas", "bold"))
    for group in made.groups:
        out.print(Text(f"  {group.title}", "bold"), soft_wrap=True)
        for each in group.figures:
            note = f"  ({each.note})" if each.note else ""
            line = Text.assemble((f"    {each.label}: ", "dim"), made.explained(group, each), (note, "dim"))
            out.print(line, soft_wrap=True)


def _by_label(groups: Sequence[Group]) -> list[tuple[str, list[Figure | None]]]:
    """Each label of the groups' figures once, with the figure that each group has under it."""
    by_name = [{each.name: each for each in group.figures} for group in groups]
    order = max(groups, key=lambda group: len(group.figures)).figures
    return [(each.label, [figures.get(each.name) for figures in by_name]) for each in order]


def _cell(made: Plan, group: Group, each: Figure | None) -> Text:
    if each is None:
        return Text("–", "dim")
    text = made.shown(group, each)
    return Text(text, _VERDICTS.get(text, ""))


def print_devices() -> None:
    """Every device with its figures, and under the table where they come from."""
    out = console()
    table = _table()
    for heading in ("name", "device"):
        table.add_column(heading)
    for heading in ("cc", "SMs", "GB/s", "GiB", *FORMATS):
        table.add_column(heading, justify="right")
    for each in DEVICES.values():
        rates = [number(each.tflops[name]) if name in each.tflops else "–" for name in FORMATS]
        capability = "{}.{}".format(*each.compute_capability)
        facts = (str(each.multiprocessors), number(each.bandwidth), str(each.memory_gb))
        table.add_row(each.name, each.title, capability, *facts, *rates)
    out.print(table)
    out.print("\nRates in TFLOP/s, dense, with float32 accumulation.")
    for each in DEVICES.values():
        out.print(Text.assemble((f"{each.name}: ", "bold"), each.source), soft_wrap=True)


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="dim")
