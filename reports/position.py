"""Where on the output the error sits: the output as a matrix, with the edges of the tiles that computed it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from refkit.reports.drawing import Drawing, Sheet
from refkit.reports.model import WorstView
from refkit.reports.values import counted

MOST_EDGES = 40
"""Tile edges along one axis above which none are drawn: they would cover the picture."""
_ROWS = re.compile(r"(?:block|tile)_(?:m|q|rows?)|rows_per_block|block_rows|tile")
_COLUMNS = re.compile(r"(?:block|tile)_(?:n|columns?|cols?)|columns_per_block|block_columns|tile")


def position_figure(check: str, worst: WorstView, width: int = 360, highest: int = 240) -> Drawing | None:
    """The output as a matrix, cells coloured by their largest ratio, ticks at the worst; None without a map."""
    grid = worst.map
    if grid is None or not grid.count():
        return None
    m, n = grid.shape
    rows, columns = worst.matrix_shape if all(worst.matrix_shape) else (m, n)
    left, top, right = 48, 22, width - 12
    height = int(min(highest, max(28, (right - left) * rows / max(columns, 1))))
    sheet = Sheet(width, top + height + 34)
    sheet.image(_colours(grid), left, top, right - left, height)
    edges, tiles = _tile_edges(worst)
    down = [top + height * at / rows for at in edges[0]]
    across = [left + (right - left) * at / columns for at in edges[1]]
    lines: list[tuple[float, float, float, float]] = [(left, y, right, y) for y in down]
    lines += [(x, top, x, top + height) for x in across]
    sheet.segments(lines, "ink", width=0.5)
    sheet.box(left, top, right - left, height, "muted", outline=True)
    cell = _worst_cell(worst, (m, n))
    x, y = left + (cell[1] + 0.5) * (right - left) / n, top + (cell[0] + 0.5) * height / m
    sheet.segments([(x, top - 5, x, top), (left - 5, y, left, y)], "ink", width=2)
    sheet.text(left, 8, "column 0", colour="muted")
    sheet.text(right, 8, f"{columns - 1:,}", colour="muted", align="right")
    if height >= 44:
        sheet.text(left - 8, top + 6, "row 0", colour="muted", align="right")
        sheet.text(left - 8, top + height - 6, f"{rows - 1:,}", colour="muted", align="right")
    _position_legend(sheet, left, top + height + 18, not np.isfinite(grid.compressed()).all())
    values = grid.compressed()
    over = int((~(values <= 1.0)).sum())
    shape = " × ".join(f"{size:,}" for size in worst.shape) or f"{m} × {n} cells"
    alt = (
        f"{check}, map of {worst.output or 'the output'}, {shape}: {over:,} of {counted(values.size, 'cell')} "
        f"above the allowed error; worst at {worst.position}."
    )
    caption = (
        f"{check}: {worst.output or 'output'} of {shape}: {over:,} of {values.size:,} cells above the allowed error; "
    )
    caption += "the ticks at the edge mark the worst element."
    caption += f" Lines: edges of the tiles ({tiles})." if tiles else ""
    return Drawing(sheet.figure, alt, caption, width)


def _tile_edges(worst: WorstView) -> tuple[tuple[list[int], list[int]], str]:
    """Rows and columns at which a tile of the launch begins, and the tiles in words; nothing where the configuration
    names no tile of rows or columns, or the tiles are too many to draw.

    An output of several matrices is tiled anew in each.
    """
    if not all(worst.matrix_shape):
        return ([], []), ""
    rows, columns = worst.matrix_shape
    matrix_rows = worst.shape[-2] if len(worst.shape) > 1 else 1
    found, words = [], []
    for pattern, size, period, noun in ((_ROWS, rows, matrix_rows, "rows"), (_COLUMNS, columns, columns, "columns")):
        name, tile = _tile(worst.config, pattern)
        begins = [b + t for b in range(0, size, period) for t in range(0, period, tile)][1:] if tile else []
        found.append(begins if len(begins) <= MOST_EDGES else [])
        if found[-1]:
            words.append(f"{tile} {noun}, {name}")
    return (found[0], found[1]), "; ".join(words)


def _tile(config: Mapping[str, Any], pattern: re.Pattern[str]) -> tuple[str, int]:
    """Name and size of the tile that a configuration has along an axis; 0 where it names none."""
    for name, value in config.items():
        if pattern.fullmatch(name) and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return name, value
    return "", 0


def _position_legend(sheet: Sheet, x: float, y: float, not_finite: bool) -> None:
    entries = [("within allowed", 0.3), ("above", 30.0)] + ([("not finite", math.inf)] if not_finite else [])
    for label, ratio in entries:
        sheet.image(_colours(np.ma.array([[ratio]])), x, y - 5, 10, 10)
        sheet.text(x + 15, y, label, colour="muted")
        x += 34 + 6.2 * len(label)


def _colours(grid: np.ma.MaskedArray) -> np.ndarray:
    """RGBA (m, n, 4): blue up to the allowed error, red above, violet where not finite, clear where not compared.

    Strength lies in the opacity, so that the same picture reads on light and on dark paper.
    """
    ratio = np.asarray(grid.filled(0.0), dtype=np.float64)
    finite = np.isfinite(ratio)
    level = np.log10(np.clip(np.where(finite, ratio, 1.0), 1e-4, 1e4))
    rgba = np.empty((*ratio.shape, 4))
    rgba[..., :3] = np.array([64, 126, 201]) / 255
    rgba[..., 3] = 0.10 + 0.45 * (np.minimum(level, 0.0) + 4) / 4
    above = finite & (ratio > 1.0)
    rgba[above, :3] = np.array([214, 56, 80]) / 255
    rgba[above, 3] = 0.70 + 0.30 * np.minimum(level[above] / 3, 1.0)
    rgba[~finite] = np.array([150, 84, 205, 255]) / 255
    rgba[np.ma.getmaskarray(grid), 3] = 0.0
    return rgba


def _worst_cell(worst: WorstView, grid_shape: tuple[int, int]) -> tuple[int, int]:
    """The grid cell of the worst element, from its index where that fits the shape, else the largest cell."""
    if worst.index and len(worst.index) == len(worst.shape) and all(worst.matrix_shape):
        row = int(np.ravel_multi_index(worst.index[:-1], worst.shape[:-1], mode="clip")) if len(worst.shape) > 1 else 0
        rows, columns = worst.matrix_shape
        column = min(max(worst.index[-1], 0), columns - 1)
        return (row * grid_shape[0] // rows, column * grid_shape[1] // columns)
    assert worst.map is not None
    return divmod(int(worst.map.filled(-1.0).argmax()), grid_shape[1])
