"""`plan(operator, sizes, ...)`: the figures of one layer on one device, as the command line and the JSON give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refkit.planner.devices import DEFAULT_DEVICE, Device, device, machine
from refkit.planner.ledger import PREFIX
from refkit.planner.sheet import MACHINE, Figure, Group, Values, evaluate
from refkit.planner.sheets import sheets
from refkit.planner.units import show


@dataclass(frozen=True)
class Plan:
    """A sheet evaluated. given: machine figures that were given by hand in place of the device's."""

    values: Values
    device: Device
    dtype: str
    given: Mapping[str, float]

    @property
    def operator(self) -> str:
        """Name of the sheet."""
        return self.values.sheet.operator

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups that stand: all but those of a parameter that was left out."""
        return tuple(group for group in self.values.sheet.groups if group.name in self.values.figures)

    def table(self, name: str) -> tuple[Group, ...]:
        """The groups of one table of `sheet.TABLES`."""
        return tuple(group for group in self.groups if group.table == name)

    def shown(self, group: Group, each: Figure) -> str:
        """A figure as text."""
        return show(self.values.figures[group.name][each.name], each.unit)

    def explained(self, group: Group, each: Figure) -> str:
        """A figure with its formula, by name and with numbers: `2 · m · n · k = 2 · 8,192 · ... = 0.962 TFLOP`."""
        numbers = self.values.with_numbers(group.name, each)
        steps = [each.formula.text, numbers, self.shown(group, each)]
        return " = ".join(dict.fromkeys(steps))

    def to_json(self) -> dict[str, Any]:
        """Every figure, its unit and its formula: `gemms`, `ledger`, `ways`, `totals`, `blocks` (contract 1)."""
        inputs = self.values.inputs
        return {
            "operator": self.operator,
            "inputs": {each.name: inputs[each.name] for each in self.values.sheet.parameters},
            "dtype": self.dtype,
            "device": {
                "name": self.device.name,
                "title": self.device.title,
                "source": self.device.source,
                "measured": self.device.measured,
                "given": dict(self.given),
                **{name: inputs[name] for name in MACHINE},
            },
            "summary": list(self.values.summary()),
            **{name: [self._group(group) for group in self.table(name)] for name in _JSON_TABLES},
        }

    def _group(self, group: Group) -> dict[str, Any]:
        values = self.values.figures[group.name]
        return {
            "name": group.name.removeprefix(PREFIX),
            "title": group.title,
            "about": group.about,
            **values,
            "shown": {each.name: self.shown(group, each) for each in group.figures},
            "units": {each.name: each.unit for each in group.figures},
            "formulas": {each.name: each.formula.text for each in group.figures},
            "with_numbers": {each.name: self.values.with_numbers(group.name, each) for each in group.figures},
            "notes": {each.name: each.note for each in group.figures if each.note},
        }


_JSON_TABLES = ("gemms", "ledger", "ways", "totals", "blocks")


def plan(
    operator: str,
    sizes: Mapping[str, int],
    *,
    dtype: str = "bfloat16",
    on: str = DEFAULT_DEVICE,
    tflops: float | None = None,
    bandwidth: float | None = None,
    multiprocessors: int | None = None,
) -> Plan:
    """The plan of a layer.

    operator: a sheet's name. sizes: its parameters by name; those of the kernel (tiles) have defaults, the others are
    required unless optional. on: a device of `devices.DEVICES`. tflops (10^12 operations per second), bandwidth (10^9
    bytes per second) and multiprocessors take the place of the device's figures. Raises ValueError that names what is
    missing, unknown or not positive.
    """
    if operator not in sheets():
        raise ValueError(f"operator {operator!r} is not known; known are {', '.join(sheets())}")
    sheet = sheets()[operator]
    inputs: dict[str, Any] = {}
    for each in sheet.parameters:
        default = each.default if each.tuning else 0 if each.lowest == 0 else None
        value = sizes.get(each.name, default)
        if value is None:
            raise ValueError(f"{operator}: {each.name} ({each.label}) is missing")
        if value < each.lowest or (each.unit == "flag" and value > 1):
            expected = "0 or 1" if each.unit == "flag" else f"at least {each.lowest}"
            raise ValueError(f"{operator}: {each.name}={value}; expected {expected}")
        inputs[each.name] = value
    unknown = sorted(set(sizes) - set(inputs))
    if unknown:
        raise ValueError(f"{operator}: {unknown[0]!r} is not one of its parameters, which are {', '.join(inputs)}")
    given = {"tflops": tflops, "bandwidth": bandwidth, "multiprocessors": multiprocessors}
    for name, number in given.items():
        if number is not None and not 0 < number < float("inf"):
            raise ValueError(f"{name}={number}; expected a positive number")
    chosen = device(on)
    if not sheet.uses("rate"):
        dtype = "float32"  # every device has a rate for it, and no figure depends on it
    inputs |= machine(chosen, dtype, tflops=tflops, bandwidth=bandwidth)
    if multiprocessors is not None:
        inputs["SMs"] = multiprocessors
    values = evaluate(sheet, inputs)
    return Plan(values, chosen, dtype, {name: number for name, number in given.items() if number is not None})
