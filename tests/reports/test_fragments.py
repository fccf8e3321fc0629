"""Layouts drawn: what the picture says, and the page round it."""

import pytest

from refkit.cuda_kernels.layouts import LAYOUTS, accumulator
from refkit.reports.fragments import Cell, fragment_figure, lane_colour, read_map, write_probes
from refkit.reports.reading import ReportError

A = LAYOUTS["mma.m16n8k8.tf32"].a
HALVES = LAYOUTS["mma.m16n8k16.bf16"].a


def labels(drawing):
    return [text.get_text() for text in drawing.figure.axes[0].texts]


def test_a_map_is_read_back():
    held = read_map(HALVES.to_text())
    assert held[1, 13] == Cell(6, 2, 1)
    assert len(held) == 256
    assert read_map(["? 0,1;?"]) == {(0, 1): Cell(0, 1, 0)}


def test_each_cell_names_lane_and_register():
    drawing = fragment_figure("A of tf32", "a", A.to_text())
    shown = labels(drawing)
    assert shown.count("6 a1") == 1
    assert len([label for label in shown if " a" in label]) == 128
    assert drawing.alt == "A of tf32: 16 x 8 elements, 4 registers of 1 parts in 32 lanes."
    assert "27 a3.1" in labels(fragment_figure("A", "a", HALVES.to_text()))


def test_cells_that_differ_are_marked_and_counted():
    drawing = fragment_figure("A", "a", A.to_text(), A.exchanged(1, 2).to_text())
    assert "64 differ from the layout data" in drawing.alt


def test_lanes_have_colours_of_their_own_on_which_ink_is_readable():
    colours = [lane_colour(lane) for lane in range(32)]
    assert len(set(colours)) == 32
    luminance = [0.2126 * r**2.2 + 0.7152 * g**2.2 + 0.0722 * b**2.2 for r, g, b in colours]
    assert (min(luminance) + 0.05) / (0.0168 + 0.05) > 4.5  # WCAG contrast with the ink, #1d2430


def test_threads_of_a_warpgroup_are_drawn_up_to_32_columns():
    wide = accumulator(64)
    drawing = fragment_figure("D", "d", wide.to_text(), wide.exchanged(20, 21).to_text())
    shown = labels(drawing)
    assert shown.count("127 d15") == 1
    assert "127 d16" not in shown
    assert "64 x 64 elements, 32 registers of 1 parts in 128 threads; the first 32 columns are drawn" in drawing.alt
    assert "256 differ from the layout data" in drawing.alt
    assert len({lane_colour(thread, 128) for thread in range(128)}) == 128


def entry(name, operand, lines, **more):
    return {"name": name, "operand": operand, "backend": "cpu", "status": "passed", "message": "", "map": lines, **more}


def test_shared_layouts_are_drawn_once(tmp_path):
    lines = list(A.to_text())
    record = {
        "refkit": "1",
        "backend": "cpu",
        "environment": {"gpu": None, "cpu": "a <cpu>", "date": "today"},
        "summary": {"passed": 2, "failed": 0, "skipped": 1, "error": 0, "seconds": 1, "differences": 0},
        "probes": [
            entry("one", "A", lines),
            entry("two", "A", lines),
            entry("three", "", [], status="skipped", message="needs 9.0"),
        ],
        "values": [{"name": "one", "backend": "cpu", "status": "measured", "facts": {"sum": "23 bits"}}],
        "differences": [],
    }
    page = write_probes(record, tmp_path).read_text()
    assert [path.name for path in tmp_path.glob("*.png")] == ["one-A.png"]
    assert "Found so in one A, two A." in page
    assert "needs 9.0" in page
    assert "23 bits" in page
    assert "a &lt;cpu&gt;" in page


def test_two_devices_and_what_they_differ_in(tmp_path):
    lines, exchanged = list(A.to_text()), list(A.exchanged(1, 2).to_text())
    wrong = entry("one", "A", exchanged, status="failed", message="a1 and a2", claimed=lines)
    facts = {"name": "one", "status": "measured", "facts": {"sum": "23 bits"}}
    record = {
        "refkit": "1",
        "backend": "cuda",
        "environment": {"gpu": {"name": "H200"}, "cpu": "", "date": "today"},
        "summary": {"passed": 1, "failed": 1, "skipped": 0, "error": 0, "seconds": 1, "differences": 1},
        "probes": [entry("two", "A", lines, backend="cuda"), {**wrong, "backend": "cuda"}, entry("one", "A", lines)],
        "values": [{**facts, "backend": "cuda"}, {**facts, "backend": "cpu"}],
        "differences": ["one, A: cuda and cpu found different elements"],
    }
    page = write_probes(record, tmp_path).read_text()
    assert "Where cuda and cpu differ" in page
    assert "one, A: cuda and cpu found different elements" in page
    assert "A: a1 and a2" in page
    assert "H200" in page
    assert page.count("23 bits") == 2
    assert page.index("one-A.png") < page.index("two-A.png")  # what is wrong comes first


def test_what_is_no_result_is_refused(tmp_path):
    with pytest.raises(ReportError, match="no list of probes"):
        write_probes({"kernels": []}, tmp_path)
    with pytest.raises(ReportError, match="no element"):
        fragment_figure("x", "a", ["?"])
