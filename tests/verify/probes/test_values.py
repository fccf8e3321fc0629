"""Value probes: they find what the executor's model says, and see it when an intrinsic computes in another way."""

import functools

import pytest
from numba import cuda

from refkit.cpu import frontend
from refkit.cpu import ptx as cpu_ptx
from refkit.cpu.ptx.instructions import matrix
from refkit.cpu.tensor_core.library import mma_library
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS
from refkit.verify.probes import kernels
from refkit.verify.probes.numbers import RANGES, split
from refkit.verify.probes.values import ValueFacts, differences, measure

pytestmark = pytest.mark.cpu
PAIRED = "0-1 4-5 8-9 12-13 16-17 20-21 24-25 28-29; 2-3 6-7 10-11 14-15 18-19 22-23 26-27 30-31"


def facts(name):
    layout = LAYOUTS[name]
    result = measure(getattr(ptx, layout.intrinsic), layout, "cpu")
    assert result.status == "measured", result.message
    return dict(result.facts)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "mma.m16n8k8.tf32",
            {
                "summed at once": "all 8",
                "terms": "25 fraction bits, cut towards zero",
                "sum": "23 fraction bits, towards zero",
                "C": "aligned with the first products",
                "operands": "10 fraction bits read, the rest is ignored",
                "subnormals": "kept (A, B, C, D)",
                "overflow": "infinity",
                "negative underflow": "+0",
                "nan": "0x7fffffff",
            },
        ),
        (
            "mma.m16n8k16.f16.f16",
            {
                "summed at once": "all 16",
                "terms": "25 fraction bits, cut towards zero",
                "sum": "10 fraction bits, to nearest, ties to even",
                "C": "aligned with the first products",
                "subnormals": "kept (A, B, C, D)",
                "overflow": "infinity",
                "negative underflow": "+0",
                "nan": "0x7fff",
            },
        ),
        (
            "mma.m16n8k32.e4m3.e5m2",
            {
                "summed at once": f"2 x 16 ({PAIRED})",
                "terms": "25 fraction bits, cut towards zero",
                "sum": "23 fraction bits, towards zero",
                "C": "added last, to nearest, ties to even",
                "subnormals": "kept (A, B, C)",
                "nan": "0x7fffffff",
            },
        ),
        (
            "mma.m8n8k4.f64",
            {
                "summed at once": "1 by 1, k ascending",
                "sum": "52 fraction bits, to nearest, ties to even",
                "C": "the first term",
                "subnormals": "kept (A, B, C, D)",
                "overflow": "infinity",
                "negative underflow": "+0",
                "nan": "0x7ff8000000000000",
            },
        ),
        (
            "mma.m16n8k32.s8.u8",
            {"A": "byte 0x80 is -128", "B": "byte 0x80 is 128", "overflow": "wraps", "underflow": "wraps"},
        ),
        ("mma.m16n8k32.u8.satfinite", {"A": "byte 0x80 is 128", "B": "byte 0x80 is 128", "overflow": "clamped"}),
    ],
)
def test_what_the_executor_computes_is_found(name, wanted):
    assert facts(name) == wanted


@pytest.fixture
def older_cores(monkeypatch):
    """Tensor cores of compute capability 8.9 for kernels that are compiled meanwhile."""

    def forget():
        cpu_ptx._meaning.cache_clear()
        kernels.multiply_kernel.cache_clear()

    monkeypatch.setattr(matrix, "mma_library", functools.partial(mma_library, capability=(8, 9)))
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mma.m16n8k16.bf16", {"summed at once": "2 x 8 (0-7; 8-15)", "terms": "24 fraction bits, cut towards zero"}),
        ("mma.m16n8k8.tf32", {"summed at once": "2 x 4 (0-3; 4-7)", "terms": "24 fraction bits, cut towards zero"}),
        (
            "mma.m16n8k32.e4m3",
            {
                "summed at once": "2 x 16 (0-15; 16-31)",
                "terms": "13 fraction bits, cut towards zero",
                "sum": "13 fraction bits, towards zero",
            },
        ),
    ],
)
def test_an_older_architecture_is_told_apart(older_cores, name, wanted):
    found = facts(name)
    assert {key: found[key] for key in wanted} == wanted


@cuda.jit(device=True)
def rounding_first(a, b, c):
    """Rounds tf32 operands to nearest even, as the unit does not."""
    return ptx.mma_m16n8k8_tf32((_even(a[0]), _even(a[1]), _even(a[2]), _even(a[3])), b, c)


@cuda.jit(device=True)
def _even(word):
    return word + 0xFFF + ((word >> 13) & 1)


def test_an_intrinsic_that_rounds_its_operands_is_seen():
    result = measure(rounding_first, LAYOUTS["mma.m16n8k8.tf32"], "cpu", "mine")
    assert result.facts["operands"] == (
        "A: 10 fraction bits read, rounded to nearest, ties to even; B: 10 fraction bits read, the rest is ignored"
    )


def test_differences_are_listed_fact_by_fact():
    mine = [ValueFacts("m", "cuda", "measured", facts={"sum": "23", "nan": "0x1"}), ValueFacts("s", "cuda", "skipped")]
    theirs = [ValueFacts("m", "cpu", "measured", facts={"sum": "22", "nan": "0x1", "C": "last"})]
    assert differences(mine, theirs) == ["m, sum: cuda 23; cpu 22", "m, C: cuda not seen; cpu last"]
    assert differences(mine, []) == []


def test_an_architecture_without_the_instruction_is_skipped(monkeypatch):
    monkeypatch.setattr(frontend, "COMPUTE_CAPABILITY", (8, 6))
    kernels.multiply_kernel.cache_clear()
    result = measure(ptx.mma_m16n8k32_e5m2, LAYOUTS["mma.m16n8k32.e5m2"], "cpu")
    kernels.multiply_kernel.cache_clear()
    assert result.status == "skipped"
    assert "needs compute capability 8.9" in result.message


def test_products_are_made_of_factors_in_range():
    for a, b in (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("f16", "f16"), ("bf16", "bf16"), ("f64", "f64")):
        first, second = RANGES[a], RANGES[b]
        for exponent in range(first.least + second.least, first.most + second.most + 1):
            of_a, of_b = split(exponent, first, second)
            assert of_a + of_b == exponent
            assert first.least <= of_a <= first.most
            assert second.least <= of_b <= second.most
    with pytest.raises(ValueError, match="2 to the 17"):
        split(17, RANGES["e4m3"], RANGES["e4m3"])
