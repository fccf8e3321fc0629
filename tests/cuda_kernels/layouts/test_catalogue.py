"""The layouts of the intrinsics, against the tables of the PTX ISA as the tests of the executor state them."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import refkit
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS, MATRIX_MOVES, MMA_LAYOUTS, LayoutError
from tests.cpu.tensor_core.cases import CASES
from tests.cpu.tensor_core.tables import a_places, b_places, c_places

NOT_FRAGMENTS = {
    "NO_SWIZZLE", "SM_90A", "SWIZZLE_128B", "SWIZZLE_32B", "SWIZZLE_64B", "UnsupportedArchitecture", "bar_arrive",
    "bar_sync", "cp_async_bulk_commit_group", "cp_async_bulk_load", "cp_async_bulk_store",
    "cp_async_bulk_tensor_2d_load", "cp_async_bulk_tensor_2d_store", "cp_async_bulk_wait_group",
    "cp_async_bulk_wait_group_read", "cp_async_commit_group", "cp_async_wait_all", "cp_async_wait_group",
    "createpolicy_evict_first", "createpolicy_evict_last", "createpolicy_evict_normal", "cvt_rn_tf32", "cvt_rna_tf32",
    "cvt_rz_tf32", "elect_sync", "fence_mbarrier_init", "fence_proxy_async", "fence_tensor_map", "generic_address",
    "global_address", "lop3", "matrix_descriptor", "mbarrier_arrive", "mbarrier_arrive_expect_tx", "mbarrier_init",
    "mbarrier_inval", "mbarrier_try_wait_parity", "mbarrier_wait_parity", "prmt", "setmaxnreg_dec", "setmaxnreg_inc",
    "shared_address", "target_sm_90a", "wgmma_commit_group", "wgmma_fence", "wgmma_wait_group",
}  # fmt: skip


def test_there_is_a_layout_for_each_intrinsic_that_moves_or_multiplies_fragments():
    described = {layout.intrinsic for layout in LAYOUTS.values()}
    assert described == set(ptx.__all__) - NOT_FRAGMENTS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_fragments_of_the_isa(case):
    (layout,) = (each for each in MMA_LAYOUTS if each.intrinsic == case.name)
    assert layout.shape == (case.m, 8, case.k)
    assert (layout.a_type, layout.b_type, layout.c_type) == (case.a, case.b, case.accumulator)
    for fragment, (rows, columns) in zip(
        (layout.a, layout.b, layout.c), (a_places(case), b_places(case), c_places(case))
    ):
        assert np.array_equal(fragment.row_of.reshape(32, -1), rows[:, : fragment.rows * fragment.columns // 32])
        assert np.array_equal(fragment.column_of.reshape(32, -1), columns[:, : fragment.rows * fragment.columns // 32])


@pytest.mark.parametrize("move", MATRIX_MOVES, ids=lambda move: move.name)
def test_matrix_moves(move):
    """Register j of lane l: elements (l / 4, 2 (l % 4)) and the next of matrix j, or of its transpose."""
    trans = move.name.endswith("trans")
    lane, matrix, half = np.indices((32, move.count, 2))
    group, pair = lane // 4, 2 * (lane % 4) + half
    assert np.array_equal(move.fragment.row_of, 8 * matrix + (pair if trans else group))
    assert np.array_equal(move.fragment.column_of, group if trans else pair)


def _imported(path: Path) -> set[str]:
    """Modules that a file imports, without what is relative."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


def test_kernels_and_executor_state_their_layouts_apart():
    """Otherwise a probe on the CPU would compare a statement with itself."""
    root = Path(refkit.__file__).parent
    ours = {name for path in (root / "cuda_kernels" / "layouts").glob("*.py") for name in _imported(path)}
    assert ours <= {"__future__", "collections.abc", "dataclasses", "functools", "types", "typing", "numpy"}
    executor = list((root / "cpu").rglob("*.py"))
    assert len(executor) > 50
    for path in executor:
        assert not any("cuda_kernels" in name for name in _imported(path)), path


def test_fragments_that_do_not_fit_are_refused():
    tf32, half = LAYOUTS["mma.m16n8k8.tf32"], LAYOUTS["mma.m16n8k16.bf16"]
    with pytest.raises(LayoutError, match=r"expected \(m, k\), \(k, n\) and \(m, n\)"):
        replace(tf32, b=half.b)
    with pytest.raises(LayoutError, match="type of A is 'fp4'"):
        replace(tf32, a_type="fp4")
    with pytest.raises(LayoutError, match="A has elements of 32 bits; bf16 has not"):
        replace(tf32, a_type="bf16")
