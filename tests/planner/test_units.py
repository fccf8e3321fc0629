"""How numbers are shown."""

import pytest

from refkit.planner.units import number, show


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2 * 8192 * 4096 * 14336, "FLOP", "0.962 TFLOP"),
        (6 * 8192 * 4096 * 14336, "FLOP", "2.886 TFLOP"),
        (12 * 8192 * 768 * 9216, "FLOP", "696 GFLOP"),
        (500, "FLOP", "500 FLOP"),
        (144 * 2**20, "B", "144 MiB"),
        (1023 * 2**20, "B", "1,023 MiB"),
        (1.5 * 2**30, "B", "1.5 GiB"),
        (0, "B", "0 B"),
        (0, "s", "0 s"),
        (5.89e-3, "s", "5.89 ms"),
        (1.5e-9, "s", "1.5 ns"),
        (490e12, "FLOP/s", "490 TFLOP/s"),
        (4230e9, "B/s", "4.23 TB/s"),
        (0.25, "fraction", "25 %"),
        (9 / 132, "fraction", "6.8 %"),
        (1 / 132 / 1000, "decimal", "<0.001"),
        (43.36, "FLOP/B", "43.4 FLOP/B"),
        (3584, "count", "3,584"),
        (3.6667, "times", "3.667×"),
        (1, "flag", "yes"),
        ("memory", "text", "memory"),
    ],
)
def test_show(value, unit, text):
    assert show(value, unit) == text


def test_halves_go_up_and_zeros_go_away():
    assert [number(each) for each in (112.5, 113.5, 10.25, 2.0, 1.2345)] == ["113", "114", "10.3", "2", "1.235"]
