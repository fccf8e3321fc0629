"""Layout probes on the CPU executor: right layouts pass, planted mistakes are found and named."""

from dataclasses import replace

import pytest
from numba import cuda

from refkit.cpu import frontend
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS, from_bits
from refkit.verify.probes import Probe, kernels

pytestmark = pytest.mark.cpu

TF32, BF16 = LAYOUTS["mma.m16n8k8.tf32"], LAYOUTS["mma.m16n8k16.bf16"]
SOME = [
    "mma.m16n8k4.tf32", "mma.m16n8k8.tf32", "mma.m16n8k16.bf16", "mma.m16n8k8.f16.f16", "mma.m16n8k32.e5m2.e4m3",
    "mma.m16n8k32.s8.u8", "mma.m8n8k4.f64", "ldmatrix.x4.trans", "stmatrix.x2", "ld.global.cs.v4.f32",
    "ld.shared.v4.u32", "st.global.wt.v4.u32", "st.shared.v4.f32", "cvt.rn.bf16x2", "cvt.rn.e4m3x2",
    "cvt.rn.e5m2x2.f16x2", "cvt.f16x2.e4m3x2", "cp.async.ca.8", "cp.async.cg.hint.16",
]  # fmt: skip


def shipped(name):
    return Probe(getattr(ptx, LAYOUTS[name].intrinsic), LAYOUTS[name])


def failed(result):
    return {each.operand: each.message for each in result.operands if each.status == "failed"}


@pytest.mark.parametrize("name", SOME)
def test_the_intrinsics_do_what_the_data_says(name):
    result = shipped(name).run("cpu")
    assert result.status == "passed", result.message
    for each in result.operands:
        assert each.found.to_text() == each.claimed.to_text()


def test_exchanged_registers_in_the_data_are_named():
    """a1 and a2 as the analogous half-precision shape has them."""
    wrong = replace(TF32, a=TF32.a.exchanged(1, 2))
    result = Probe(ptx.mma_m16n8k8_tf32, wrong).run("cpu")
    assert not result
    assert failed(result) == {
        "A": "registers a1 and a2 are exchanged: lane 0 a1 holds (8, 0), the layout data says (0, 4)"
    }


@cuda.jit(device=True)
def swapped(a, b, c):
    return ptx.mma_m16n8k8_tf32((a[0], a[2], a[1], a[3]), b, c)


def test_exchanged_registers_in_a_users_intrinsic_are_named():
    result = Probe(swapped, TF32, name="my_mma").run("cpu")
    assert (result.name, result.status) == ("my_mma", "failed")
    assert list(failed(result)) == ["A"]
    assert "registers a1 and a2 are exchanged" in result.message


@pytest.mark.parametrize(
    ("change", "operands", "cause"),
    [
        ({"b": TF32.b.exchanged(0, 1)}, ["B"], "registers b0 and b1 are exchanged"),
        ({"c": TF32.c.exchanged(1, 2)}, ["C", "D"], "registers d1 and d2 are exchanged"),
        (
            {"a": from_bits("c0 c1 r0 r1 r3", "r2 c2", element_bits=32)},
            ["A", "D"],
            "or the data of D is wrong in the same way",
        ),
    ],
)
def test_other_operands(change, operands, cause):
    result = Probe(ptx.mma_m16n8k8_tf32, replace(TF32, **change)).run("cpu")
    assert list(failed(result)) == operands
    assert cause in result.message


def test_halves_the_wrong_way_round():
    a = from_bits("c1 c2 r0 r1 r2", "r3 c3", "c0", element_bits=16)
    turned = replace(a, elements=tuple(tuple(held[::-1] for held in lane) for lane in a.elements))
    result = Probe(ptx.mma_m16n8k16_bf16, replace(BF16, a=turned)).run("cpu")
    assert failed(result)["A"].startswith("part 0 and part 1 are exchanged: lane 0 a0 part 0 holds (0, 0)")


@cuda.jit(device=True)
def loses_a_register(a, b, c):
    return ptx.mma_m16n8k8_tf32(a, (b[0], b[0]), c)


def test_a_register_that_never_counts():
    result = Probe(loses_a_register, TF32).run("cpu")
    assert result.status == "failed"
    assert "nothing clear" in failed(result)["B"]
    (b,) = (each for each in result.operands if each.operand == "B")
    assert "?" in b.found.to_text()[0]


def test_matrix_moves_that_are_mixed_up():
    plain, trans = LAYOUTS["ldmatrix.x4"], LAYOUTS["ldmatrix.x4.trans"]
    assert failed(Probe(ptx.ldmatrix_x4_trans, plain).run("cpu"))["registers"].startswith("224 of 256 places differ")
    wrong = replace(plain, fragment=plain.fragment.exchanged(1, 2))
    assert "registers r1 and r2 are exchanged" in Probe(ptx.ldmatrix_x4, wrong).run("cpu").message
    assert Probe(ptx.ldmatrix_x4_trans, trans).run("cpu")
    store = LAYOUTS["stmatrix.x2"]
    assert not Probe(ptx.stmatrix_x2_trans, store).run("cpu")


@cuda.jit(device=True)
def high_first(low, high):
    return ptx.cvt_rn_bf16x2(high, low)


def test_a_conversion_that_packs_the_other_way_round():
    result = Probe(high_first, LAYOUTS["cvt.rn.bf16x2"]).run("cpu")
    assert "part 0 and part 1 are exchanged" in result.message


def test_an_architecture_without_the_instruction_is_skipped_with_what_it_needs(monkeypatch):
    monkeypatch.setattr(frontend, "COMPUTE_CAPABILITY", (8, 6))
    kernels.multiply_kernel.cache_clear()
    result = shipped("mma.m16n8k32.e4m3").run("cpu")
    kernels.multiply_kernel.cache_clear()
    assert result.status == "skipped"
    assert "needs compute capability 8.9 or higher; this kernel is compiled for 8.6" in result.message
    assert result.to_json() == [
        {
            "name": "mma.m16n8k32.e4m3",
            "backend": "cpu",
            "operand": "",
            "status": "skipped",
            "message": result.message,
            "map": [],
        }
    ]


@cuda.jit(device=True)
def takes_too_little(a, b):
    return a


def test_an_intrinsic_that_does_not_compile_is_an_error():
    result = Probe(takes_too_little, TF32).run("cpu")
    assert result.status == "error"
    assert "does not compile" in result.message
