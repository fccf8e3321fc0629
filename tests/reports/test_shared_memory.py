"""Matrices in shared memory, drawn."""

import pytest

from refkit.cuda_kernels.layouts import LAYOUTS, shared_matrix
from refkit.reports.fragments import write_probes
from refkit.reports.reading import ReportError
from refkit.reports.shared_memory import shared_figure, unit_colour, unit_label

B = LAYOUTS["wgmma.m64n64k16.bf16.k_major.swizzle_64"].b


def labels(drawing):
    return [text.get_text() for text in drawing.figure.axes[0].texts]


def test_a_unit_is_named_by_its_range():
    assert unit_label("8,3;9,3;10,3;11,3") == "8-11, 3"
    assert unit_label("5,8;5,9") == "5, 8-9"
    assert unit_label("-") == unit_label("-;-") == ""
    assert unit_label("5,8;?") == unit_label("5,8;-") == "?"
    assert unit_label("5,8;5,10") == "5, mixed"


def test_each_cell_names_what_lies_there():
    """Column 2 of B is line 2 of 64 bytes, whose key is 1: its two pieces are exchanged."""
    drawing = shared_figure("B", B.to_text())
    shown = labels(drawing)
    at = shown.index("128")
    assert shown[at + 1 : at + 9] == ["8-15, 2", "0-7, 2", "", "", "8-15, 3", "0-7, 3", "", ""]
    assert drawing.alt == "B: 16 of 32 rows of 128 bytes of shared memory."
    assert "1920" in shown
    assert "2048" not in shown


def test_places_along_the_contiguous_axis_have_hues_of_their_own():
    assert len({unit_colour(f"5, {first}-{first + 7}") for first in range(0, 64, 8)}) == 8


def test_what_differs_is_marked_and_counted():
    wide = shared_matrix("B", 64, 16, 2, swizzle_bytes=128)
    drawing = shared_figure("B", B.to_text(), wide.to_text())
    assert "pieces of 16 bytes differ from the layout data" in drawing.alt
    assert shared_figure("B", B.to_text(), B.to_text()).alt == shared_figure("B", B.to_text()).alt


def test_a_map_without_elements_is_refused():
    with pytest.raises(ReportError, match="no element"):
        shared_figure("B", ["- - - - - - - -"])


def test_the_page_draws_memory_as_memory(tmp_path):
    entry = {"backend": "cpu", "status": "passed", "message": "", "map": list(B.to_text()), "space": "shared"}
    record = {
        "refkit": "1",
        "backend": "cpu",
        "environment": {"gpu": None, "cpu": "a cpu", "date": "today"},
        "summary": {"passed": 1, "failed": 0, "skipped": 0, "error": 0, "seconds": 1, "differences": 0},
        "probes": [{"name": "one", "operand": "B", **entry}],
        "values": [],
        "differences": [],
    }
    page = write_probes(record, tmp_path).read_text()
    assert "Each cell is 16 bytes of shared memory" in page
    assert [path.name for path in tmp_path.glob("*.png")] == ["one-B.png"]
