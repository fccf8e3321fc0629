"""The worked examples, the sheets against independent statements of the same arithmetic, and wrong calls."""

import itertools
import json
import math

import pytest

from refkit.cuda_kernels.gemm import Tiles, choose_split_k
from refkit.planner.devices import device
from refkit.planner.occupancy import next_cliff, occupancy
from refkit.planner.plan import plan
from refkit.planner.sheet import Group, Parameter, Sheet, figure
from refkit.planner.sheets import sheets
from refkit.planner.swiglu import SwigluLedger

MIB = 2**20


def figures(operator, sizes, **options):
    return plan(operator, sizes, **options).values.figures


# ---------------------------------------------------------------------------------------------------- worked examples


def test_the_mlp_layer_of_a_7b_model():
    made = plan("linear", {"T": 8192, "K": 4096, "N": 14_336}, tflops=490)
    found = made.values.figures
    assert [round(found[name]["flops"] / 1e12, 3) for name in ("forward", "dX", "dW")] == [0.962, 0.962, 0.962]
    assert round(found["total"]["flops"] / 1e12, 3) == 2.886
    assert round(found["total"]["compute_time"] * 1e3, 1) == 5.9
    assert round(found["forward"]["compute_time"] * 1e3, 1) == 2.0
    assert found["dW"]["tiles"] == 3584
    assert found["dW"]["split_verdict"] == "does not pay"
    first = made.values.summary()[0]
    assert first == "Three products of 0.962 TFLOP each, 2.886 TFLOP in all: 5.89 ms at 490 TFLOP/s."


def test_a_large_product_takes_what_cublas_took():
    found = figures("linear", {"T": 8192, "K": 4096, "N": 14_336}, on="h200-measured", dtype="bfloat16")
    measured = 1.244e-3  # dW on one H200, bfloat16, 773 TFLOP/s
    assert found["dW"]["compute_time"] < measured < found["dW"]["time"] * 1.02


def test_a_small_weight_gradient_starves_the_machine_and_split_k_helps():
    found = figures("linear", {"T": 4096, "K": 384, "N": 384}, on="rtx4070-laptop", dtype="float32")
    assert found["dW"]["tiles"] == 9
    assert found["dW"]["full"] == 9 / 36
    assert (found["dW"]["split_verdict"], found["dW"]["split_k"], found["dW"]["split_full"]) == ("pays", 4, 1)
    assert found["dW"]["split_gain"] == (128 + 4) / (32 + 4)
    assert (found["forward"]["tiles"], found["forward"]["split_k"]) == (96, 1)


def test_the_ridge_of_a_laptop_and_the_intensity_of_a_tile():
    found = figures("linear", {"T": 4096, "K": 4096, "N": 4096}, on="rtx4070-laptop", dtype="float32")
    assert round(found["machine"]["ridge"]) == 43
    assert found["machine"]["tile_intensity"] == 32
    wide = figures("linear", {"T": 64, "K": 64, "N": 64, "tile_m": 256}, on="rtx4070-laptop", dtype="float32")
    assert round(wide["machine"]["tile_intensity"], 1) == 42.7


def test_the_swiglu_layer():
    made = plan("swiglu", {"T": 8192, "K": 768, "I": 9216}, dtype="bfloat16")
    found = made.values.figures
    assert [round(found[name]["flops"] / 1e9) for name in ("dout", "dw_down", "dx", "dw")] == [116, 116, 232, 232]
    assert round(found["total"]["backward_flops"] / 1e9) == 696
    assert round(found["total"]["forward_flops"] / 1e9) == 348
    assert found["total"]["dout_bytes"] == 144 * MIB
    assert found["total"]["round_trip"] == 288 * MIB
    assert "= 696 GFLOP; forward 348 GFLOP." in made.values.summary()[0]
    assert "dout is 144 MiB; its round trip through memory is 288 MiB" in made.values.summary()[1]


def test_128_registers_give_two_blocks_and_142_give_one():
    two, one = (figures("occupancy", {"registers": count, "threads": 256})["sm"] for count in (128, 142))
    assert (two["blocks"], two["limit"]) == (2, "registers")
    assert (one["blocks"], one["next_registers"]) == (1, 128)


def test_occupancy_needs_no_rate():
    assert figures("occupancy", {"registers": 64, "threads": 256}, on="t4", dtype="bfloat16")["sm"]["blocks"] == 4


# -------------------------------------------------------------------------------------------- independent statements


@pytest.mark.parametrize("element", [2, 4])
def test_the_swiglu_sheet_is_the_ledger_in_formulas(element):
    for T, K, I in [(8192, 768, 9216), (3, 5, 7), (1, 1, 1)]:  # noqa: E741
        ledger = SwigluLedger(T, K, I, element)
        found = figures("swiglu", {"T": T, "K": K, "I": I}, dtype={2: "bfloat16", 4: "float32"}[element])
        assert found["dout"]["flops"] == ledger.dout_flops
        assert found["dw_down"]["flops"] == ledger.dw_down_flops
        assert found["dx"]["flops"] == ledger.dx_flops
        assert found["dw"]["flops"] == ledger.dw_flops
        assert found["total"]["forward_flops"] == ledger.forward_flops
        assert found["total"]["saved"] == ledger.saved_bytes
        assert found["total"]["round_trip"] == ledger.dout_round_trip_bytes
        assert found["unfused"]["bytes"] == ledger.unfused_bytes
        assert found["fused"]["bytes"] == ledger.fused_bytes
        assert found["ledger_de"]["stored"] == ledger.de_bytes


def test_split_k_is_what_the_launchers_choose():
    tiles = Tiles(128, 64, 16, 8, 8)
    shape = {"tile_m": 128, "tile_n": 64, "tile_k": 16}
    split = 0
    for T, K, N in itertools.product((1, 100, 4096, 65_536), (1, 384, 1000), (7, 384, 4096)):
        for sms in (1, 36, 132):
            found = figures("linear", {"T": T, "K": K, "N": N, **shape}, multiprocessors=sms)
            assert found["forward"]["split_k"] == choose_split_k(K, T, N, tiles, sms)
            assert found["dX"]["split_k"] == choose_split_k(N, T, K, tiles, sms)
            assert found["dW"]["split_k"] == choose_split_k(T, K, N, tiles, sms)
            split += found["dW"]["split_k"] > 1
    assert split >= 10  # the comparison would be empty if nothing were ever split


def test_the_occupancy_sheet_is_the_calculator_in_formulas():
    cliffs = 0
    for name in ("t4", "rtx3090", "rtx4090", "h200", "rtx5090", "a100", "b200"):
        capability = device(name).compute_capability
        dtype = "float16"
        for registers, threads, shared in itertools.product(
            (16, 33, 64, 128, 142, 168, 184, 255), (32, 96, 256, 416, 1024), (0, 1, 40_000, 66_000, 120_000)
        ):
            sizes = {"registers": registers, "threads": threads, "shared_bytes": shared}
            found = figures("occupancy", sizes, on=name, dtype=dtype)["sm"]
            expected = occupancy(capability, threads=threads, registers=registers, shared_bytes=shared)
            assert found["blocks"] == expected.blocks
            assert found["occupancy"] == expected.fraction
            assert found["limit"] in expected.limits
            cliff = next_cliff(capability, threads=threads, registers=registers, shared_bytes=shared)
            if expected.blocks and (cliff is not None or found["next_registers"] >= 16):
                assert found["next_registers"] == cliff.registers
                cliffs += 1
    assert cliffs > 100


def test_a_gemm_by_hand():
    found = figures("linear", {"T": 300, "K": 50, "N": 200}, dtype="float16", on="a100")
    dw = found["dW"]
    assert (dw["m"], dw["n"], dw["k"]) == (50, 200, 300)
    assert dw["bytes"] == (50 * 300 + 300 * 200) * 2 + 2 * 4 * 50 * 200
    assert found["forward"]["bytes"] == (300 * 50 + 50 * 200 + 300 * 200) * 2
    assert dw["tiles"] == 1 * 2
    assert dw["waves"] == 2 / 108
    assert dw["bound"] == "memory"
    assert dw["memory_time"] == dw["bytes"] / 2039e9
    assert found["total"]["flops"] == 6 * 300 * 50 * 200
    assert dw["time"] == dw["compute_time"] / dw["full"] / dw["split_gain"] > dw["memory_time"]


def test_the_partial_sums_of_a_split_are_traffic():
    dw = figures("linear", {"T": 4096, "K": 384, "N": 384}, on="h200-measured")["dW"]
    assert dw["split_k"] == 13
    assert dw["workspace"] == 13 * 384 * 384 * 4
    assert dw["time"] == (dw["bytes"] + 2 * dw["workspace"]) / 4230e9


def test_attention_by_hand():
    B, H, L, D = 2, 3, 100, 64
    for causal in (0, 1):
        found = figures("attention", {"B": B, "H": H, "L": L, "D": D, "causal": causal}, dtype="float32")
        pairs = sum(i + 1 if causal else L for i in range(L))
        tensor, scores, rows = 4 * B * H * L * D, 4 * B * H * L * L, 4 * B * H * L
        assert found["two_kernels"]["forward_flops"] == 2 * 2 * B * H * pairs * D
        assert found["two_kernels"]["backward_flops"] == 7 * 2 * B * H * pairs * D
        assert found["one_kernel"]["backward_flops"] == 5 * 2 * B * H * pairs * D
        assert found["stored"]["backward_flops"] == 4 * 2 * B * H * L * L * D
        # s: q, k, written; softmax: read, written; o: p, v, written
        assert found["stored"]["forward_bytes"] == (2 * tensor + scores) + 2 * scores + (2 * tensor + scores)
        assert found["two_kernels"]["forward_bytes"] == 4 * tensor + rows
        dv = dq = dk = 2 * tensor + scores
        dp = 2 * tensor + scores
        softmax = 3 * scores  # p and dp read, ds written
        assert found["stored"]["backward_bytes"] == dv + dp + softmax + dq + dk
        delta, dq, dk_dv = 2 * tensor + rows, 5 * tensor + 2 * rows, 6 * tensor + 2 * rows
        assert found["two_kernels"]["backward_bytes"] == delta + dq + dk_dv
        accumulator = 4 * B * H * L * D  # float32: cleared, read and written by the atomics, read to be converted
        atomics = 6 * tensor + 2 * rows + accumulator * (1 + 2 + 1) + tensor
        assert found["one_kernel"]["backward_bytes"] == delta + atomics
        assert found["one_kernel"]["scratch"] == rows + accumulator
        assert found["stored"]["kept"] - found["two_kernels"]["kept"] == scores - tensor - rows
        assert found["ledger_lse"]["stored"] == rows


def test_rebuilding_scores_pays_where_two_d_operations_are_cheaper_than_two_elements():
    sizes = {"B": 1, "H": 1, "L": 1024, "D": 64}
    assert figures("attention", sizes, tflops=100, bandwidth=1000)["ledger_p"]["verdict"] == "recompute"
    for tflops, verdict in ((33, "recompute"), (31, "save")):  # 2 · 64 / rate against 2 · 2 / bandwidth: 32 TFLOP/s
        assert figures("attention", sizes, tflops=tflops, bandwidth=1000)["ledger_p"]["verdict"] == verdict


def test_cross_entropy_by_hand():
    T, V, K = 1000, 5000, 64
    found = figures("cross_entropy", {"T": T, "V": V, "K": K, "chunk": 512}, dtype="bfloat16")
    assert found["sizes"]["logits"] == 2 * T * V
    assert found["unfused"]["memory"] == (2 + 4 + 2) * T * V
    assert found["fused"]["memory"] == 2 * T * V + 4 * T
    assert found["chunked"]["memory"] == 4 * T * 512 + 16 * T
    head, statistics, dlogits, products = 1, 1, 1, 2  # passes over (T, V): written, read, written, read by dx and dw
    logits, wide = 2 * T * V, 4 * T * V
    backward = 1 + dlogits + products
    assert found["fused"]["bytes"] == (head + statistics + backward) * logits
    assert found["unfused"]["bytes"] == (head + 2 * statistics + dlogits + products) * logits + 2 * wide
    assert found["chunked"]["bytes"] == (head + statistics + head + backward) * wide
    assert found["chunked"]["extra_flops"] == 2 * T * V * K
    assert found["ledger_lse"]["rebuild_bytes"] == logits
    assert found["total"]["flops"] == 3 * 2 * T * V * K
    breakeven = found["sizes"]["breakeven"]
    for width, verdict in ((math.floor(breakeven * 0.9), "recompute"), (math.ceil(breakeven * 1.1), "save")):
        narrow = figures("cross_entropy", {"T": T, "V": V, "K": width}, dtype="bfloat16")
        assert narrow["ledger_logits"]["verdict"] == verdict


def test_without_a_head_nothing_is_said_about_it():
    made = plan("cross_entropy", {"T": 10, "V": 20})
    assert made.table("gemms") == ()
    assert not {"head", "total", "chunked", "ledger_logits"} & set(made.values.figures)
    assert not any("chunks" in sentence for sentence in made.values.summary())
    assert len(made.values.summary()) == 3


# ------------------------------------------------------------------------------------------------- the plan as a whole

SIZES = {
    "linear": {"T": 8192, "K": 4096, "N": 14_336},
    "attention": {"B": 4, "H": 32, "L": 4096, "D": 128, "causal": 1},
    "swiglu": {"T": 8192, "K": 768, "I": 9216},
    "cross_entropy": {"T": 8192, "V": 128_256, "K": 4096},
    "occupancy": {"registers": 142, "threads": 256},
}


@pytest.mark.parametrize("operator", sheets())
def test_the_json_holds_every_figure_with_its_formula_and_reads_back(operator):
    made = plan(operator, SIZES[operator])
    data = json.loads(json.dumps(made.to_json(), allow_nan=False))
    seen = 0
    for table in ("gemms", "ledger", "ways", "totals", "blocks"):
        for row in data[table]:
            for name in row["formulas"]:
                assert row["with_numbers"][name]
                assert row["shown"][name]
                assert name in row
                seen += 1
    assert seen == sum(len(group) for group in made.values.figures.values())
    assert data["device"]["measured"] is True
    assert data["summary"] == list(made.values.summary())


def test_a_figure_explains_itself():
    made = plan("linear", SIZES["linear"], tflops=490)
    (dw,) = (group for group in made.groups if group.name == "dW")
    by_name = {each.name: each for each in dw.figures}
    assert made.explained(dw, by_name["flops"]) == "2 · m · n · k = 2 · 4,096 · 14,336 · 8,192 = 0.962 TFLOP"
    assert made.explained(dw, by_name["m"]) == "K = 4,096"
    assert (
        made.explained(dw, by_name["tiles"]) == "⌈m / tile_m⌉ · ⌈n / tile_n⌉ = ⌈4,096 / 128⌉ · ⌈14,336 / 128⌉ = 3,584"
    )


def test_the_parts_of_a_sheet_stand_in_the_order_in_which_they_are_computed():
    late = Group("late", "late", "totals", (figure("x", "x", "count", "y + 1"),))
    with pytest.raises(ValueError, match=r"op\.late\.x: 'y'"):
        Sheet("op", "Op", "", (Parameter("T", "T", 1, 1, 2),), (late,), ())
    early = Group("late", "late", "totals", (figure("x", "x", "count", "T + 1"),))
    with pytest.raises(ValueError, match=r"'late\.z' in 'so \{late\.z\}'"):
        Sheet("op", "Op", "", (Parameter("T", "T", 1, 1, 2),), (early,), ("so {late.z}",))
    with pytest.raises(ValueError, match="'cubits' is not a unit"):
        figure("x", "x", "cubits", "1")


@pytest.mark.parametrize(
    ("operator", "sizes", "options", "named"),
    [
        ("conv", {}, {}, "'conv' is not known.*linear"),
        ("linear", {"T": 1, "K": 1}, {}, r"linear: N \(output width N\) is missing"),
        ("linear", {"T": 0, "K": 1, "N": 1}, {}, "T=0; expected at least 1"),
        ("linear", {"T": 1, "K": 1, "N": 1, "M": 2}, {}, "'M' is not one of its parameters"),
        ("linear", {"T": 1, "K": 1, "N": 1}, {"tflops": 0}, "tflops=0; expected a positive number"),
        ("linear", {"T": 1, "K": 1, "N": 1}, {"bandwidth": math.inf}, "bandwidth=inf"),
        ("attention", {"B": 1, "H": 1, "L": 1, "D": 1, "causal": 2}, {}, "causal=2; expected 0 or 1"),
    ],
)
def test_wrong_calls_are_one_clear_line(operator, sizes, options, named):
    with pytest.raises(ValueError, match=named):
        plan(operator, sizes, **options)
