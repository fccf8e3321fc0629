"""Sizes: the nearest ones that a spec admits, and the budget."""

import pytest

from refkit.verify import Dim, In, Index, KernelSpec, Out, SpecError
from refkit.verify.sizes import Budget, nearest, small_dims, within

K, N, T = Dim("K"), Dim("N"), Dim("T", min=0, max=5000)


def make(requires=None, args=None, **options):
    args = args or {"x": In(T, K), "w": In(K, N), "y": Out(T, N)}
    launch = eval(f"lambda {', '.join([*args, *options.get('configs', {})])}: None")
    return KernelSpec(launch=launch, reference=lambda: None, args=args, requires=requires, **options)


def test_nearest_keeps_what_is_admitted():
    assert nearest(make(), {"T": 9, "K": 8, "N": 7}) == {"T": 9, "K": 8, "N": 7}


def test_nearest_clips_to_the_range():
    assert nearest(make(), {"T": 9999, "K": 0, "N": 301}) == {"T": 5000, "K": 1, "N": 300}


def test_nearest_goes_down_and_up_for_requires():
    spec = make(lambda K: K % 16 == 0)
    assert nearest(spec, {"T": 5, "K": 100, "N": 3}) == {"T": 5, "K": 96, "N": 3}
    assert nearest(spec, {"T": 5, "K": 3, "N": 3}) == {"T": 5, "K": 16, "N": 3}


def test_nearest_moves_several_dims_together():
    spec = make(lambda K, N, T: K % 16 == 0 and N % 16 == 0 and T % 16 == 0)
    assert nearest(spec, {"T": 50, "K": 100, "N": 35}) == {"T": 48, "K": 96, "N": 32}
    assert nearest(spec, {"T": 3, "K": 3, "N": 3}) == {"T": 16, "K": 16, "N": 16}


def test_nearest_relates_dims():
    spec = make(lambda K, N: K % N == 0)
    found = nearest(spec, {"T": 5, "K": 100, "N": 33})
    assert found["K"] % found["N"] == 0
    assert found["K"] == 99


def test_zero_is_a_last_resort():
    assert nearest(make(lambda T: T % 8 == 0), {"T": 3, "K": 1, "N": 1})["T"] == 8
    assert nearest(make(lambda T: T % 8 == 0), {"T": 0, "K": 1, "N": 1})["T"] == 0
    assert nearest(make(lambda T: T == 0), {"T": 3, "K": 1, "N": 1})["T"] == 0


def test_nearest_gives_up():
    assert nearest(make(lambda K: K > 1000), {"T": 1, "K": 5, "N": 5}) is None


def test_requires_may_name_a_config():
    spec = make(lambda K, tile: K % tile == 0, configs={"tile": [8, 32]})
    assert nearest(spec, {"T": 1, "K": 50, "N": 5}, {"tile": 32})["K"] == 32
    assert nearest(spec, {"T": 1, "K": 50, "N": 5}, {"tile": 8})["K"] == 48


def test_shapes_and_indices_must_be_possible():
    spec = make(args={"x": In(K - 3), "i": Index(N, below=K - 4, unique=True), "y": Out(N)})
    found = nearest(spec, {"K": 2, "N": 6})
    assert found["K"] - 4 >= found["N"] >= 1
    assert not spec.admits({"K": 10, "N": 7})
    assert spec.admits({"K": 10, "N": 6})


def test_small_dims_differ_where_they_can():
    assert small_dims(make()) == {"T": 3, "K": 5, "N": 7}
    assert small_dims(make(lambda K: K >= 200))["K"] >= 200
    with pytest.raises(SpecError, match="no sizes were found"):
        small_dims(make(lambda K: K > 1000))


def test_requires_that_raises_names_the_sizes():
    with pytest.raises(SpecError, match=r"requires raised ZeroDivisionError: .* for \{'T': 0"):
        nearest(make(lambda K, T: K % T == 0), {"T": 0, "K": 5, "N": 5})


def test_budget_counts_elements_and_operations():
    spec = make()
    assert Budget(elements=100, operations=1000).allows(spec, {"T": 10, "K": 10, "N": 10})
    assert not Budget(elements=99, operations=1000).allows(spec, {"T": 10, "K": 10, "N": 10})
    assert not Budget(elements=100, operations=999).allows(spec, {"T": 10, "K": 10, "N": 10})
    assert Budget(elements=100, operations=100).allows(spec, {"T": 0, "K": 10, "N": 10})


def test_within_halves_the_largest_and_keeps_one():
    spec, budget = make(), Budget(elements=1000, operations=4000)
    found = within(spec, {"T": 100, "K": 100, "N": 10}, budget)
    assert budget.allows(spec, found)
    kept = within(spec, {"T": 5000, "K": 100, "N": 10}, budget, keep="T")
    assert kept["T"] == 5000
    assert kept["K"] == kept["N"] == 1


def test_within_ends_where_requires_holds_a_dim_up():
    spec = make(lambda K: K % 16 == 0)
    assert within(spec, {"T": 5000, "K": 100, "N": 10}, Budget(1000, 4000), keep="T") == {"T": 5000, "K": 16, "N": 1}
    assert within(make(lambda K: K == 300), {"T": 9, "K": 1, "N": 1}, Budget(elements=100)) is None
