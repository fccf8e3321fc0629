"""What the figures draw: every case, the worst ones of many, the worst element where it is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.image import imread

from refkit.reports import write
from refkit.reports.drawing import PALETTE, to_svg
from refkit.reports.figures import CASES_DRAWN, coverage_figure, errors_figure
from refkit.reports.position import MOST_EDGES, position_figure
from refkit.reports.reading import read_run


def _kernel(checks, status="failed"):
    checks = [{"name": "c", "status": status} | check for check in checks]
    return read_run({"schema": 1, "kernels": [{"name": "k", "status": status, "checks": checks}]}).kernels[0]


def _strokes(drawing, colour):
    """The lines (x0, y0, x1, y1) that the figure draws in a colour, one list per path."""
    found = re.findall(rf'<path d="([^"]*)" style="[^"]*stroke: var\(--fig-{colour}\)', to_svg(drawing))
    return [[_ends(step) for step in re.findall(r"M[^M]+", path)] for path in found]


def _ends(step):
    x, y, kind, *rest = re.fullmatch(r"M(-?[\d.]+) (-?[\d.]+)([hvL])(.*)", step).groups()
    x, y = float(x), float(y)
    if kind == "L":
        return (x, y, *map(float, rest[0].split()))
    return (x, y, x + float(rest[0]), y) if kind == "h" else (x, y, x, y + float(rest[0]))


def test_figures_draw_a_dot_for_every_case():
    case = {"dims": {"R": 3}, "ratio": 0.01}
    checks = [{"name": f"check {i}", "cases_data": [case | {"ratio": 10.0**i}] * 40} for i in (-2, 0, 2)]
    drawing = errors_figure(_kernel(checks))
    assert drawing is not None
    body = to_svg(drawing)
    dots = re.findall(r'<path d="([^"]*)" style="[^"]*stroke: var\(--fig-(point|bad)\)[^"]*stroke-linecap: round', body)
    assert {colour: path.count("M") for path, colour in dots} == {"point": 80, "bad": 40}


def test_dots_show_in_the_png_as_well(tmp_path):
    cases = [{"dims": {"R": 3}, "ratio": 10.0 ** (-2 * i / 100)} for i in range(100)]
    kernel = {"name": "k", "status": "failed", "checks": [{"name": "c", "status": "failed", "cases_data": cases}]}
    write({"schema": 1, "kernels": [kernel]}, tmp_path)
    image = imread(tmp_path / "k-errors.png")[..., :3]
    blue = np.array([int(PALETTE["point"][i : i + 2], 16) for i in (1, 3, 5)]) / 255
    assert (np.abs(image - blue).max(axis=2) < 0.02).sum() > 100 * 8


def test_of_many_cases_the_worst_are_drawn_and_the_caption_says_how_many():
    ratios = [0.001 * (1 + i % 7) for i in range(1000)] + [50.0, 60.0]
    check = {"name": "c", "cases_data": [{"dims": {"R": 1}, "ratio": ratio} for ratio in ratios]}
    drawing = errors_figure(_kernel([check]))
    assert drawing is not None
    dots = [path for path in _strokes(drawing, "point") if len(path) > 20]
    assert [len(path) for path in dots] == [CASES_DRAWN - 2]
    assert (
        drawing.caption == f"Error divided by allowed error, a dot per case; 1,002 cases, {CASES_DRAWN} of them drawn."
    )
    assert "c: 1,002 cases, median 0.004, worst 60, 2 above 1" in drawing.alt


def test_ratios_stand_on_a_log_scale_with_the_allowed_error_between():
    cases = [{"dims": {"R": 1}, "ratio": ratio} for ratio in (0.01, 0.1, 10.0, 100.0)]
    drawing = errors_figure(_kernel([{"name": "c", "cases_data": cases}]))
    assert drawing is not None
    below = [x for x, *_ in _strokes(drawing, "point")[-1]]
    lines = _strokes(drawing, "bad")
    (one,) = [x0 for path in lines for x0, y0, x1, y1 in path if x0 == x1 and abs(y0 - y1) > 10]
    above = [x for x, *_ in lines[-1]]
    steps = np.diff([*below, one, *above])
    assert steps == pytest.approx([steps[0]] * 4, abs=0.05)


@pytest.mark.parametrize(
    ("shape", "index", "row", "column"),
    [
        ([4, 8], [3, 2], 3.5 / 4, 2.5 / 8),
        ([2, 2, 8], [1, 0, 7], 2.5 / 4, 7.5 / 8),
        ([40, 80], [19, 79], 1.5 / 4, 7.5 / 8),
    ],
)
def test_ticks_point_at_the_worst_element(shape, index, row, column):
    worst = {"output": "y", "index": index, "shape": shape, "error_map": [[0.1] * 8] * 4}
    check = _kernel([{"name": "c", "worst": worst}]).checks[0]
    assert check.worst is not None
    drawing = position_figure("c", check.worst)
    assert drawing is not None
    ((down, along),) = _strokes(drawing, "ink")
    left, top = along[2], down[3]
    assert down[0] == down[2] == pytest.approx(left + column * (drawing.width - 12 - left), abs=0.6)
    height = int(min(240, (drawing.width - 60) * np.prod(shape[:-1]) / shape[-1]))
    assert along[1] == along[3] == pytest.approx(top + row * height, abs=0.6)


def test_coverage_marks_each_size_once_and_failing_ones_apart():
    cases = [{"dims": {"R": r, "C": c}, "ratio": 5.0 if r == 64 else 0.1} for r in (1, 7, 64) for c in (0, 300)]
    drawing = coverage_figure(_kernel([{"name": "c", "cases_data": cases}]))
    assert drawing is not None
    assert [sum(len(path) for path in _strokes(drawing, colour)) for colour in ("point", "bad")] == [2, 1 + 2]
    assert drawing.alt == "Sizes tried. R: 3 sizes from 1 to 64; C: 2 sizes from 0 to 300."


def test_of_a_passing_check_fewer_cases_are_drawn():
    ratios = [0.001 * (1 + i % 7) for i in range(300)] + [0.9]
    check = {"cases_data": [{"dims": {"R": 1}, "ratio": ratio} for ratio in ratios]}
    drawing = errors_figure(_kernel([check], "passed"))
    assert f"{CASES_DRAWN // 3} of them drawn" in drawing.caption
    assert max(x for path in _strokes(drawing, "point") for x, *_ in path) > 300  # the worst is among them


def _edges(config, shape):
    worst = {"output": "y", "index": [0] * len(shape), "shape": shape, "error_map": [[0.1] * 8] * 8, "config": config}
    drawing = position_figure("c", _kernel([{"worst": worst}]).checks[0].worst)
    lines = [line for path in _strokes(drawing, "ink")[:-1] for line in path]
    rows = sorted({y0 for x0, y0, x1, y1 in lines if y0 == y1})
    columns = sorted({x0 for x0, y0, x1, y1 in lines if x0 == x1})
    return drawing, rows, columns


def test_tile_edges_stand_where_a_tile_begins():
    drawing, rows, columns = _edges({"block_m": 16, "block_n": 24, "block_k": 8, "threads": 64}, [48, 96])
    assert len(rows) == 2
    assert len(columns) == 3
    left, right, top = 48, drawing.width - 12, 22
    assert columns == pytest.approx([left + (right - left) * k / 4 for k in (1, 2, 3)], abs=0.6)
    assert rows[0] - top == pytest.approx(rows[1] - rows[0], abs=0.6)
    assert "16 rows, block_m; 24 columns, block_n" in drawing.caption


def test_each_matrix_of_an_output_is_tiled_anew():
    _, rows, columns = _edges({"block_q": 16}, [2, 20, 8])
    assert columns == []
    assert len(rows) == 3  # 16, 20 where the second matrix begins, and 36


def test_tiles_too_many_to_draw_and_configurations_without_tiles_draw_no_edges():
    drawing, rows, columns = _edges({"block_m": 2, "block_n": True}, [2 * (MOST_EDGES + 2), 8])
    assert rows == columns == []
    assert "tiles" not in drawing.caption
    assert _edges({"block": 64, "block_m": 0}, [128, 128])[1:] == ([], [])
