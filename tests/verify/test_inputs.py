"""Inputs are a pure function of the case, exact in their storage format; the reference receives the same values."""

import ml_dtypes
import numpy as np
import pytest

from refkit.verify import Case, Dim, Flag, In, Index, InOut, KernelSpec, Out, Precision, Scalar, SpecError
from refkit.verify.inputs import (
    draw_inputs,
    has_a_wrong_index,
    integer_lane_bound,
    integer_lane_obstacle,
    scalar_choices,
)

R, C, V = Dim("R"), Dim("C"), Dim("V", max=50)


def make(args, reference=None, **options):
    names = ", ".join(args)
    launch = eval(f"lambda {names}: None")
    given = ", ".join(name for name, argument in args.items() if argument.given)
    return KernelSpec(launch=launch, reference=reference or eval(f"lambda {given}: None"), args=args, **options)


SPEC = make(
    {
        "x": In(R, C),
        "h": In(R, C, dtype="bfloat16"),
        "bias": In(C, optional=True),
        "i": Index(R, below=V),
        "n": In(R, dtype="int32"),
        "alpha": Scalar([0.1, 2.0]),
        "k": Scalar(3, dtype="int32"),
        "flag": Flag(),
        "acc": InOut(R, C),
        "y": Out(R, C),
    }
)
DIMS = {"R": 6, "C": 5, "V": 9}


def test_same_case_same_inputs():
    case = Case(dims=DIMS, seed=5)
    first, second = draw_inputs(SPEC, case), draw_inputs(SPEC, case)
    for name, array in first.arrays.items():
        assert array.tobytes() == second.arrays[name].tobytes()
    other = draw_inputs(SPEC, Case(dims=DIMS, seed=6))
    assert first.arrays["x"].tobytes() != other.arrays["x"].tobytes()


def test_arguments_do_not_share_values():
    inputs = draw_inputs(SPEC, Case(dims=DIMS, values="normal"))
    assert not np.array_equal(inputs.arrays["x"], inputs.arrays["acc"])


def test_another_dim_or_layout_leaves_an_argument_as_it_is():
    case = Case(dims=DIMS, seed=5)
    more = Case(dims={**DIMS, "C": 17}, layouts={"x": "strided", "h": "broadcast"}, absent=("bias",), seed=5)
    assert np.array_equal(draw_inputs(SPEC, case).arrays["i"], draw_inputs(SPEC, more).arrays["i"])
    assert np.array_equal(draw_inputs(SPEC, case).arrays["n"], draw_inputs(SPEC, more).arrays["n"])


def test_storage_dtypes_and_shapes():
    inputs = draw_inputs(SPEC, Case(dims=DIMS))
    assert {name: (array.dtype.name, array.shape) for name, array in inputs.arrays.items()} == {
        "x": ("float32", (6, 5)),
        "h": ("bfloat16", (6, 5)),
        "bias": ("float32", (5,)),
        "i": ("int64", (6,)),
        "n": ("int32", (6,)),
        "acc": ("float32", (6, 5)),
    }
    assert inputs.output_shapes == {"acc": (6, 5), "y": (6, 5)}


def test_the_reference_gets_exactly_the_stored_values():
    case = Case(dims=DIMS, scalars={"alpha": float(np.float32(0.1)), "flag": True}, absent=("bias",), seed=2)
    inputs = draw_inputs(SPEC, case)
    given = inputs.for_reference()
    assert given["x"].dtype == given["h"].dtype == np.float64
    assert given["i"].dtype == np.int64
    assert np.array_equal(given["h"].astype(ml_dtypes.bfloat16), inputs.arrays["h"])
    assert given["bias"] is None
    assert inputs.arrays["bias"] is None
    assert given["alpha"] == float(inputs.scalars["alpha"])
    assert type(given["alpha"]) is float
    assert inputs.scalars["alpha"].dtype == np.float32
    assert inputs.scalars["k"].dtype == np.int32
    assert given["k"] == 3
    assert given["flag"] is True
    assert "y" not in given


def test_the_reference_gets_the_dims_and_configs_it_names():
    spec = KernelSpec(
        launch=lambda x, y, block: None,
        reference=lambda x, R, block: x,
        args={"x": In(R, C), "y": Out(R, C)},
        configs={"block": [32]},
    )
    given = draw_inputs(spec, Case(dims={"R": 3, "C": 2}, config={"block": 32})).for_reference()
    assert set(given) == {"x", "R", "block"}
    assert (given["R"], given["block"]) == (3, 32)


@pytest.mark.parametrize("seed", range(8))
def test_broadcast_inputs_repeat_along_an_axis(seed):
    array = draw_inputs(SPEC, Case(dims=DIMS, layouts={"x": "broadcast"}, values="normal", seed=seed)).arrays["x"]
    assert (array == array[:1]).all() or (array == array[:, :1]).all()


def test_indices_stay_below_and_take_many_patterns():
    drawn = [draw_inputs(SPEC, Case(dims={**DIMS, "R": 40}, seed=seed)).arrays["i"] for seed in range(60)]
    assert all((array >= 0).all() and (array < 9).all() for array in drawn)
    assert any(len(set(array)) == 1 for array in drawn)
    assert any(len(set(array)) == 9 for array in drawn)
    assert any((np.diff(array) >= 0).all() and len(set(array)) > 3 for array in drawn)


def test_unique_indices_never_repeat():
    spec = make({"i": Index(R, below=R + 2, unique=True), "y": Out(R)})
    for seed in range(20):
        drawn = draw_inputs(spec, Case(dims={"R": 6}, seed=seed)).arrays["i"]
        assert len(set(drawn)) == 6
        assert drawn.max() < 8


def test_ignored_indices_are_drawn_and_sometimes_all():
    spec = make({"i": Index(R, below=V, ignore=-100), "y": Out(R)})
    drawn = [draw_inputs(spec, Case(dims={"R": 20, "V": 9}, seed=seed)).arrays["i"] for seed in range(40)]
    shares = {round(float((array == -100).mean()), 1) for array in drawn}
    assert 0.0 in shares
    assert 1.0 in shares
    assert len(shares) > 2


def test_out_of_range_only_where_an_error_is_promised():
    promised = make({"i": Index(R, below=V, out_of_range="error"), "y": Out(R)})
    silent = make({"i": Index(R, below=V), "y": Out(R)})
    for seed in range(20):
        case = Case(dims={"R": 5, "V": 9}, values="out_of_range", seed=seed)
        wrong = draw_inputs(promised, case).arrays["i"]
        assert ((wrong < 0) | (wrong >= 9)).sum() == 1
        right = draw_inputs(silent, case).arrays["i"]
        assert ((right >= 0) & (right < 9)).all()


@pytest.mark.parametrize(("layout", "unique"), [("broadcast", False), ("contiguous", True), ("contiguous", False)])
def test_the_wrong_index_survives_layout_and_uniqueness(layout, unique):
    spec = make({"i": Index(R, R, below=R * R, unique=unique, out_of_range="error", dtype="int32"), "y": Out(R)})
    for seed in range(20):
        case = Case(dims={"R": 5}, values="out_of_range", layouts={"i": layout}, seed=seed)
        indices = draw_inputs(spec, case).arrays["i"]
        assert ((indices < 0) | (indices >= 25)).any()
        assert has_a_wrong_index(spec, case)
        assert not has_a_wrong_index(spec, Case(dims={"R": 5}, seed=seed))


def test_indices_never_wrap_in_a_narrow_format():
    spec = make({"i": Index(R, below=V + 300, dtype="uint8"), "y": Out(R)})
    assert not spec.admits({"R": 1, "V": 1})
    narrow = make({"i": Index(R, below=Dim("B", max=300), dtype="uint8", out_of_range="error"), "y": Out(R)})
    assert narrow.admits({"R": 1, "B": 256})
    assert not narrow.admits({"R": 1, "B": 257})
    assert not has_a_wrong_index(narrow, Case(dims={"R": 4, "B": 256}, values="out_of_range"))


def test_empty_arrays():
    spec = make({"x": In(Dim("A", min=0), 3), "i": Index(Dim("A", min=0), below=V), "y": Out(3)})
    for values in ("mixture", "integers", "nonfinite", "normal"):
        for seed in range(12):
            inputs = draw_inputs(
                spec, Case(dims={"A": 0, "V": 1}, values=values, seed=seed, layouts={"x": "broadcast"})
            )
            assert inputs.arrays["x"].shape == (0, 3)


def test_named_values_of_an_argument_stand_above_those_of_the_case():
    spec = make({"x": In(R, values="positive"), "p": In(R, values="uniform"), "y": Out(R)})
    for values in ("normal", "mixture", "very_negative", "integers"):
        for seed in range(5):
            arrays = draw_inputs(spec, Case(dims={"R": 50}, values=values, seed=seed)).arrays
            assert arrays["x"].min() > 0
            assert 0 <= arrays["p"].min() <= arrays["p"].max() < 1


def test_nonfinite_values_are_put_among_those_the_argument_asks_for():
    spec = make({"x": In(R, values="positive"), "y": Out(R)})
    drawn = [draw_inputs(spec, Case(dims={"R": 9}, values="nonfinite", seed=seed)).arrays["x"] for seed in range(20)]
    assert not np.isfinite(drawn).all()
    assert all(array[np.isfinite(array)].min() > 0 for array in drawn)


def test_callable_values_and_their_shape():
    spec = make({"x": In(R, values=lambda rng, shape: np.full(shape, 2.5)), "y": Out(R)})
    assert (draw_inputs(spec, Case(dims={"R": 4})).arrays["x"] == 2.5).all()
    wrong = make({"x": In(R, values=lambda rng, shape: np.zeros(3)), "y": Out(R)})
    with pytest.raises(SpecError, match=r"values of 'x' returned shape \(3,\); expected \(4,\)"):
        draw_inputs(wrong, Case(dims={"R": 4}))


def test_values_fit_float16_and_float8_without_overflow():
    spec = make({"x": In(R, C, dtype="float16"), "q": In(R, C, dtype="float8_e4m3fn"), "y": Out(R)})
    for seed in range(60):
        for array in draw_inputs(spec, Case(dims={"R": 8, "C": 8}, seed=seed)).arrays.values():
            assert np.isfinite(array.astype(float)).all()
            assert np.abs(array.astype(float)).max() <= 16


def test_nonfinite_values_reach_the_arrays():
    seen = np.concatenate(
        [
            draw_inputs(SPEC, Case(dims=DIMS, values="nonfinite", seed=seed)).arrays["h"].astype(float)
            for seed in range(20)
        ]
    )
    assert np.isnan(seen).any()
    assert np.isinf(seen).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_integer_lane_sums_are_exact_in_any_order(dtype):
    spec = make({"x": In(R, C, dtype=dtype), "w": In(C, V, dtype=dtype), "y": Out(R, V)})
    case = Case(dims={"R": 3, "C": 300, "V": 4}, values="integers", seed=1)
    arrays = draw_inputs(spec, case).arrays
    x, w = (arrays[name].astype(np.float64) for name in ("x", "w"))
    assert (x == np.rint(x)).all()
    assert len(np.unique(x)) > 2
    # Every partial sum is an integer below 2^24 whatever the order, so float32 holds it.
    assert (np.abs(x) @ np.abs(w)).max() < 2**24


def test_integer_lane_narrows_with_accumulation_and_scalars():
    def bound(**options):
        spec = make({"x": In(R, C), "alpha": Scalar([1.0, 0.25]), "y": Out(R)}, **options)
        return [
            integer_lane_bound(spec, Case(dims={"R": 4, "C": 64}, scalars={"alpha": alpha}), spec.arrays["x"])
            for alpha in (1.0, 0.25)
        ]

    assert bound() == [8, 8]
    assert bound(precision=Precision(accumulate="float16")) == [2, 1]


def test_scalars_of_the_integer_lane_are_small_integers_or_powers_of_two():
    assert scalar_choices(Scalar([0.1, 0.5, 2.0]), "integers") == (2.0,)
    assert scalar_choices(Scalar([0.1, 0.5]), "integers") == (0.5,)
    assert scalar_choices(Scalar([0.1]), "integers") == Scalar([0.1]).values
    assert scalar_choices(Scalar([0.1, 0.5]), "mixture") == Scalar([0.1, 0.5]).values


def test_integer_lane_obstacles_are_named():
    assert integer_lane_obstacle(make({"x": In(R), "alpha": Scalar([0.1, 2.0]), "y": Out(R)})) == ""
    assert "'alpha'" in integer_lane_obstacle(make({"x": In(R), "alpha": Scalar(1e-5), "y": Out(R)}))
    assert "'x'" in integer_lane_obstacle(make({"x": In(R, values=lambda rng, shape: rng.random(shape)), "y": Out(R)}))


def exits(rng, shape):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (exits, "values of 'x' raised SystemExit: 3"),
        (lambda rng, shape: 1 / 0, "values of 'x' raised ZeroDivisionError"),
        (lambda rng, shape: ["a"] * shape[0], "values of 'x' raised ValueError"),
        (lambda rng, shape: np.zeros(shape[0] + 1), "values of 'x' returned shape"),
    ],
)
def test_values_that_cannot_be_drawn_are_the_specs_mistake(values, words):
    spec = KernelSpec(launch=lambda x, y: None, reference=lambda x: x, args={"x": In(R, values=values), "y": Out(R)})
    with pytest.raises(SpecError, match=f"{__file__}:\\d+: {words}"):
        draw_inputs(spec, Case(dims={"R": 3}, values="normal"))


def test_sizes_that_do_not_fit_into_memory_are_the_specs_mistake():
    spec = make({"x": In(Dim("R", max=10**15)), "y": Out(Dim("R", max=10**15))})
    with pytest.raises(SpecError, match=r"'x' of shape \(10{15},\) does not fit into memory \(R at its maximum\)"):
        draw_inputs(spec, Case(dims={"R": 10**15}, values="normal", scenario="R at its maximum"))
