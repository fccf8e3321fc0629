"""Fragments are one-to-one by construction; what they say can be asked, changed and written down."""

import numpy as np
import pytest

from refkit.cuda_kernels.layouts import LayoutError, Place, from_arrays, from_bits, from_text

TF32_A = from_bits("c0 c1 r0 r1 r2", "r3 c2", element_bits=32)
HALF_A = from_bits("c1 c2 r0 r1 r2", "r3 c3", "c0", element_bits=16)


def test_bits_say_who_holds_what():
    """a0 (g, t), a1 (g + 8, t), a2 (g, t + 4), a3 (g + 8, t + 4): lane 6 has g = 1, t = 2."""
    assert [TF32_A.element(Place(6, i)) for i in range(4)] == [(1, 2), (9, 2), (1, 6), (9, 6)]
    assert HALF_A.element(Place(6, 2, 1)) == (1, 13)
    assert (HALF_A.rows, HALF_A.columns, HALF_A.registers, HALF_A.parts) == (16, 16, 4, 2)


def test_the_holder_of_an_element_is_the_inverse():
    for fragment in (TF32_A, HALF_A):
        for place in fragment.all_places():
            assert fragment.holder(*fragment.element(place)) == place
    with pytest.raises(LayoutError, match=r"\(16, 0\) is outside of 16 x 8"):
        TF32_A.holder(16, 0)


@pytest.mark.parametrize("bits", [("c0 c1 r0 r1 r1", "r3 c2"), ("c0 c1 r0 r1 r2", "r4 c2"), ("c0 c1 r0 r1 r2", "c0")])
def test_bits_that_do_not_name_each_bit_once_are_refused(bits):
    with pytest.raises(LayoutError, match="expected each of"):
        from_bits(*bits, element_bits=32)


def _arrays():
    return TF32_A.row_of.copy(), TF32_A.column_of.copy()


def test_two_holders_of_one_element_are_refused_by_name():
    row, column = _arrays()
    row[7, 1] = row[7, 0]
    with pytest.raises(LayoutError, match=r"\(1, 3\) is held by lane 7 register 0 and by lane 7 register 1"):
        from_arrays(row, column, 32, 32)


def test_an_element_without_a_holder_is_refused():
    row, column = _arrays()
    row[3, 3] = 16
    with pytest.raises(LayoutError, match="128 places for 17 x 8 elements"):
        from_arrays(row, column, 32, 32)


def test_lanes_that_are_missing_or_differ_in_size_are_refused():
    row, column = _arrays()
    with pytest.raises(LayoutError, match="32 lanes, got 16"):
        from_arrays(row[:16], column[:16], 32, 32)
    with pytest.raises(LayoutError, match="registers of 2 parts"):
        from_arrays(row, column, 16, 32)


def test_exchanging_registers_and_transposing():
    swapped = TF32_A.exchanged(1, 2)
    assert swapped != TF32_A
    assert swapped.exchanged(1, 2) == TF32_A
    assert swapped.element(Place(0, 1)) == (0, 4)
    turned = TF32_A.transposed()
    assert (turned.rows, turned.columns) == (8, 16)
    assert turned.element(Place(6, 3)) == (6, 9)


def test_copies_side_by_side_add_registers():
    wide = TF32_A.repeated(rows=2, columns=3)
    assert (wide.rows, wide.columns, wide.registers) == (32, 24, 24)
    assert wide.element(Place(6, 4 * 5 + 1)) == (9 + 16, 2 + 16)  # copy (1, 2)


def test_text_and_back():
    for fragment in (TF32_A, HALF_A):
        assert from_text(fragment.to_text(), fragment.element_bits, fragment.register_bits) == fragment
    assert HALF_A.to_text()[6].split()[0] == "1,4;1,5"


def test_a_fragment_cannot_be_changed():
    with pytest.raises(AttributeError):
        TF32_A.rows = 8
    assert isinstance(TF32_A.elements, tuple)
    assert np.array_equal(TF32_A.row_of[6, :, 0], [1, 9, 1, 9])
