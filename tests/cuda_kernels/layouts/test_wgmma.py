"""What a warpgroup holds for `wgmma`, against the formulas and figures of the PTX ISA 9.1."""

from dataclasses import replace

import numpy as np
import pytest

from refkit.cuda_kernels.layouts import (
    LAYOUTS,
    REGISTER_A,
    WGMMA_LAYOUTS,
    LayoutError,
    Place,
    accumulator,
    shared_matrix,
    wgmma_layout,
)


@pytest.mark.parametrize("n", [8, 24, 64, 256])
def test_the_accumulator(n):
    """Figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D", element d[i] of a thread."""
    fragment = accumulator(n)
    assert (fragment.rows, fragment.columns, fragment.registers) == (64, n, n // 2)
    thread, i = np.indices((128, n // 2))
    warp, lane = thread // 32, thread % 32
    assert np.array_equal(fragment.row_of[..., 0], 16 * warp + lane // 4 + 8 * (i % 4 // 2))
    assert np.array_equal(fragment.column_of[..., 0], 8 * (i // 4) + 2 * (lane % 4) + i % 2)


@pytest.mark.parametrize("n", [0, 4, 12, 264])
def test_an_n_that_there_is_not(n):
    with pytest.raises(LayoutError, match=f"n is {n}; expected a multiple of 8 from 8 to 256"):
        accumulator(n)


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_a_in_registers(bits):
    """Figure "WGMMA .m64nNk16 register fragment layout for matrix A", and its likes for k8 and k32."""
    fragment, per = REGISTER_A[bits], 32 // bits
    thread, register, part = np.indices((128, 4, per))
    lane = thread % 32
    assert np.array_equal(fragment.row_of, 16 * (thread // 32) + lane // 4 + 8 * (register % 2))
    assert np.array_equal(fragment.column_of, per * (lane % 4) + part + 4 * per * (register // 2))


@pytest.mark.parametrize("layout", WGMMA_LAYOUTS, ids=lambda layout: layout.name)
def test_each_form_holds_all_of_its_elements(layout):
    m, n, k = layout.shape
    assert (m, k) == (64, {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}[layout.kind])
    assert layout.name.startswith(f"wgmma.m64n{n}k{k}.{layout.kind}")
    for operand, rows, columns in ((layout.a, 64, k), (layout.b, k, n)):
        held = {(r, c) for r, c in zip(operand.row_of.ravel().tolist(), operand.column_of.ravel().tolist()) if r >= 0}
        assert held == {(r, c) for r in range(rows) for c in range(columns)}


def test_places_of_a_warpgroup():
    assert accumulator(64).element(Place(64, 5)) == (32, 9)
    assert accumulator(64).holder(40, 9) == Place(64, 7)
    assert accumulator(64).element(Place(64, 7)) == (40, 9)


def test_operands_that_do_not_fit_are_refused():
    half_of_tf32 = shared_matrix("A", 64, 8, 2)
    half, byte = LAYOUTS["wgmma.m64n64k16.bf16"], LAYOUTS["wgmma.m64n64k32.e4m3"]
    with pytest.raises(LayoutError, match=r"A and B are \[\(64, 32\), \(16, 64\)\]; expected \(64, 16\) and \(16, n\)"):
        replace(half, a=byte.a)
    with pytest.raises(LayoutError, match="A has elements of 16 bits; tf32 has not"):
        replace(byte, kind="tf32", a=half_of_tf32, b=LAYOUTS["wgmma.m64n64k8.tf32"].b)
    with pytest.raises(LayoutError, match="A of tf32 must have K contiguous"):
        wgmma_layout("tf32", 64, a_major="mn")
