"""Layouts: the strides they give, and that no two elements share an address unless they are meant to."""

import numpy as np
import pytest

from refkit.verify.layouts import LAYOUTS, broadcast_axes, constant_axes, makes_a_difference, place


@pytest.mark.parametrize(
    ("layout", "strides", "shift", "extent"),
    [
        ("contiguous", (48, 16, 4), 0, 96),
        ("offset", (48, 16, 4), 4, 96),
        ("transposed", (48, 4, 12), 0, 96),
        ("strided", (108, 36, 8), 0, 4 + 108 + 2 * 36 + 3 * 8),
    ],
)
def test_strides_of_a_small_array(layout, strides, shift, extent):
    placed = place((2, 3, 4), 4, layout)
    assert (placed.strides, placed.shift, placed.extent) == (strides, shift, extent)


def test_broadcast_axes_have_stride_zero():
    assert place((2, 3, 4), 4, "broadcast", broadcast=(0,)).strides == (0, 16, 4)
    assert place((2, 3, 4), 4, "broadcast", broadcast=(2,)).strides == (12, 4, 0)
    assert place((2, 3, 4), 4, "broadcast", broadcast=(0, 1, 2)).extent == 4


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (1, 5), (5, 1), (2, 3, 4)])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_elements_never_overlap(layout, shape, seed):
    rng = None if seed is None else np.random.default_rng(seed)
    placed = place(shape, 2, layout, rng=rng)
    offsets = np.zeros(shape, int)
    for axis, stride in enumerate(placed.strides):
        offsets += (np.arange(shape[axis]) * stride).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    assert len(np.unique(offsets)) == offsets.size
    assert (offsets % 2 == 0).all()
    assert offsets.max() + 2 == placed.extent


def test_strided_skips_elements_and_pads_rows():
    for seed in range(10):
        row, step = place((3, 5), 4, "strided", rng=np.random.default_rng(seed)).strides
        assert step in (8, 12)
        assert row > 5 * step


def test_empty_arrays_span_nothing():
    assert all(place((3, 0, 2), 4, layout).extent == 0 for layout in LAYOUTS)


def test_unknown_layout_is_named():
    with pytest.raises(ValueError, match="layout is 'diagonal'; expected one of contiguous"):
        place((2,), 4, "diagonal")


def test_layouts_that_make_no_difference():
    assert not makes_a_difference("transposed", 1)
    assert makes_a_difference("transposed", 2)
    assert not makes_a_difference("strided", 0)
    assert makes_a_difference("offset", 0)


def test_broadcast_axes_are_all_tried():
    seen = {broadcast_axes(3, np.random.default_rng(seed)) for seed in range(40)}
    assert seen == {(0,), (2,), (0, 1, 2)}
    assert broadcast_axes(0, np.random.default_rng(0)) == ()


def test_constant_axes_compares_bits():
    assert constant_axes(np.array([[1.0, 2.0], [1.0, 2.0]])) == (0,)
    assert constant_axes(np.array([[1.0, 1.0], [2.0, 2.0]])) == (1,)
    assert constant_axes(np.full((2, 2), np.nan)) == (0, 1)
    assert constant_axes(np.array([0.0, -0.0])) == ()
    assert constant_axes(np.array(3.0)) == ()
