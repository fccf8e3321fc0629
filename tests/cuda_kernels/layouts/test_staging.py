"""The swizzle of lane-major staging for all four transposes, proven on the data, and seen on real kernels."""

from itertools import product

import numpy as np
import pytest
from numba import cuda, types

import refkit.cpu
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS, LayoutError, staged_operand, wrongly_keyed

TF32 = LAYOUTS["mma.m16n8k8.tf32"]
TRANSPOSES = list(product((False, True), repeat=2))  # of A, of B
UNSWIZZLED = {("A", False): 8, ("A", True): 16, ("B", False): 16, ("B", True): 8}


@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
def test_keyed_on_the_axis_that_staging_walks(transposes):
    for operand, transposed in zip("AB", transposes):
        staged = staged_operand(TF32, operand, transposed)
        assert staged.tile.swizzle.axis == staged.staging.walk == ("row" if transposed else "column")
        assert staged.load_ways == 1
        assert staged.store_ways <= 2
        assert staged.problem == ""


@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
def test_keyed_on_the_other_axis_nothing_is_gained_and_the_analysis_says_so(transposes):
    for operand, transposed in zip("AB", transposes):
        wrong = wrongly_keyed(TF32, operand, transposed)
        assert wrong.load_ways == 1
        ways = UNSWIZZLED[operand, transposed]
        assert wrong.store_ways == staged_operand(TF32, operand, transposed, key=None).store_ways == ways
        assert f"{ways}-way conflicted; keyed on the {wrong.staging.walk}, 2-way" in wrong.problem


def test_the_key_of_the_untransposed_case_is_16_way_once_a_is_transposed():
    ported = staged_operand(TF32, "A", True, key="column")
    assert ported.store_ways == 16
    assert ported.problem.startswith("A transposed: the swizzle's key, of the column, is the same for all lanes")


@pytest.mark.parametrize("name", ["mma.m16n8k16.bf16", "mma.m16n8k8.f16", "mma.m16n8k32.e4m3", "mma.m8n8k4.f64"])
def test_other_formats_never_lose_by_it(name):
    mma = LAYOUTS[name]
    for operand, transposed in product("AB", (False, True)):
        staged = staged_operand(mma, operand, transposed, k=64)
        assert staged.load_ways == 1
        assert staged.store_ways < staged_operand(mma, operand, transposed, k=64, key=None).store_ways


@pytest.mark.parametrize("name", ["mma.m16n8k8.tf32", "mma.m16n8k16.bf16", "mma.m16n8k32.e4m3"])
def test_keyed_on_the_lane_as_well_narrow_tiles_of_small_formats_are_free_too(name):
    for operand, transposed in product("AB", (False, True)):
        plain = staged_operand(LAYOUTS[name], operand, transposed)
        keyed = plain.keyed_on(plain.staging.walk, lanes=True)
        assert keyed.load_ways == 1
        assert keyed.store_ways <= 2
        assert keyed.store_ways <= plain.store_ways
    assert staged_operand(LAYOUTS["mma.m16n8k16.bf16"], "A", False).store_ways == 4


def test_wrong_calls_are_named():
    with pytest.raises(LayoutError, match="operand is 'C'"):
        staged_operand(TF32, "C", False)
    with pytest.raises(LayoutError, match="not a grid of fragments"):
        staged_operand(TF32, "A", False, mn=120)


def kernel(transposed, keyed_on_rows):
    """Stages A (128 x 32, or 32 x 128 in memory if transposed) lane-major with the swizzle, written out by hand; then
    each warp loads the fragments of 16 rows."""
    shape = (32, 128) if transposed else (128, 32)

    @cuda.jit
    def stage(a, out):
        tile = cuda.shared.array(128 * 32, types.float32)
        thread, lane, warp = cuda.threadIdx.x, cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
        for step in range(4):
            index = (step * 256 + thread) * 4
            for i in range(4):
                outer, inner = (index + i) // shape[1], (index + i) % shape[1]
                m, k = (inner, outer) if transposed else (outer, inner)
                key = (m // 16) & 7 if keyed_on_rows else (k // 8) & 7
                slot = ((m % 8) * 4 + k % 4) ^ key
                register = (m // 8) % 2 + 2 * ((k // 4) % 2)
                tile[((m // 16) * 4 + k // 8) * 128 + slot * 4 + register] = a[outer, inner]
        cuda.syncthreads()
        for right in range(4):
            key = warp & 7 if keyed_on_rows else right & 7
            held = ptx.ld_shared_v4_f32(tile, (warp * 4 + right) * 128 + (lane ^ key) * 4)
            for register in range(4):
                m = warp * 16 + lane // 4 + 8 * (register % 2)
                out[m, right * 8 + lane % 4 + 4 * (register // 2)] = held[register]

    return stage


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("transposed", "keyed_on"), [(False, "column"), (False, "row"), (True, "row"), (True, "column")]
)
def test_a_kernel_shows_the_conflicts_that_the_data_promises(transposed, keyed_on):
    staged = staged_operand(TF32, "A", transposed, key=keyed_on)
    stage = kernel(transposed, keyed_on == "row")
    a = np.arange(128 * 32, dtype=np.float32).reshape((32, 128) if transposed else (128, 32))
    out = np.zeros((128, 32), np.float32)
    with refkit.cpu.trace() as tracer:
        stage[1, 256](a, out)
    assert np.array_equal(out, a.T if transposed else a)
    shared = [line for line in tracer.report().lines if line.space == "shared"]
    (store,), (load,) = ([line for line in shared if line.access == access] for access in ("write", "read"))
    assert (store.worst_passes, load.worst_passes) == (staged.store_ways, 4 * staged.load_ways)
    flagged = {line.line for line in tracer.report().flagged if line.space == "shared"}
    assert flagged == ({store.line} if staged.problem else set())
