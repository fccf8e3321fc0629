"""Formulas: what they compute, how they are shown, and what they may not hold."""

import math

import pytest

from refkit.planner.expression import Expression, Reference, first_within


@pytest.mark.parametrize(
    ("source", "scope", "value"),
    [
        ("2 * m * n * k", {"m": 3, "n": 5, "k": 7}, 210),
        ("ceil(m / t) * ceil(n / t)", {"m": 129, "n": 128, "t": 128}, 2),
        ("a // b - -c", {"a": 7, "b": 2, "c": 4}, 7),
        ("'memory' if a < b and b >= 2 else 'arithmetic'", {"a": 1, "b": 2}, "memory"),
        ("max(a, min(b, 65536))", {"a": 1, "b": 70_000}, 65_536),
        ("first_within(1.05, (abs_(s) for s in range(1, n + 1)))", None, None),
    ],
)
def test_a_formula_computes_what_python_would(source, scope, value):
    if scope is None:
        with pytest.raises(ValueError, match="abs_"):
            Expression(source)
    else:
        assert Expression(source).evaluate(scope) == value


def test_integers_stay_exact():
    assert Expression("2 * T * K * N").evaluate({"T": 10**9, "K": 10**9, "N": 10**9 + 1}) == 2 * 10**18 * (10**9 + 1)


def test_a_search_finds_the_least_within_the_factor():
    source = "first_within(1.05, (ceil(s * tiles / 36) * (ceil(128 / s) + 4) for s in range(1, most + 1)))"
    assert Expression(source).evaluate({"tiles": 9, "most": 8}) == 4
    assert Expression(source).evaluate({"tiles": 9, "most": 0}) == 1
    assert first_within(1.5, 1, 4, {1: 14, 2: 10, 3: 10}.__getitem__) == 1
    assert first_within(1.0, 1, 4, {1: 14, 2: 10, 3: 10}.__getitem__) == 2


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("2 * m * n", "2 · m · n"),
        ("(a + b) * c / (d * e)", "(a + b) · c / (d · e)"),
        ("a * (b / c)", "a · (b / c)"),
        ("a - (b - c)", "a − (b − c)"),
        ("(a - b) - c", "a − b − c"),
        ("ceil(m / tile_m)", "⌈m / tile_m⌉"),
        ("a // (b * c) * d", "⌊a / (b · c)⌋ · d"),
        ("forward.flops + dX.flops", "forward.flops + dX.flops"),
        ("65536 if a <= b else 0", "65,536 if a ≤ b, else 0"),
        ("(a if b else c) * d", "(a if b, else c) · d"),
        (
            "first_within(1.05, (s * tiles for s in range(1, most + 1)))",
            "least s in 1 to most within 5% of the least s · tiles",
        ),
    ],
)
def test_a_formula_is_shown_with_no_parenthesis_too_many_and_none_too_few(source, text):
    assert Expression(source).text == text


def test_names_are_references_and_a_search_variable_is_not():
    expression = Expression("first_within(1.1, (s * g.x for s in range(low, 3)))")
    assert expression.names == {"g.x", "low"}
    assert [part.name for part in expression.parts if isinstance(part, Reference)] == ["low", "g.x"]


def test_javascript_keeps_the_order_of_operations():
    code = Expression("a - (b - c) / d // e").javascript(lambda name: f"p.{name}")
    assert code == "(p.a - Math.floor(((p.b - p.c) / p.d) / p.e))"
    code = Expression("first_within(1.05, (s * t for s in range(1, n)))").javascript(lambda name: f"p.{name}")
    assert code == "firstWithin(1.05, 1, p.n, (s) => (s * p.t))"


@pytest.mark.parametrize(
    "source", ["__import__('os')", "[1, 2]", "a.b.c", "lambda: 1", "f'{a}'", "a[0]", "a % b", "a < b < c"]
)
def test_what_is_not_a_formula_is_refused_by_name(source):
    with pytest.raises(ValueError, match=r"formula .* is not part of the language of formulas"):
        Expression(source)


def test_no_builtin_is_within_reach():
    with pytest.raises(NameError):
        Expression("open").evaluate({})
    assert Expression("ceil(x)").evaluate({"x": math.pi}) == 4
