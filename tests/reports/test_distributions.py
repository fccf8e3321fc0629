"""Error against the length of sums, and the histogram in units in the last place."""

from __future__ import annotations

import pytest

from refkit.reports.distributions import reduction_figure, ulps_figure, ulps_of
from refkit.reports.drawing import PALETTE
from refkit.reports.reading import read_run


def _kernel(*checks, status="passed"):
    checks = [{"name": f"check {i}", "status": status} | check for i, check in enumerate(checks)]
    return read_run({"schema": 1, "kernels": [{"name": "k", "status": status, "checks": checks}]}).kernels[0]


def _case(reduction, error, allowed):
    return {"dims": {"K": 1}, "ratio": 0.1, "reduction": reduction, "error": error, "allowed": allowed}


def test_the_curve_is_the_median_of_what_is_allowed_in_each_octave():
    cases = [_case(4, 1e-8, 1e-7), _case(5, 1e-8, 3e-7), _case(7, 1e-8, 2e-7), _case(64, 1e-7, 1e-6)]
    drawing = reduction_figure(_kernel({"cases_data": cases}))
    assert "4 cases, sums of 4 to 64 terms" in drawing.alt
    assert "Allowed, by length: 5: 2e-07, 64: 1e-06." in drawing.alt


def test_longer_sums_and_larger_errors_stand_further_right_and_up():
    drawing = reduction_figure(_kernel({"cases_data": [_case(4, 1e-8, 1e-6), _case(1024, 1e-7, 1e-6)]}))
    (points,) = [
        patch.get_path().vertices[::2]
        for patch in drawing.figure.axes[0].patches + drawing.figure.axes[0].artists
        if patch.get_linewidth() == 3.5 and _hex(patch.get_edgecolor()) == PALETTE["point"]
    ]
    assert points[1][0] > points[0][0] + 100
    assert points[1][1] < points[0][1] - 10  # y runs downwards


def _hex(colour):
    return "#" + "".join(f"{round(255 * each):02x}" for each in colour[:3])


@pytest.mark.parametrize(
    "case", [_case(None, 1e-8, 1e-7), _case(8, None, 1e-7), _case(8, 1e-8, 0), _case(8, "NaN", 1e-7)]
)
def test_cases_without_figures_are_not_drawn(case):
    assert reduction_figure(_kernel({"cases_data": [case]})) is None


def test_an_error_of_zero_is_drawn_at_the_bottom():
    drawing = reduction_figure(_kernel({"cases_data": [_case(8, 0, 1e-7), _case(8, 1e-8, 1e-7)]}))
    assert "2 cases" in drawing.alt


def test_each_bin_has_a_bar_whose_height_is_the_logarithm_of_its_count():
    drawing = ulps_figure(_kernel({"ulps": {"0": 1000, "1": 100, "4": 10, "inf": 1}}))
    bars = [p for p in drawing.figure.axes[0].artists + drawing.figure.axes[0].patches if hasattr(p, "get_height")]
    heights = [bar.get_height() for bar in bars]
    assert len(heights) == 4
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2])
    assert [_hex(bar.get_facecolor()) == PALETTE["bad"] for bar in bars] == [False, False, False, True]
    assert "0: 1,000; 1: 100; 4 to 7: 10; not finite: 1" in drawing.alt
    assert "1,111 elements: 99 % within one unit" in drawing.caption


def test_the_histogram_is_that_of_accuracy():
    kernel = _kernel({"name": "layouts", "ulps": {"0": 900}}, {"name": "accuracy", "ulps": {"1": 2}})
    assert ulps_of(kernel) == {"1": 2}
    assert ulps_of(_kernel({"ulps": {"0": 9}}, {"ulps": {"0": 90}})) == {"0": 90}
    assert ulps_figure(_kernel({"ulps": {}})) is None


def test_many_bins_fit_the_figure():
    drawing = ulps_figure(_kernel({"ulps": {"0": 5} | {str(2**k): 3 for k in range(31)}}))
    bars = [p for p in drawing.figure.axes[0].artists + drawing.figure.axes[0].patches if hasattr(p, "get_height")]
    assert max(bar.get_x() + bar.get_width() for bar in bars) <= drawing.width
