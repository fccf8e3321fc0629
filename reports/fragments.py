"""The report of `probe`: each layout drawn as a matrix whose cells name lane and register, and the arithmetic found."""

from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from refkit.reports.drawing import PALETTE, Drawing, Sheet, to_png
from refkit.reports.reading import ReportError, slug
from refkit.reports.shared_memory import shared_figure

_ROW, _HEADER, _INDEX = 21, 22, 30
_CELL_FONT = 8.5
_CHARACTER = 5.6  # pixels that one takes in that size
LANES = 32
MOST_COLUMNS = 32
"""Columns that a picture shows: a wide accumulator goes on in the same way."""


@dataclass(frozen=True)
class Cell:
    """Who holds one element."""

    lane: int
    register: int
    part: int


def lane_colour(lane: int, lanes: int = LANES) -> tuple[float, float, float]:
    """A light colour for each lane: a hue for each group of four, its members lighter and darker.

    Of a warpgroup's 128 threads, each warp has a quarter of the hues.
    """
    hue = (lane // 4) / (lanes // 4)
    return colorsys.hls_to_rgb(hue, 0.90 - 0.055 * (lane % 4), 0.72)


def read_map(lines: Sequence[str]) -> dict[tuple[int, int], Cell]:
    """Who holds each element, by row and column, of a map as `probe --json` writes it; unclear places are left out."""
    held = {}
    for lane, line in enumerate(lines):
        for register, parts in enumerate(line.split()):
            for part, element in enumerate(parts.split(";")):
                if element != "?":
                    row, column = element.split(",")
                    held[int(row), int(column)] = Cell(lane, register, part)
    return held


def fragment_figure(title: str, letter: str, lines: Sequence[str], claimed: Sequence[str] = ()) -> Drawing:
    """The matrix of an operand: lane and register in each cell, coloured by lane; cells that differ from `claimed` red.

    title: what is drawn. letter: what registers are called. lines, claimed: maps as `probe --json` writes them.
    """
    held = read_map(lines)
    said = read_map(claimed)
    if not held and not said:
        raise ReportError(f"{title}: the map has no element in it")
    rows, all_columns = (1 + max(element[axis] for element in (*held, *said)) for axis in (0, 1))
    columns = min(all_columns, MOST_COLUMNS)
    lanes = len(lines)
    parts = max(cell.part for cell in (*held.values(), *said.values()))
    registers = max(cell.register for cell in (*held.values(), *said.values()))

    def label(cell: Cell) -> str:
        return f"{cell.lane} {letter}{cell.register}" + (f".{cell.part}" if parts else "")

    longest = max(len(label(cell)) for cell in (held or said).values())
    width = max(34, int(longest * _CHARACTER) + 8)
    sheet = Sheet(_INDEX + columns * width + 2, _HEADER + 18 + rows * _ROW + 2)
    sheet.text(0, 9, title, bold=True)
    top = _HEADER + 18
    image = np.ones((rows, columns, 4))
    for (row, column), cell in held.items():
        if column < columns:
            image[row, column, :3] = lane_colour(cell.lane, lanes)
    sheet.image(image, _INDEX, top, columns * width, rows * _ROW)
    for column in range(columns):
        _small(sheet, _INDEX + (column + 0.5) * width, top - 9, str(column), "muted")
    for row in range(rows):
        _small(sheet, _INDEX - 12, top + (row + 0.5) * _ROW, str(row), "muted")
    edges = [(_INDEX + c * width, top, _INDEX + c * width, top + rows * _ROW) for c in range(columns + 1)]
    edges += [(_INDEX, top + r * _ROW, _INDEX + columns * width, top + r * _ROW) for r in range(rows + 1)]
    sheet.segments(edges, "line", width=0.5)
    wrong = sum(held.get(element) != cell for element, cell in said.items())
    for row in range(rows):
        for column in range(columns):
            found = held.get((row, column))
            x, y = _INDEX + column * width, top + row * _ROW
            differs = bool(said) and said.get((row, column)) != found
            _small(sheet, x + width / 2, y + _ROW / 2, label(found) if found else "?", "bad" if differs else "ink")
            if differs:
                sheet.box(x + 1, y + 1, width - 2, _ROW - 2, "bad", outline=True)
    holders = "lanes" if lanes == LANES else "threads"
    alt = (
        f"{title}: {rows} x {all_columns} elements, {registers + 1} registers of {parts + 1} parts in {lanes} {holders}"
    )
    alt += f"; the first {columns} columns are drawn" if columns < all_columns else ""
    alt += f"; {wrong} differ from the layout data" if wrong else ""
    part = " and the part of it" if parts else ""
    caption = f"In each cell the {holders[:-1]} and the register{part} that hold the element; a colour for each."
    caption += " A warp has 16 rows, and a quarter of the hues." if lanes != LANES else ""
    return Drawing(sheet.figure, alt + ".", caption, sheet.width)


def _small(sheet: Sheet, x: float, y: float, label: str, colour: str) -> None:
    sheet.axes.text(x, y, label, color=PALETTE[colour], ha="center", va="center", fontsize=_CELL_FONT, parse_math=False)


@dataclass(frozen=True)
class FigureView:
    """A drawn layout as the template shows it: all forms and operands that were found to have it."""

    file: str
    alt: str
    caption: str
    width: int
    names: tuple[str, ...]
    failed: bool


def write_probes(record: dict[str, Any], directory: str | os.PathLike[str]) -> Path:
    """Writes the page of a `probe --json` object and a PNG of each layout; returns the path of its `index.html`.

    Layouts that several forms share are drawn once. Raises ReportError where `record` is not such an object.
    """
    if not isinstance(record.get("probes"), list):
        raise ReportError("this is not a result of `probe --json`: it has no list of probes")
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    environment = Environment(
        loader=PackageLoader("refkit.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("probes.html").render(
        record=record,
        probes=_by_probe(record["probes"]),
        figures=_draw_all(record["probes"], record["backend"], folder),
        values=_shared_facts(record.get("values", [])),
        backends=list(dict.fromkeys(entry["backend"] for entry in record["probes"])),
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page


def _by_probe(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each probe on each backend: the worst status, its operands, and what is wrong."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        row = rows.setdefault(
            (entry["backend"], entry["name"]),
            {"name": entry["name"], "backend": entry["backend"], "status": "passed", "operands": [], "messages": []},
        )
        row["operands"].append(entry["operand"])
        if entry["status"] != "passed":
            row["status"] = entry["status"]
            row["messages"].append(f"{entry['operand']}: {entry['message']}" if entry["operand"] else entry["message"])
    return list(rows.values())


def _draw_all(entries: Sequence[dict[str, Any]], backend: str, folder: Path) -> list[FigureView]:
    shared: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for entry in entries:
        if entry["map"] and entry["backend"] == backend:
            key = (
                entry["operand"] == "registers",
                entry.get("space", ""),
                tuple(entry["map"]),
                tuple(entry.get("claimed", ())),
            )
            shared.setdefault(key, []).append(entry)
    views = []
    for (_, space, lines, claimed), users in shared.items():
        first = users[0]
        letter = "r" if first["operand"] == "registers" else first["operand"].lower()
        title = f"{first['name']} {first['operand']}"
        if space == "shared":
            drawing = shared_figure(title, lines, claimed)
        else:
            drawing = fragment_figure(title, letter, lines, claimed)
        file = f"{slug(title)}.png"
        to_png(drawing, folder / file)
        names = tuple(f"{each['name']} {each['operand']}" for each in users)
        views.append(FigureView(file, drawing.alt, drawing.caption, drawing.width, names, bool(claimed)))
    return sorted(views, key=lambda view: not view.failed)


def _shared_facts(values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The facts of each backend, once for all forms that share them."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in values:
        if each["status"] == "measured":
            key = (each["backend"], tuple(each["facts"].items()))
            group = groups.setdefault(key, {"backend": each["backend"], "names": [], "facts": each["facts"]})
            group["names"].append(each["name"])
    return list(groups.values())
