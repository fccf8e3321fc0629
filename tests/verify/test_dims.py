"""Dims: what they allow, what their expressions evaluate to, and how a wrong one is named."""

import pytest

from refkit.verify.dims import Dim, as_dim
from refkit.verify.errors import SpecError

R, C = Dim("R"), Dim("C")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (R, 7),
        (C + 1, 12),
        (1 + C, 12),
        (C - R, 4),
        (20 - C, 9),
        (R * C, 77),
        (2 * R, 14),
        (C // 2, 5),
        (100 // R, 14),
        ((C + R - 1) // R * R, 14),
    ],
)
def test_expression_evaluates_as_python_does(expression, expected):
    assert expression.evaluate({"R": 7, "C": 11}) == expected


def test_integer_is_a_dim_expression():
    assert as_dim(3).evaluate({}) == 3
    assert as_dim(3).dims() == ()


def test_expression_lists_its_dims_in_order():
    assert ((C + 1) * R // C).dims() == (C, R, C)
    assert str((C + 1) // 2) == "((C + 1) // 2)"


def test_least_and_greatest_are_multiples_within_the_range():
    dim = Dim("K", min=5, max=50, multiple_of=16)
    assert (dim.least, dim.greatest) == (16, 48)
    assert Dim("K", min=0, max=50, multiple_of=16).least == 0


def test_nearest_rounds_down_and_stays_in_the_range():
    dim = Dim("K", max=50, multiple_of=16)
    assert [dim.nearest(size) for size in (0, 15, 31, 32, 1000)] == [16, 16, 16, 32, 48]


def test_allows_checks_range_and_multiple():
    dim = Dim("K", max=50, multiple_of=16)
    assert [dim.allows(size) for size in (0, 16, 17, 48, 64)] == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "2x"}, "Dim name is '2x'"),
        ({"name": "R", "min": -1}, "min is -1; expected an integer of at least 0"),
        ({"name": "R", "max": 1.5}, "max is 1.5"),
        ({"name": "R", "multiple_of": 0}, "multiple_of is 0; expected an integer of at least 1"),
        ({"name": "R", "min": 17, "max": 31, "multiple_of": 16}, "no multiple of 16 lies in min=17 to max=31"),
        ({"name": "R", "min": 5, "max": 4}, "no multiple of 1"),
    ],
)
def test_wrong_dim_is_named_with_the_line_that_made_it(arguments, message):
    with pytest.raises(SpecError, match=message) as caught:
        Dim(**arguments)
    assert caught.value.source.startswith(__file__)


@pytest.mark.parametrize("value", ["R", 2.0, None, True])
def test_other_values_are_no_dims(value):
    with pytest.raises(SpecError, match="expected a Dim, an integer, or an expression"):
        as_dim(value)


def test_constant_zero_division_is_refused():
    with pytest.raises(SpecError, match="division by zero"):
        C // 0
