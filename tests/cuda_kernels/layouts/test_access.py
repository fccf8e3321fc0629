"""Fragments loaded from tiles: how wide, with which conflicts, and that `ldmatrix` gives what `mma` wants."""

import numpy as np
import pytest

from refkit.cuda_kernels.layouts import (
    LAYOUTS,
    LaneMajorTile,
    LayoutError,
    Staging,
    StridedTile,
    Swizzle,
    fragment_load,
    loaded_by_matrices,
    matrix_load,
    staging_store,
)

TF32, BF16 = LAYOUTS["mma.m16n8k8.tf32"], LAYOUTS["mma.m16n8k16.bf16"]
QUARTERS = [(0, 0), (8, 0), (0, 8), (8, 8)]


def test_lane_major_tiles_are_loaded_by_one_access():
    found = fragment_load(LaneMajorTile(32, 16, TF32.a), TF32.a, 16, 8)
    assert (found.bytes_per_lane, found.wavefronts.tolist(), found.ways) == (16, [4], 1)
    assert found.offsets[0].tolist() == [3 * 512 + 16 * lane for lane in range(32)]


def test_strided_tiles_are_loaded_element_by_element():
    """32 floats to a row: eight rows of a register lie in the same four banks; four floats of padding spread them."""
    found = fragment_load(StridedTile(32, 32, 4), TF32.a)
    assert (found.bytes_per_lane, found.wavefronts.tolist()) == (4, [8] * 4)
    assert fragment_load(StridedTile(32, 32, 4, stride_bytes=144), TF32.a).wavefronts.tolist() == [1] * 4


def test_pairs_of_halves_are_loaded_together_where_they_lie_side_by_side():
    assert fragment_load(StridedTile(16, 16, 2), BF16.a).bytes_per_lane == 4
    assert fragment_load(StridedTile(16, 16, 2, contiguous="row"), BF16.a).bytes_per_lane == 2


def test_ldmatrix_gives_the_fragments_of_mma():
    assert loaded_by_matrices(LAYOUTS["ldmatrix.x4"].fragment, QUARTERS) == BF16.a
    assert loaded_by_matrices(LAYOUTS["ldmatrix.x2.trans"].fragment, QUARTERS[:2]) == BF16.b
    assert loaded_by_matrices(LAYOUTS["ldmatrix.x2"].fragment, QUARTERS[:2], transposed=True) == BF16.b
    assert loaded_by_matrices(LAYOUTS["ldmatrix.x4.trans"].fragment, [(0, 0), (0, 8), (8, 0), (8, 8)], True) != BF16.a
    shifted = [(row + 16, column + 32) for row, column in QUARTERS]
    assert loaded_by_matrices(LAYOUTS["ldmatrix.x4"].fragment, shifted) == BF16.a


def test_the_row_swizzle_frees_ldmatrix_of_conflicts():
    assert matrix_load(StridedTile(64, 64, 2), QUARTERS).wavefronts.tolist() == [32]
    keyed = StridedTile(64, 64, 2, swizzle=Swizzle("row"))
    assert matrix_load(keyed, QUARTERS).wavefronts.tolist() == [4]
    assert matrix_load(keyed, QUARTERS[:1]).wavefronts.tolist() == [1]
    turned = StridedTile(64, 64, 2, contiguous="row", swizzle=Swizzle("column"))
    assert matrix_load(turned, QUARTERS).wavefronts.tolist() == [4]


def test_a_matrix_row_in_pieces_is_refused():
    with pytest.raises(LayoutError, match="row 0 of matrix 0 is not 16 aligned bytes"):
        matrix_load(StridedTile(16, 32, 2), [(0, 4)])
    with pytest.raises(LayoutError, match="not 16 aligned bytes"):
        matrix_load(StridedTile(16, 16, 4), [(0, 0)])


def test_staging_fills_every_element_once():
    for walk in ("row", "column"):
        staging = Staging(32, 16, walk, 4, 64)
        rows, columns = staging.elements
        assert rows.shape == (4, 32, 4)
        assert len(set(zip(rows.ravel().tolist(), columns.ravel().tolist()))) == 32 * 16
        walked = columns if walk == "column" else rows
        assert np.array_equal(walked[0, 1], [4, 5, 6, 7])


def test_a_store_in_order_is_as_wide_as_what_was_loaded():
    found = staging_store(StridedTile(32, 32, 4), Staging(32, 32, "column", 4, 256))
    assert (found.bytes_per_lane, found.ways) == (16, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((30, 16, "row", 4, 64), "evenly"),
        ((32, 16, "row", 4, 48), "whole warps"),
        ((32, 16, "up", 4, 64), "walk is 'up'"),
    ],
)
def test_staging_that_does_not_come_out_even_is_refused(arguments, says):
    with pytest.raises(LayoutError, match=says):
        Staging(*arguments)
