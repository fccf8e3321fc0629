"""Probes of `wgmma` on the CPU executor: right layouts pass, wrong descriptors and registers are found and named."""

from dataclasses import replace

import pytest
from numba import cuda, uint64
from numba.cuda import config

from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS, WGMMA_LAYOUTS, SharedMatrix, shared_matrix, wgmma_layout
from refkit.verify.probes import Probe, warpgroup_kernels
from refkit.verify.probes.session import find_probes
from refkit.verify.probes.values import is_measurable, measure

pytestmark = pytest.mark.cpu

K_MAJOR = LAYOUTS["wgmma.m64n64k16.bf16.k_major.swizzle_128"]
NARROW = LAYOUTS["wgmma.m64n64k16.bf16.k_major.swizzle_64"]
PLAIN = LAYOUTS["wgmma.m64n64k16.bf16.k_major.swizzle_none"]
ACROSS = LAYOUTS["wgmma.m64n128k16.bf16.mn_major.swizzle_64"]
REGISTERS = LAYOUTS["wgmma.m64n8k16.bf16.register_a"]


def run(layout, **changes):
    """The probe of a shipped layout whose data, or descriptors, are changed."""
    return Probe(warpgroup_kernels.instruction(layout), replace(layout, **changes)).run("cpu")


def failed(result):
    return {each.operand: each.message for each in result.operands if each.status == "failed"}


@pytest.mark.parametrize(
    "name",
    [
        "wgmma.m64n8k16.bf16",
        "wgmma.m64n8k16.bf16.register_a",
        "wgmma.m64n64k16.bf16.k_major.swizzle_64",
        "wgmma.m64n64k16.bf16.k_major.swizzle_32",
        "wgmma.m64n64k16.bf16.k_major.swizzle_none",
        "wgmma.m64n64k16.bf16.k_major.swizzle_128.step_3",
        "wgmma.m64n64k32.e4m3.k_major.swizzle_128",
        "wgmma.m64n64k8.tf32.k_major.swizzle_none",
        "wgmma.m64n128k16.bf16.mn_major.swizzle_128",
        "wgmma.m64n128k16.bf16.mn_major.swizzle_32",
        "wgmma.m64n128k16.bf16.mn_major.swizzle_none",
    ],
)
def test_the_instructions_do_what_the_data_says(name):
    (probe,) = (each for each in find_probes("wgmma") if each.name == name)
    result = probe.run("cpu")
    assert result.status == "passed", result.message
    assert [each.operand for each in result.operands] == list("ABCD")
    for each in result.operands:
        assert each.found.to_text() == each.claimed.to_text()


@pytest.mark.parametrize(("operand", "letter"), [("a", "A"), ("b", "B")])
def test_a_descriptor_with_another_swizzle_is_named(operand, letter):
    """The data lie as the 64-byte swizzle wants it, and the descriptor says 128."""
    wide = getattr(NARROW, operand).descriptor & ~(3 << 62) | 1 << 62
    result = run(NARROW, **{f"{operand}_descriptor": wide})
    assert list(failed(result)) == [letter]
    assert failed(result)[letter].startswith(
        "the device uses the 128-byte swizzle, the layout data says the 64-byte swizzle, "
        "K contiguous, leading 16, stride 512: byte "
    )


@pytest.mark.parametrize(("operand", "letter"), [("a", "A"), ("b", "B")])
def test_data_with_another_swizzle_is_named(operand, letter):
    """The descriptor says 128 bytes, and the author of the layout thought of 64."""
    thought = shared_matrix(letter, 64, 16, 2, swizzle_bytes=64)
    result = run(K_MAJOR, **{operand: replace(thought, stride_bytes=1024)})
    assert list(failed(result)) == [letter]
    assert "the device uses the 128-byte swizzle, the layout data says the 64-byte swizzle" in failed(result)[letter]


@pytest.mark.parametrize("layout", [PLAIN, ACROSS], ids=["k", "mn"])
@pytest.mark.parametrize(("operand", "letter"), [("a", "A"), ("b", "B")])
def test_leading_and_stride_exchanged_are_named(layout, operand, letter):
    matrix = getattr(layout, operand)
    exchanged = replace(matrix, leading_bytes=matrix.stride_bytes, stride_bytes=matrix.leading_bytes)
    assert exchanged.descriptor != matrix.descriptor
    result = run(layout, **{f"{operand}_descriptor": exchanged.descriptor})
    assert list(failed(result)) == [letter]
    assert failed(result)[letter].startswith(
        "the device has leading and stride offsets exchanged, the layout data says"
    )
    (found,) = (each.found for each in result.operands if each.operand == letter)
    assert found.to_text() == exchanged.to_text()


def test_a_descriptor_that_is_wrong_in_several_fields():
    """Lines of 64 bytes, and the whole descriptor of lines of 128."""
    result = run(NARROW, b_descriptor=K_MAJOR.b_descriptor)
    assert list(failed(result)) == ["B"]
    assert "as its descriptor says (128-byte swizzle, leading 16, stride 1024), the layout" in failed(result)["B"]


def test_memory_that_is_read_in_no_known_way(monkeypatch):
    """Where no explanation holds, the operand that was found whole is blamed, and its first byte named."""
    monkeypatch.setattr("refkit.verify.probes.warpgroup_judgement._explained", lambda products, claims: None)
    result = run(PLAIN, a_descriptor=PLAIN.a_descriptor + 0x10)
    assert list(failed(result)) == ["A"]
    assert failed(result)["A"].startswith(
        "1152 of 4096 places differ: byte 0 holds nothing, the layout data says (0, 0)"
    )


def test_offsets_that_make_elements_overlap_are_named_all_the_same():
    matrix = replace(PLAIN.b, leading_bytes=128, stride_bytes=256)
    layout = replace(PLAIN, b=matrix, b_descriptor=-1)
    result = run(layout, b_descriptor=(256 >> 4) << 16 | (128 >> 4) << 32)
    assert list(failed(result)) == ["B"]
    assert "leading and stride offsets exchanged" in failed(result)["B"]


def test_the_wrong_major_is_named():
    """K-major data without a swizzle, read by an instruction that was told that N is contiguous."""
    layout = wgmma_layout("bf16", 128, a_major="mn", b_major="k")
    across = wgmma_layout("bf16", 128, a_major="mn", b_major="mn")
    told = layout.b.descriptor
    result = Probe(warpgroup_kernels.instruction(across), replace(layout, b_descriptor=told)).run("cpu")
    assert list(failed(result)) == ["B"]
    assert failed(result)["B"].startswith("the device takes M or N as contiguous, the layout data says")


def test_a_step_that_is_forgotten_is_found():
    layout = LAYOUTS["wgmma.m64n64k16.bf16.k_major.swizzle_128.step_3"]
    result = run(layout, a_descriptor=K_MAJOR.a_descriptor)
    assert list(failed(result)) == ["A"]
    assert failed(result)["A"].startswith(
        "the device does as its descriptor says (128-byte swizzle, leading 16, stride 1024), the layout data says "
        "the 128-byte swizzle, K contiguous, leading 16, stride 1024, 96 bytes on: byte 0 holds (0, 0), the layout data"
    )


@cuda.jit(device=True)
def exchanged_registers(accumulator, a, b):
    ptx.wgmma_m64k16_bf16_register_a(accumulator, (a[0], a[2], a[1], a[3]), b, 8, 1, 0)


@cuda.jit(device=True)
def next_line(accumulator, a, b):
    ptx.wgmma_m64k16_bf16_register_a(accumulator, a, b + uint64(8), 8, 1, 0)


def test_exchanged_registers_of_a_are_named():
    result = Probe(exchanged_registers, REGISTERS).run("cpu")
    assert failed(result) == {
        "A": "registers a1 and a2 are exchanged: thread 0 a1 part 0 holds (0, 8), the layout data says (8, 0)"
    }


def test_an_address_that_is_off_is_found():
    result = Probe(next_line, REGISTERS).run("cpu")
    assert "B" in failed(result)


def test_what_the_data_says_of_the_accumulator_is_tested(monkeypatch):
    right = REGISTERS.c
    monkeypatch.setattr(type(REGISTERS), "c", property(lambda layout: right.exchanged(0, 1)))
    result = Probe(warpgroup_kernels.instruction(REGISTERS), REGISTERS).run("cpu")
    assert failed(result)["D"].startswith("registers d0 and d1 are exchanged: thread 0 d0 holds (0, 0)")
    assert list(failed(result)) == ["C", "D"]


def test_another_target_is_skipped_with_what_is_needed(monkeypatch):
    monkeypatch.setattr(config, "FORCE_CUDA_CC", (9, 0))
    warpgroup_kernels.shared_operands_kernel.cache_clear()
    result = run(LAYOUTS["wgmma.m64n8k16.bf16"])
    warpgroup_kernels.shared_operands_kernel.cache_clear()
    assert result.status == "skipped"
    assert "needs the target sm_90a (compute capability 9.0" in result.message
    assert "\n" not in result.message


FLOATS = {
    "summed at once": "all 8",
    "terms": "25 fraction bits, cut towards zero",
    "sum": "23 fraction bits, towards zero",
    "C": "aligned with the first products",
    "operands": "10 fraction bits read, the rest is ignored",
    "subnormals": "kept (A, B, C, D)",
}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("wgmma.m64n64k8.tf32", FLOATS),
        ("wgmma.m64n8k8.tf32.register_a", FLOATS),
        (
            "wgmma.m64n64k32.e4m3",
            {"summed at once": "all 32", "terms": "13 fraction bits, cut towards zero"},
        ),
    ],
)
def test_what_the_executor_computes_is_found(name, wanted):
    layout = LAYOUTS[name]
    facts = measure(warpgroup_kernels.instruction(layout), layout, "cpu").facts
    assert {key: facts[key] for key in wanted} == wanted


def test_one_form_of_each_type_is_measured():
    measured = [name for name, layout in LAYOUTS.items() if name.startswith("wgmma") and is_measurable(layout)]
    assert measured == [
        "wgmma.m64n8k16.bf16",
        *(f"wgmma.m64n64{each}" for each in ("k16.f16", "k16.bf16", "k8.tf32", "k32.e4m3", "k32.e5m2")),
        *(f"wgmma.m64n8{each}.register_a" for each in ("k16.f16", "k16.bf16", "k8.tf32", "k32.e4m3")),
    ]


@pytest.mark.parametrize("layout", WGMMA_LAYOUTS, ids=lambda layout: layout.name)
def test_exchanged_offsets_stay_inside_of_the_memory_that_is_filled(layout):
    """Otherwise a device that takes them so would read what the probe does not see."""
    for operand, size in zip((layout.a, layout.b), warpgroup_kernels.memory_bytes(layout.shape[1])):
        if isinstance(operand, SharedMatrix):
            exchanged = dict(operand.variants())["has leading and stride offsets exchanged"]
            assert max(exchanged.max(), operand.offsets.max()) < size
