"""Strategies: what they draw stays legal and bounded, reaches every boundary, and shrinks to the plainest case."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from refkit.verify import Case, Dim, Flag, In, Index, KernelSpec, Out, Scalar
from refkit.verify.fixed import fixed_cases
from refkit.verify.inputs import draw_inputs
from refkit.verify.sizes import Budget
from refkit.verify.strategies import cases

R, C = Dim("R", max=70_000), Dim("C", min=0, multiple_of=4)
QUIET = settings(derandomize=True, database=None, max_examples=200, deadline=None)


def launch(x, s, alpha, on, y, block):
    pass


def make(**options):
    fields = {
        "launch": launch,
        "reference": lambda x: x,
        "args": {
            "x": In(R, C),
            "s": In(R, optional=True),
            "alpha": Scalar([1.0, 0.5, 0.1]),
            "on": Flag(),
            "y": Out(R, C),
        },
        "configs": {"block": [64, 128]},
    }
    return KernelSpec(**{**fields, **options})


SPEC = make()


def drawn(strategy, count=200):
    seen = []

    @settings(QUIET, max_examples=count, phases=[Phase.generate])
    @given(strategy)
    def collect(case):
        seen.append(case)

    collect()
    return seen


def test_every_case_is_legal_bounded_and_drawable():
    budget = Budget()
    for case in drawn(cases(SPEC)):
        assert SPEC.admits(case.dims, case.config)
        assert budget.allows(SPEC, case.dims)
        assert case.config in SPEC.combinations
        assert set(case.layouts.values()) <= {"strided", "transposed", "offset", "broadcast"}
        draw_inputs(SPEC, case)


def test_mostly_small_sometimes_large_and_at_tile_boundaries():
    seen = drawn(cases(SPEC), 400)
    rows = Counter(case.dims["R"] for case in seen)
    assert sum(count for size, count in rows.items() if size <= 80) > len(seen) // 2
    assert max(rows) > 1000
    assert any(size in rows for size in (63, 64, 65))
    assert any(size in rows for size in (127, 128, 129))
    columns = Counter(case.dims["C"] for case in seen)
    assert 0 in columns
    assert columns[0] < len(seen) // 4
    assert max(columns) > 280


def test_all_choices_are_drawn():
    seen = drawn(cases(SPEC), 300)
    assert {case.config["block"] for case in seen} == {64, 128}
    assert {case.absent for case in seen} == {(), ("s",)}
    assert {case.values for case in seen} == {"normal", "mixture"}
    assert len({case.scalars["alpha"] for case in seen}) == 3
    assert {case.scalars["on"] for case in seen} == {True, False}
    assert {case.layout("x") for case in seen} == {"contiguous", "strided", "transposed", "offset", "broadcast"}
    assert "transposed" not in {case.layout("s") for case in seen}
    assert {case.layout("y") for case in seen} == {"contiguous"}


def test_values_and_layouts_can_be_chosen():
    seen = drawn(cases(SPEC, values="integers", layouts=("strided",)), 50)
    assert {case.values for case in seen} == {"integers"}
    assert {case.layout("x") for case in seen} == {"strided"}
    assert all(case.scalars["alpha"] == 1.0 for case in seen)
    assert all(not case.layouts for case in drawn(cases(SPEC, layouts=("contiguous",)), 50))


def test_a_tighter_budget_holds():
    budget = Budget(elements=64, operations=64)
    assert all(budget.allows(SPEC, case.dims) for case in drawn(cases(SPEC, budget=budget)))


def test_fixed_scenario_draws_fixed_cases():
    seen = drawn(cases(SPEC, scenarios=("fixed",), values="mixture"), 100)
    assert set(seen) <= set(fixed_cases(SPEC))
    assert len(set(seen)) > 5


def test_special_scenarios_only_where_the_spec_promises():
    assert cases(SPEC, scenarios=("nonfinite",)).is_empty
    assert {case.values for case in drawn(cases(make(nonfinite=True), scenarios=("nonfinite",)), 20)} == {"nonfinite"}
    assert cases(SPEC, scenarios=("out_of_range",)).is_empty
    indexed = KernelSpec(
        launch=lambda i, y: None,
        reference=lambda i: i,
        args={"i": Index(Dim("T"), below=9, out_of_range="error"), "y": Out(Dim("T"))},
    )
    seen = drawn(cases(indexed, scenarios=("out_of_range",)), 20)
    assert {(case.values, case.scenario) for case in seen} == {("out_of_range", "out_of_range")}


def test_requires_costs_no_health_check():
    spec = make(
        requires=lambda R, C: R % 16 == 0 and C % 16 == 0,
        args={**SPEC.args, "x": In(Dim("R"), C), "y": Out(Dim("R"), C), "s": In(Dim("R"))},
    )

    @settings(QUIET, suppress_health_check=[], max_examples=100)
    @given(cases(spec))
    def check(case):
        assert case.dims["R"] % 16 == 0
        assert case.dims["C"] % 16 == 0

    check()


def smallest(condition, anchor=None):
    return find(
        cases(SPEC, anchor=anchor), condition, settings=settings(QUIET, suppress_health_check=list(HealthCheck))
    )


def test_shrinks_to_the_plainest_case():
    case = smallest(lambda case: True)
    assert dict(case.dims) == {"R": 1, "C": 4}
    assert case.config == SPEC.combinations[0]
    assert not case.layouts
    assert case.values == "normal"
    assert case.scalars == {"alpha": 1.0, "on": False}
    assert case.absent == ()
    assert case.seed == 0


@pytest.mark.parametrize("rows", [2, 33, 65, 300])
def test_shrinks_a_dim_to_the_threshold(rows):
    assert smallest(lambda case: case.dims["R"] >= rows).dims == {"R": rows, "C": 4}


def test_shrinks_each_choice_by_itself():
    assert smallest(lambda case: case.layout("x") != "contiguous").layouts == {"x": "strided"}
    assert smallest(lambda case: case.config["block"] == 128).config == {"block": 128}
    assert smallest(lambda case: case.absent).dims == {"R": 1, "C": 4}
    assert smallest(lambda case: case.seed > 1000).seed == 1001
    assert smallest(lambda case: case.dims["C"] == 0).dims == {"R": 1, "C": 0}


ANCHOR = Case(
    dims={"R": 4000, "C": 64},
    config={"block": 128},
    layouts={"x": "broadcast", "s": "offset"},
    values="mixture",
    scalars={"alpha": 0.5, "on": True},
    absent=("s",),
    seed=123_456_789,
    scenario="primes",
)


def test_the_anchor_itself_is_found_again():
    # Only the very choices of the anchor satisfy this.
    assert smallest(lambda case: case == ANCHOR, ANCHOR) == ANCHOR


def test_an_anchored_case_shrinks_in_every_direction():
    case = smallest(lambda case: case.dims["R"] >= 130 and case.dims["C"] >= 18, ANCHOR)
    assert case == Case(
        dims={"R": 130, "C": 20},
        config={"block": 64},
        values="normal",
        scalars={"alpha": 1.0, "on": False},
        scenario="primes",
    )


def test_an_anchored_case_keeps_what_the_failure_needs():
    case = smallest(lambda case: case.seed == ANCHOR.seed and "x" in case.layouts, ANCHOR)
    assert dict(case.dims) == {"R": 1, "C": 0}
    assert case.layouts == {"x": "broadcast"}
    case = smallest(lambda case: case.dims["R"] == 4000 and case.absent and case.scalars["on"], ANCHOR)
    assert dict(case.dims) == {"R": 4000, "C": 0}
    assert case.config == {"block": 64}


def test_an_anchored_case_never_grows():
    for case in drawn(cases(SPEC, anchor=ANCHOR), 100):
        assert case.dims["R"] <= 4000
        assert case.dims["C"] <= 64
        assert case.seed <= ANCHOR.seed
        assert set(case.layouts.items()) <= set(ANCHOR.layouts.items())


@pytest.mark.parametrize("lane", ["integers", "nonfinite"])
def test_an_anchored_case_stays_in_its_lane(lane):
    anchor = Case(dims={"R": 8, "C": 8}, config={"block": 64}, values=lane)
    assert {case.values for case in drawn(cases(SPEC, anchor=anchor), 30)} == {lane}


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="values is 'norml'; expected one of normal"):
        cases(SPEC, values="norml")
    with pytest.raises(ValueError, match="scenario is 'rare'; expected one of random"):
        cases(SPEC, scenarios=("rare",))


def test_every_out_of_range_case_has_a_wrong_index():
    T = Dim("T", min=0)
    spec = KernelSpec(
        launch=lambda i, y: None,
        reference=lambda i: i,
        args={"i": Index(T, below=9, out_of_range="error", ignore=-1), "y": Out(T)},
    )
    found = drawn(cases(spec, scenarios=("out_of_range",)), 60)
    anchored = drawn(cases(spec, anchor=found[-1]), 30)
    assert len(found) > 20
    for case in (*found, *anchored):
        indices = draw_inputs(spec, case).arrays["i"]
        assert case.values == "out_of_range"
        assert (((indices < 0) | (indices >= 9)) & (indices != -1)).any()
