"""Drawing cases: distinct, the same for the same seed, and an end where there are no more."""

import importlib

from hypothesis import strategies as st

from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.case import Case
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.strategies import cases
from tests.verify import kernels

STRATEGY = cases(kernels.spec_of(kernels.right))


def test_as_many_as_asked_all_distinct():
    drawn = draw_cases(STRATEGY, 50, seed=1)
    assert len(drawn) == len(set(drawn)) == 50


def test_the_seed_decides():
    assert draw_cases(STRATEGY, 20, seed=1) == draw_cases(STRATEGY, 20, seed=1)
    assert draw_cases(STRATEGY, 20, seed=1) != draw_cases(STRATEGY, 20, seed=2)


def test_what_is_imported_meanwhile_changes_nothing(tmp_path, monkeypatch):
    strategy = st.builds(lambda n: Case(dims={"N": n}), st.integers(0, 2**40))
    before = draw_cases(strategy, 200, seed=3)
    (tmp_path / "full_of_constants.py").write_text(f"NUMBERS = {[7_000_000 + n for n in range(200)]}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_constants")
    assert draw_cases(strategy, 200, seed=3) == before


def test_excluded_cases_are_not_drawn_again():
    first = draw_cases(STRATEGY, 10, seed=1)
    assert not set(first) & set(draw_cases(STRATEGY, 10, seed=1, exclude=frozenset(first)))


def test_none_where_none_are_wanted_or_possible():
    spec = KernelSpec(launch=lambda x, y: None, reference=lambda x: x, args={"x": In(Dim("N")), "y": Out(Dim("N"))})
    assert draw_cases(STRATEGY, 0, seed=1) == []
    assert draw_cases(cases(spec, scenarios=("nonfinite",)), 5, seed=1) == []


def test_seeds_depend_on_every_part():
    assert seed_of(1, "a", "b") == seed_of(1, "a", "b")
    assert len({seed_of(1, "a", "b"), seed_of(2, "a", "b"), seed_of(1, "ab"), seed_of(1, "b", "a")}) == 4
