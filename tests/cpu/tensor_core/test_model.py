"""The tensor cores of other architectures than the executor's own, and what the model says in words."""

import functools

import numpy as np
import pytest

import refkit.cpu
from refkit.cpu import ptx
from refkit.cpu.ptx.instructions import matrix
from refkit.cpu.tensor_core.instruction import parse
from refkit.cpu.tensor_core.library import mma_library
from refkit.cpu.tensor_core.model import summation

from . import cases, oracle
from .cases import BY_NAME, run
from .draws import CLASSES, draw
from .tables import multiply

FORMS = ("mma_m16n8k8_tf32", "mma_m16n8k16_bf16", "mma_m16n8k16_f16_f16", "mma_m16n8k32_e4m3")


@pytest.fixture
def older_cores(monkeypatch):
    """Tensor cores of compute capability 8.9 for kernels that are compiled meanwhile."""

    def forget():
        ptx._meaning.cache_clear()
        cases.kernel.cache_clear()

    monkeypatch.setattr(matrix, "mma_library", functools.partial(mma_library, capability=(8, 9)))
    forget()
    yield
    forget()


@pytest.mark.cpu
@pytest.mark.parametrize("name", FORMS)
def test_an_older_architecture_adds_up_in_its_own_way(older_cores, name):
    case = BY_NAME[name]
    a, b, c = (np.concatenate(parts) for parts in zip(*(draw(case, what, 40) for what in CLASSES)))
    with refkit.cpu.emulate():
        got = multiply(case, run, a, b, c)
    assert np.array_equal(got, oracle.multiply(case, a, b, c, architecture="sm_89"))
    assert not np.array_equal(got, oracle.multiply(case, a, b, c))


@pytest.mark.parametrize(
    ("opcode", "capability", "fraction_bits", "block"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32", (9, 0), 25, 16),
        ("m16n8k16.row.col.f32.f16.f16.f32", (8, 6), 24, 8),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", (8, 0), 24, 4),
        ("m16n8k8.row.col.f32.f16.f16.f32", (7, 5), 24, 8),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", (8, 9), 13, 16),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", (9, 0), 25, 16),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", (10, 0), 25, 32),
    ],
)
def test_fraction_bits_and_blocks(opcode, capability, fraction_bits, block):
    model = summation(parse(f"mma.sync.aligned.{opcode}"), capability)
    assert (model.fraction_bits, model.block) == (fraction_bits, block)


def _one_product(k: int, value: float) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.zeros((1, 16, k), np.float16), np.zeros((1, k, 8), np.float16)
    a[0, 0, 0], b[0, 0, 0] = value, 1
    return a.view(np.uint16), b.view(np.uint16)


@pytest.mark.cpu
@pytest.mark.parametrize(("exponent", "wanted"), [(-24, 2.0**25), (0, 2.0**25), (1, 2.0**25), (2, 2.0**25 + 4)])
def test_what_lies_below_the_last_bit_of_the_largest_term_is_dropped(exponent, wanted):
    """C is 2**25: float32 has steps of 4 there, and its result is cut, not rounded."""
    a, b = _one_product(16, 2.0**exponent)
    c = np.full((1, 16, 8), 2.0**25, np.float32).view(np.uint32)
    with refkit.cpu.emulate():
        d = multiply(BY_NAME["mma_m16n8k16_f16"], run, a, b, c)
    assert d.view(np.float32)[0, 0, 0] == wanted


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16",
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k8.row.col.satfinite.f32.tf32.tf32.f32",
    ],
)
def test_forms_that_do_not_exist_are_refused(opcode):
    with pytest.raises(ValueError, match=r"shape|row-major|satfinite"):
        parse(opcode)
