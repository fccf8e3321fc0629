"""Matrices of `wgmma` in shared memory, against the figures of the PTX ISA 9.1 and against strides without swizzle."""

from dataclasses import replace

import numpy as np
import pytest

from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS, LayoutError, SharedMatrix, StridedTile, Swizzle, shared_matrix


@pytest.mark.parametrize(("size", "bits", "shift"), [(128, 3, 0), (64, 2, 1), (32, 1, 2)])
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_k_contiguous_is_a_tile_of_lines_with_a_swizzle_of_the_row(size, bits, shift, element_bytes):
    """Piece p of row r lies in place of p ^ (r % 8), p ^ (r / 2 % 4), p ^ (r / 4 % 2)."""
    k = 32 // element_bytes
    whole = StridedTile(64, size // element_bytes, element_bytes, swizzle=Swizzle("row", bits=bits, shift=shift))
    row, column = np.indices((64, k))
    for step in range(size // 32):
        a = shared_matrix("A", 64, k, element_bytes, swizzle_bytes=size, step=step)
        assert np.array_equal(a.offset(row, column), whole.offset(row, column + step * k))
        b = shared_matrix("B", 64, k, element_bytes, swizzle_bytes=size, step=step)
        assert np.array_equal(b.offset(column, row), a.offset(row, column))


@pytest.mark.parametrize(("size", "bits", "shift"), [(128, 3, 0), (64, 2, 1), (32, 1, 2)])
def test_n_contiguous_is_tiles_of_lines_with_a_swizzle_of_k(size, bits, shift):
    """Tiles of 16 lines of K, as wide as the swizzle, where the stride offset follows on from eight lines."""
    width = size // 2
    tile = StridedTile(16, width, 2, swizzle=Swizzle("row", bits=bits, shift=shift))
    matrix = SharedMatrix("B", 128, 16, 2, "mn", size, leading_bytes=tile.size_bytes, stride_bytes=8 * size)
    k, n = np.indices((16, 128))
    assert np.array_equal(matrix.offset(k, n), n // width * tile.size_bytes + tile.offset(k, n % width))


def test_without_a_swizzle_core_matrices_follow_by_the_two_offsets():
    along_k = SharedMatrix("A", 64, 16, 2, "k", 0, leading_bytes=160, stride_bytes=512)
    assert along_k.offset(8 * 3 + 5, 8 + 2) == 3 * 512 + 5 * 16 + 160 + 4
    across = SharedMatrix("A", 64, 16, 2, "mn", 0, leading_bytes=2048, stride_bytes=160)
    assert across.offset(8 * 3 + 5, 8 + 2) == 3 * 160 + 2 * 16 + 2048 + 10


def test_the_key_is_of_the_address():
    """A start inside of an atom moves with the lines, not with the rows."""
    matrix = SharedMatrix("A", 64, 16, 2, "k", 128, 16, 1024, start_bytes=128)
    assert matrix.offset(0, 0) == 128 + 16
    assert matrix.offset(7, 0) == 1024


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name.startswith("wgmma")])
def test_text_says_what_each_place_holds(name):
    matrix = LAYOUTS[name].b
    lines = matrix.to_text()
    assert len(lines) == matrix.size_bytes // 128
    per = 16 // matrix.element_bytes
    for row, column in ((0, 0), (matrix.rows - 1, matrix.columns - 1), (1, 7)):
        line, byte = divmod(int(matrix.offset(row, column)), 128)
        unit, rest = divmod(byte, 16)
        assert lines[line].split()[unit].split(";")[rest // matrix.element_bytes] == f"{row},{column}"
    held = sum(text.count(",") for text in lines)
    assert held == matrix.rows * matrix.columns
    assert all(unit == "-" or len(unit.split(";")) == per for text in lines for unit in text.split())


@pytest.mark.parametrize("size", [0, 32, 64, 128])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_the_descriptor_is_that_of_the_intrinsic(size, major):
    matrix = shared_matrix("B", 128, 16, 2, major=major, swizzle_bytes=size)
    field = {0: ptx.NO_SWIZZLE, 32: ptx.SWIZZLE_32B, 64: ptx.SWIZZLE_64B, 128: ptx.SWIZZLE_128B}[size]
    made = ptx.matrix_descriptor.py_func(3072, matrix.leading_bytes, matrix.stride_bytes, field)
    assert int(made) == matrix.descriptor + (3072 >> 4)


def test_elements_in_the_same_place_are_refused():
    with pytest.raises(LayoutError, match=r"elements \(0, 8\) and \(16, 0\) both lie at byte 256"):
        SharedMatrix("A", 64, 16, 2, "k", 0, leading_bytes=256, stride_bytes=128)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride_bytes": 1000}, "stride_bytes is 1000; expected a multiple of 16 below 262144"),
        ({"leading_bytes": 1 << 18}, "leading_bytes is 262144; expected a multiple of 16 below 262144"),
        ({"swizzle_bytes": 16}, "swizzle_bytes is 16; expected one of 0, 128, 64, 32"),
        ({"major": "m"}, "major is 'm'; expected one of 'k', 'mn'"),
        ({"element_bytes": 8}, "element_bytes is 8; expected one of 1, 2, 4"),
    ],
)
def test_what_a_descriptor_cannot_say_is_refused(change, message):
    with pytest.raises(LayoutError, match=message):
        replace(shared_matrix("A", 64, 16, 2), **change)


def test_mistakes_are_other_maps_with_a_name():
    matrix = shared_matrix("B", 128, 16, 2, major="mn", swizzle_bytes=64)
    variants = dict(matrix.variants())
    wide = replace(matrix, swizzle_bytes=128, leading_bytes=1024, stride_bytes=2048)
    assert np.array_equal(variants["has leading and stride offsets exchanged"], replace(
        matrix, leading_bytes=matrix.stride_bytes, stride_bytes=matrix.leading_bytes
    ).offsets)  # fmt: skip
    assert "uses the 128-byte swizzle" in dict(matrix.variants())
    assert np.array_equal(dict(wide.variants())["uses no swizzle"].min(), 0)
    assert all(not np.array_equal(offsets, matrix.offsets) for offsets in variants.values())
