"""Matrices of `wgmma` in shared memory, drawn: which elements lie in each 16 bytes, bank row by bank row."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np

from refkit.reports.drawing import PALETTE, Drawing, Sheet
from refkit.reports.reading import ReportError

_ROW, _TOP, _INDEX = 21, 40, 44
_CELL_FONT = 8.5
_CHARACTER = 5.6
_ROW_BYTES, _UNIT_BYTES = 128, 16
MOST_ROWS = 16
"""Rows of banks that a picture shows: two atoms of the widest swizzle."""


def _span(numbers: Sequence[int]) -> str:
    """3, or 8-15, or what is not in a row as it is."""
    if len(set(numbers)) == 1:
        return str(numbers[0])
    if list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{numbers[0]}-{numbers[-1]}"
    return "mixed"


def unit_label(unit: str) -> str:
    """What a unit of a map holds, as "row, column": one of them is a range; "" for nothing, "?" for what is unclear."""
    parts = unit.split(";")
    if set(parts) == {"-"}:
        return ""
    if "?" in parts or "-" in parts:
        return "?"
    rows, columns = zip(*(map(int, part.split(",")) for part in parts))
    return f"{_span(rows)}, {_span(columns)}"


def unit_colour(label: str) -> tuple[float, float, float]:
    """A light colour: its hue by where the range begins, lighter and darker by the other number."""
    one, other = label.split(", ")
    span, single = (one, other) if "-" in one else (other, one)
    first, _, last = span.partition("-")
    length = int(last) - int(first) + 1 if last else 1
    number = int(single) if single.isdigit() else 0
    return colorsys.hls_to_rgb(int(first) // length % 8 / 8, 0.90 - 0.04 * (number // 2 % 4), 0.72)


def shared_figure(title: str, lines: Sequence[str], claimed: Sequence[str] = ()) -> Drawing:
    """The first rows of banks of a matrix: in each 16 bytes its elements; units that differ from `claimed` are red.

    lines, claimed: maps as `probe --json` writes them, a line for each 128 bytes.
    """
    found = [[unit_label(unit) for unit in line.split()] for line in lines]
    said = [[unit_label(unit) for unit in line.split()] for line in claimed]
    if not any(label for row in found + said for label in row):
        raise ReportError(f"{title}: the map has no element in it")
    units = _ROW_BYTES // _UNIT_BYTES
    empty = [""] * units
    total = max(len(found), len(said))
    found += [empty] * (total - len(found))
    said = [*said, *[empty] * (total - len(said))] if said else found
    wrong = sum(a != b for rows in zip(found, said) for a, b in zip(*rows))
    rows = min(total, MOST_ROWS)
    longest = max(len(label) for row in found[:rows] for label in row)
    width = max(44, int(longest * _CHARACTER) + 10)
    sheet = Sheet(_INDEX + units * width + 2, _TOP + rows * _ROW + 2)
    sheet.text(0, 9, title, bold=True)
    image = np.ones((rows, units, 4))
    for row in range(rows):
        for unit, label in enumerate(found[row]):
            if label not in ("", "?") and "mixed" not in label:
                image[row, unit, :3] = unit_colour(label)
    sheet.image(image, _INDEX, _TOP, units * width, rows * _ROW)
    edges = [(_INDEX + i * width, _TOP, _INDEX + i * width, _TOP + rows * _ROW) for i in range(units + 1)]
    edges += [(_INDEX, _TOP + i * _ROW, _INDEX + units * width, _TOP + i * _ROW) for i in range(rows + 1)]
    sheet.segments(edges, "line", width=0.5)
    for unit in range(units):
        _small(sheet, _INDEX + (unit + 0.5) * width, _TOP - 9, f"+{_UNIT_BYTES * unit}", "muted")
    for row in range(rows):
        y = _TOP + row * _ROW
        _small(sheet, _INDEX / 2, y + _ROW / 2, str(_ROW_BYTES * row), "muted")
        for unit in range(units):
            differs = found[row][unit] != said[row][unit]
            x = _INDEX + unit * width
            _small(sheet, x + width / 2, y + _ROW / 2, found[row][unit], "bad" if differs else "ink")
            if differs:
                sheet.box(x + 1, y + 1, width - 2, _ROW - 2, "bad", outline=True)
    alt = f"{title}: {rows} of {total} rows of 128 bytes of shared memory"
    alt += f"; {wrong} pieces of 16 bytes differ from the layout data" if wrong else ""
    caption = "Each cell is 16 bytes of shared memory, with the row and the column of the elements in it; a hue for "
    caption += "each place along the contiguous axis. Left, the byte at which a row of all banks begins."
    return Drawing(sheet.figure, alt + ".", caption, sheet.width)


def _small(sheet: Sheet, x: float, y: float, label: str, colour: str) -> None:
    sheet.axes.text(x, y, label, color=PALETTE[colour], ha="center", va="center", fontsize=_CELL_FONT, parse_math=False)
