"""The fixed cases hold every boundary that contract and specs name."""

import itertools

import numpy as np
import pytest

from refkit.verify import Dim, Flag, In, Index, KernelSpec, Out, Scalar
from refkit.verify.fixed import fixed_cases, tiles
from refkit.verify.inputs import draw_inputs
from refkit.verify.sizes import Budget

R, C = Dim("R", min=0, max=70_000), Dim("C")


def launch(x, b, g, alpha, on, y, block, tile):
    pass


SPEC = KernelSpec(
    launch=launch,
    reference=lambda x: x,
    args={
        "x": In(R, C),
        "b": In(C, optional=True),
        "g": In(C, optional=True),
        "alpha": Scalar([1.0, 0.1]),
        "on": Flag(),
        "y": Out(R, C),
    },
    configs={"block": [64, 128], "tile": [8, 24]},
)
CASES = fixed_cases(SPEC)


def with_scenario(text):
    return [case for case in CASES if text in case.scenario]


def test_all_ones_and_all_sevens():
    assert [dict(case.dims) for case in with_scenario("every dim 7")] == [{"R": 7, "C": 7}]
    assert any(dict(case.dims) == {"R": 1, "C": 1} for case in CASES)


def test_zero_where_legal():
    zero = with_scenario("R is 0")
    assert len(zero) == 1
    assert zero[0].dims["C"] > 0
    assert all(case.dims["C"] > 0 for case in CASES)


def test_every_maximum_with_the_others_small():
    (rows,), (columns,) = with_scenario("R at its maximum"), with_scenario("C at its maximum")
    assert rows.dims["R"] == 70_000
    assert rows.dims["C"] < 16
    assert columns.dims["C"] == 300
    assert columns.dims["R"] < 16


def test_a_maximum_is_reached_within_the_smallest_budget():
    rows = [case for case in fixed_cases(SPEC, budget=Budget(2**10, 2**10)) if case.dims["R"] == 70_000]
    assert len(rows) == 1


@pytest.mark.parametrize("tile", [8, 24, 64, 128])
def test_every_dim_around_every_tile(tile):
    around = [
        case for case in CASES if tile - 1 <= case.dims["R"] <= tile + 1 or tile - 1 <= case.dims["C"] <= tile + 1
    ]
    for name in SPEC.dims:
        sizes = {case.dims[name] for case in around if tile in case.config.values()}
        assert {tile - 1, tile, tile + 1} <= sizes


def test_tiles_are_the_integers_of_configs():
    assert tiles(SPEC) == (8, 24, 64, 128)


def test_a_prime_and_every_configuration():
    assert with_scenario("primes")[0].dims == {"R": 31, "C": 17}
    tried = {(case.config["block"], case.config["tile"]) for case in CASES}
    assert tried == set(itertools.product([64, 128], [8, 24]))
    assert len({case.config for case in CASES[:4]}) == 4, "the boundaries take the configurations in turn"


def test_every_subset_of_optional_arguments():
    assert {case.absent for case in CASES} == {(), ("b",), ("g",), ("b", "g")}


def test_scalars_and_flags_take_every_value():
    assert {case.scalars["alpha"] for case in CASES} == {1.0, float(np.float32(0.1))}
    assert {case.scalars["on"] for case in CASES} == {True, False}


def test_no_two_alike_and_all_admitted():
    assert len({(case.dims, case.config, case.absent) for case in CASES}) == len(CASES)
    assert all(SPEC.admits(case.dims, case.config) for case in CASES)
    assert len({case.seed for case in CASES}) == len(CASES)


def test_the_lane_of_values_reaches_case_and_scalars():
    exact = fixed_cases(SPEC, values="integers", seed=100)
    assert {case.values for case in exact} == {"integers"}
    assert {case.scalars["alpha"] for case in exact} == {1.0}
    assert min(case.seed for case in exact) == 100


def test_requires_and_unique_indices_are_respected():
    T, V = Dim("T", min=0), Dim("V")
    spec = KernelSpec(
        launch=lambda x, i, y: None,
        reference=lambda x: x,
        args={"x": In(T), "i": Index(T, below=V, unique=True), "y": Out(V)},
        requires=lambda V: V % 4 == 0,
    )
    cases = fixed_cases(spec)
    assert len(cases) >= 5
    for case in cases:
        assert case.dims["V"] % 4 == 0
        assert len(set(draw_inputs(spec, case).arrays["i"])) == case.dims["T"]
    assert max(case.dims["V"] for case in cases) == 300


def test_a_large_tile_is_tried_dim_by_dim():
    spec = KernelSpec(
        launch=lambda x, w, y, tile: None,
        reference=lambda x: x,
        args={"x": In(Dim("A"), Dim("B")), "w": In(Dim("B"), Dim("D")), "y": Out(Dim("A"), Dim("D"))},
        configs={"tile": [256]},
    )
    around = [case for case in fixed_cases(spec) if "around the tile 256" in case.scenario]
    assert {case.dims["B"] for case in around} >= {255, 256, 257}
    assert all(np.prod(list(case.dims.values())) <= 2**21 for case in around)
