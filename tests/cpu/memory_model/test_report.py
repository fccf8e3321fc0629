"""What counts as poor, and the order of a report."""

import pytest

from refkit.cpu import LineTraffic
from refkit.cpu.memory_model.report import sorted_report


def line(number=1, executions=100, **figures):
    space = "global" if "sectors" in figures else "shared"
    return LineTraffic("k", "k.py", number, space, "read", 4, 10, executions, 32.0, **figures)


@pytest.mark.parametrize(
    ("sectors", "ideal", "problem"),
    [
        (4, 4, ""),
        (5, 4, ""),  # off by one element
        (8, 4, "uncoalesced"),  # every other element
        (2, 1, ""),  # a few lanes across a boundary
        (3, 1, "uncoalesced"),
        (7.9, 4, ""),
    ],
)
def test_uncoalesced(sectors, ideal, problem):
    assert line(sectors=sectors, ideal_sectors=ideal).problem == problem


@pytest.mark.parametrize(
    ("passes", "ideal", "problem"), [(1, 1, ""), (2, 1, ""), (2.1, 1, "bank conflicts"), (8, 4, "")]
)
def test_bank_conflicts(passes, ideal, problem):
    assert line(passes=passes, worst_passes=9, ideal_passes=ideal).problem == problem


def test_problems_come_first_and_then_what_wastes_most():
    few = line(1, 10, sectors=32, ideal_sectors=4)
    many = line(2, 1000, sectors=8, ideal_sectors=4)
    harmless = line(3, 10**9, sectors=5, ideal_sectors=4)
    assert [each.line for each in sorted_report([harmless, few, many]).lines] == [2, 1, 3]
    assert sorted_report([harmless, few, many]).flagged == (many, few)


def test_the_record_as_json():
    data = line(sectors=8.0, ideal_sectors=4.0).to_json()
    assert (data["excess"], data["problem"], data["sectors"], data["passes"]) == (2.0, "uncoalesced", 8.0, None)
