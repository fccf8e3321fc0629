"""Numbers and texts as the page shows them."""

from __future__ import annotations

import math

import pytest

from refkit.reports.values import exceeds, number, plain, ratio, seconds, severity, text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.nan, "NaN"),
        (-math.inf, "−∞"),
        (0.0, "0"),
        (0.3149, "0.315"),
        (3.21e-6, "3.2e-06"),
        (12.0, "12"),
        (24312.6, "24,300"),
        (1e300, "1e+300"),
    ],
)
def test_plain(value, shown):
    assert plain(value) == shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        ("Infinity", math.inf),
        ("-inf", -math.inf),
        ("1.5", None),
        (True, None),
        (10**400, math.inf),
        ([], None),
    ],
)
def test_number(value, expected):
    assert number(value) == expected


def test_nan_is_a_failure_and_not_measured_is_not():
    assert [exceeds(r) for r in (None, 0.0, 1.0, 1.001, math.inf, -math.inf, math.nan)] == [False] * 3 + [True] * 4


def test_severity_orders_not_measured_numbers_infinity_nan():
    ordered = [None, 0.0, 0.5, 2.0, math.inf]
    assert sorted([2.0, math.inf, None, 0.5, 0.0], key=severity) == ordered
    assert math.isnan(max([math.inf, math.nan, 3.0], key=severity))


def test_text_of_objects_and_lists():
    assert text({"block": 64, "tiles": [1, 2], "bias": True, "none": None}) == "block 64, tiles 1, 2, bias yes, none "


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0.001, "<0.01 s"), (0.42, "0.42 s"), (118.4, "118 s"), (125.0, "2 min 5 s")]
)
def test_seconds(value, shown):
    assert seconds(value) == shown


def test_a_ratio_below_one_is_not_shown_as_one():
    shown = [ratio(value) for value in (None, 0.994, 0.9951, 0.99999, 1.0, 1.2, math.inf)]
    assert shown == ["–", "0.994", ">0.99", ">0.99", "1", "1.2", "∞"]
