"""The planner as an interactive page: the sheets of `refkit/planner` with sliders, in one HTML file without network.

The page computes with the planner's own formulas, written out as JavaScript from the same expressions that Python
evaluates; a test runs both over many inputs and compares them.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from refkit.planner.devices import DEFAULT_DEVICE, DEVICES, FORMATS, machine
from refkit.planner.expression import Parts
from refkit.planner.sheet import MACHINE, TABLES, Group, Parameter, Sheet
from refkit.planner.sheets import sheets
from refkit.planner.units import EARLY, SCALES, SUFFIXES


def planner_page() -> str:
    """The planner alone: a whole HTML document."""
    return _render("planner.html")


def planner_section() -> Markup:
    """The planner as a part of another page: a `<section>` with its own style and script.

    It uses the colours of `style.css`, sets no class or id that does not begin with `planner`, and leaves the address
    of the page alone.
    """
    return Markup(_render("planner_section.html", standalone=False))


def planner_script() -> str:
    """The arithmetic of the page without the page: `PLANNER` (data), `FORMULAS` (functions) and what evaluates them."""
    return _render("planner_arithmetic.js")


@cache
def _render(name: str, standalone: bool = True) -> str:
    environment = Environment(
        loader=PackageLoader("refkit.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    data = json.dumps(_data(), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    formulas = _formulas().replace("</", "<\\/")
    return environment.get_template(name).render(
        data=Markup(data), formulas=Markup(formulas), sheets=sheets().values(), standalone=standalone
    )


def _data() -> dict[str, Any]:
    """What the page knows beside the formulas, as JSON."""
    return {
        "defaultDevice": DEFAULT_DEVICE,
        "devices": {name: _device(name) for name in DEVICES},
        "formats": {each.name: {"about": each.about} for each in FORMATS.values()},
        "machine": {name: {"label": label, "unit": unit} for name, (label, unit) in MACHINE.items()},
        "scales": SCALES,
        "suffixes": SUFFIXES,
        "early": EARLY,
        "tables": TABLES,
        "sheets": {name: _sheet(sheet) for name, sheet in sheets().items()},
    }


def _device(name: str) -> dict[str, Any]:
    """A device with the inputs that it gives in each format that it has a rate for."""
    each = DEVICES[name]
    return {
        "title": each.title,
        "source": each.source,
        "measured": each.measured,
        "formats": {dtype: machine(each, dtype) for dtype in FORMATS if dtype in each.tflops},
    }


def _sheet(sheet: Sheet) -> dict[str, Any]:
    return {
        "title": sheet.title,
        "about": sheet.about,
        "parameters": [_parameter(each) for each in sheet.parameters],
        "units": sheet.units,
        "groups": [_group(sheet, group) for group in sheet.groups],
        "summary": [_parts(sheet, "", sheet.sentence(text)) for text in sheet.summary],
    }


def _parameter(each: Parameter) -> dict[str, Any]:
    return {
        "name": each.name,
        "label": each.label,
        "default": each.default,
        "low": each.low,
        "high": each.high,
        "lowest": each.lowest,
        "step": each.step,
        "unit": each.unit,
        "tuning": each.tuning,
        "optional": each.optional,
    }


def _group(sheet: Sheet, group: Group) -> dict[str, Any]:
    figures = [
        {
            "name": each.name,
            "label": each.label,
            "unit": each.unit,
            "text": each.formula.text,
            "parts": _parts(sheet, group.name, each.formula.parts),
            "note": each.note,
            "step": each.step,
        }
        for each in group.figures
    ]
    head = {"name": group.name, "title": group.title, "table": group.table, "about": group.about, "needs": group.needs}
    return {**head, "figures": figures}


def _parts(sheet: Sheet, group: str, parts: Parts) -> list[str | list[str]]:
    """Texts as they are, references as a list of one full name."""
    return [part if isinstance(part, str) else [sheet.full_name(group, part.name)] for part in parts]


def _formulas() -> str:
    """`{linear: {forward: {flops: (p, g, o) => ...}}}`: p the inputs, g all groups, o this group's figures."""
    return _object({name: _object(_functions(sheet)) for name, sheet in sheets().items()})


def _functions(sheet: Sheet) -> dict[str, str]:
    groups = {}
    for group in sheet.groups:

        def code(name: str, inside: str = group.name) -> str:
            if f"{inside}.{name}" in sheet.units:
                return f"o.{name}"
            return f"g.{name}" if "." in name else f"p.{name}"

        groups[group.name] = _object(
            {each.name: f"(p, g, o) => {each.formula.javascript(code)}" for each in group.figures}
        )
    return groups


def _object(members: dict[str, str]) -> str:
    """A JavaScript object of members that are code."""
    return "{\n" + ",\n".join(f"{name}: {value}" for name, value in members.items()) + "\n}"
