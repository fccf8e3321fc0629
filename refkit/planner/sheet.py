"""A sheet: the formulas of one layer as data, and what they give for given sizes on a given device.

Python, the terminal and the interactive page all read the same sheets, so a figure has one formula and one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from refkit.planner.expression import Expression, Reference
from refkit.planner.units import SCALES, SUFFIXES, show


@dataclass(frozen=True)
class Parameter:
    """An input of a sheet: T, the width of a tile, ... low and high are the ends of the page's slider, step its step or
    0 where it is logarithmic; above `high` any value is taken all the same. unit: as in `units.show`; a `flag` is 0
    or 1."""

    name: str
    label: str
    default: int
    low: int
    high: int
    unit: str = "count"
    step: int = 0
    tuning: bool = False
    """True for what describes the kernel and not the layer: tiles, blocks per SM."""
    optional: bool = False
    """True for what the command line may leave out: it is 0 then."""

    @property
    def lowest(self) -> int:
        """The least value that makes sense: 0 where nothing is a choice, else 1."""
        return 0 if self.optional or self.low == 0 else 1


MACHINE = {
    "rate": ("arithmetic rate in this format", "FLOP/s"),
    "vector_rate": ("rate of float32 outside the tensor cores", "FLOP/s"),
    "bandwidth": ("memory bandwidth", "B/s"),
    "SMs": ("multiprocessors", "count"),
    "memory": ("device memory", "B"),
    "element": ("bytes of a stored element", "bytes each"),
    "result": ("bytes of an element that a product writes", "bytes each"),
    "sm_warps": ("warps that an SM holds", "count"),
    "sm_blocks": ("blocks that an SM holds", "count"),
    "sm_shared": ("shared memory of an SM", "B"),
    "block_shared": ("shared memory that a block may have", "B"),
    "shared_unit": ("granularity of shared memory", "B"),
    "shared_reserved": ("shared memory of each block that the system keeps", "B"),
}
"""Inputs of every sheet that the device and the format give: name, (label, unit)."""


@dataclass(frozen=True)
class Figure:
    """A number and its formula. note: what the formula takes for granted, in a sentence. step: on the way to others,
    shown only to those who want to see the way."""

    name: str
    label: str
    unit: str
    formula: Expression
    note: str = ""
    step: bool = False

    def __post_init__(self) -> None:
        if self.unit not in SCALES and self.unit not in SUFFIXES and self.unit != "fraction":
            raise ValueError(f"figure {self.name}: {self.unit!r} is not a unit")


def figure(name: str, label: str, unit: str, formula: str, note: str = "", *, step: bool = False) -> Figure:
    """A `Figure` from the text of its formula."""
    return Figure(name, label, unit, Expression(formula), note, step)


@dataclass(frozen=True)
class Group:
    """Figures that belong together: a GEMM, a row of the ledger, one of several ways. A column of the table `table`.

    name: how formulas of other groups refer to it. about: what it is, in a line.
    """

    name: str
    title: str
    table: str
    figures: tuple[Figure, ...]
    about: str = ""
    needs: str = ""
    """A parameter without which the group is left out."""


TABLES = {
    "gemms": "Matrix products",
    "ways": "Ways to do it",
    "totals": "In all",
    "blocks": "One multiprocessor",
    "ledger": "Save or recompute",
}
"""The tables of a plan in the order in which they are shown."""


@dataclass(frozen=True)
class Sheet:
    """The formulas of one layer. Raises ValueError where a formula refers to something that does not stand before it.

    summary: sentences in which `{group.figure}` and `{T}` stand for values; one that needs what is left out is too.
    """

    operator: str
    title: str
    about: str
    parameters: tuple[Parameter, ...]
    groups: tuple[Group, ...]
    summary: tuple[str, ...]
    units: dict[str, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        units = {name: unit for name, (_, unit) in MACHINE.items()}
        units |= {parameter.name: parameter.unit for parameter in self.parameters}
        for group in self.groups:
            if group.table not in TABLES:
                raise ValueError(f"{self.operator}.{group.name}: {group.table!r} is not a table")
            for each in group.figures:
                for name in each.formula.names:
                    if f"{group.name}.{name}" not in units and name not in units:
                        where = f"{self.operator}.{group.name}.{each.name}"
                        raise ValueError(f"{where}: {name!r} in {each.formula.source!r} is not known there")
                units[f"{group.name}.{each.name}"] = each.unit
        for sentence in self.summary:
            for name in _PLACE.findall(sentence):
                if name not in units:
                    raise ValueError(f"{self.operator}: {name!r} in {sentence!r} is not known")
        object.__setattr__(self, "units", units)

    def uses(self, name: str) -> bool:
        """Whether any formula refers to that input."""
        return any(name in each.formula.names for group in self.groups for each in group.figures)

    def full_name(self, group: str, name: str) -> str:
        """The key of `units` that `name` means inside `group`."""
        inside = f"{group}.{name}"
        return inside if inside in self.units else name

    def sentence(self, text: str) -> tuple[str | Reference, ...]:
        """A sentence of the summary as texts and references."""
        pieces = _PLACE.split(text)
        return tuple(Reference(piece) if index % 2 else piece for index, piece in enumerate(pieces) if piece)


_PLACE = re.compile(r"\{([\w.]+)\}")


@dataclass(frozen=True)
class Values:
    """What a sheet gives: `inputs` by name and `figures` by group and name."""

    sheet: Sheet
    inputs: Mapping[str, Any]
    figures: Mapping[str, Mapping[str, Any]]

    def value(self, full_name: str) -> Any:
        """Of `group.figure` or of an input."""
        group, _, name = full_name.rpartition(".")
        return self.figures[group][name] if group else self.inputs[name]

    def shown(self, full_name: str) -> str:
        """The same as text."""
        return show(self.value(full_name), self.sheet.units[full_name])

    def with_numbers(self, group: str, each: Figure) -> str:
        """The formula of a figure with values in place of names."""
        return self._filled(each.formula.parts, group)

    def summary(self) -> tuple[str, ...]:
        """The sentences of the sheet that are about something."""
        sentences = map(self.sheet.sentence, self.sheet.summary)
        return tuple(self._filled(parts, "") for parts in sentences if all(map(self._stands, parts)))

    def _stands(self, part: str | Reference) -> bool:
        group = part.name.rpartition(".")[0] if isinstance(part, Reference) else ""
        return not group or group in self.figures

    def _filled(self, parts: Sequence[str | Reference], group: str) -> str:
        return "".join(
            part if isinstance(part, str) else self.shown(self.sheet.full_name(group, part.name)) for part in parts
        )


def evaluate(sheet: Sheet, inputs: Mapping[str, Any]) -> Values:
    """Every figure of a sheet. inputs: its parameters and the names of `MACHINE`."""
    groups: dict[str, SimpleNamespace] = {}
    for group in sheet.groups:
        if group.needs and not inputs[group.needs]:
            continue
        own: dict[str, Any] = {}
        for each in group.figures:
            own[each.name] = each.formula.evaluate({**inputs, **groups, **own})
        groups[group.name] = SimpleNamespace(**own)
    return Values(sheet, dict(inputs), {name: vars(group) for name, group in groups.items()})
