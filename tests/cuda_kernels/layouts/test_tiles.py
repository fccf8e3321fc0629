"""Tiles put every element somewhere of its own; swizzles are checked with them."""

import numpy as np
import pytest

from refkit.cuda_kernels.layouts import LAYOUTS, LaneMajorTile, LayoutError, StridedTile, Swizzle

A = LAYOUTS["mma.m16n8k8.tf32"].a


def test_rows_or_columns_side_by_side():
    assert StridedTile(8, 16, 4).offset(3, 5) == (3 * 16 + 5) * 4
    assert StridedTile(8, 16, 4, contiguous="row").offset(3, 5) == (5 * 8 + 3) * 4
    assert StridedTile(8, 16, 2, stride_bytes=48).offset(3, 5) == 3 * 48 + 10


def test_a_swizzle_moves_whole_chunks_and_is_its_own_inverse():
    swizzle = Swizzle("row", bits=3)
    tile = StridedTile(16, 64, 2, swizzle=swizzle)
    assert tile.offset(5, 16) == 5 * 128 + (2 ^ 5) * 16
    assert tile.offset(5, 19) - tile.offset(5, 16) == 6
    for row in range(8):
        assert [swizzle.place(swizzle.place(chunk, row, 0), row, 0) for chunk in range(8)] == list(range(8))
    assert Swizzle("column", bits=2, shift=3).key(0, 8 * 7 + 5) == 3
    assert Swizzle("column", bits=2, shift=3, lift=1).key(0, 8 * 7 + 5) == 6
    assert Swizzle("column", bits=2, shift=3, also=Swizzle("row", bits=1)).key(5, 8 * 7 + 5) == 3 ^ 1


def test_a_fragment_lies_lane_after_lane():
    tile = LaneMajorTile(32, 16, A)
    lane, register = 6, 3  # (9, 6)
    assert tile.offset(16 + 9, 8 + 6) == (3 * 32 + lane) * 16 + register * 4
    keyed = LaneMajorTile(32, 16, A, Swizzle("column", shift=3))
    assert keyed.offset(16 + 9, 8 + 6) == (3 * 32 + (lane ^ 1)) * 16 + register * 4


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StridedTile(8, 16, 4, stride_bytes=32), "outside of the tile|another one"),
        (lambda: StridedTile(8, 12, 4, swizzle=Swizzle("row")), "outside of the tile|another one"),
        (lambda: StridedTile(8, 64, 2, swizzle=Swizzle("column")), r"takes the 16 bytes with element \(0, 0\) apart"),
        (lambda: LaneMajorTile(24, 8, A), "not a grid of fragments of 16 x 8"),
        (lambda: LaneMajorTile(32, 16, A, Swizzle("row", bits=6)), "with element .* apart"),
        (lambda: LaneMajorTile(32, 16, A, Swizzle("column", shift=0)), "another one|apart"),
        (lambda: Swizzle("diagonal"), "expected 'row' or 'column'"),
        (lambda: Swizzle("row", bits=-1), "none may be negative"),
        (lambda: StridedTile(8, 8, 4, contiguous="both"), "expected 'row' or 'column'"),
    ],
)
def test_tiles_that_are_not_one_to_one_are_refused(make, says):
    with pytest.raises(LayoutError, match=says):
        make()


def test_every_byte_is_used_once():
    tile = LaneMajorTile(64, 32, A, Swizzle("row", shift=4))
    rows, columns = np.indices((64, 32))
    assert np.array_equal(np.sort(np.asarray(tile.offset(rows, columns)).ravel()), np.arange(64 * 32) * 4)
