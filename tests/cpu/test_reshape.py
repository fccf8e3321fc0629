"""The strides of reshaped arrays, against NumPy."""

import itertools

import numpy as np
import pytest

from refkit.cpu.runtime.reshape import reshape_strides

BASE = np.arange(2 * 3 * 2 * 4, dtype=np.int16).reshape(2, 3, 2, 4)
SOURCES = {
    "whole": BASE,
    "reversed": BASE[:, :, ::-1, :],
    "all reversed": BASE[::-1, ::-1, ::-1, ::-1],
    "one of three": BASE[:, 1:2],
    "part of the last axis": BASE[:, :, :, :2],
    "transposed": BASE.transpose(0, 1, 3, 2),
    "Fortran": np.asfortranarray(BASE),
    "broadcast": np.broadcast_to(BASE[:, :1, :, :1], (2, 3, 2, 4)),
    "with ones": BASE[:, None, :, :, :, None],
    "vector": BASE.ravel()[::3],
    "scalar": BASE[0, 0, 0, 0:1].reshape(()),
    "empty": BASE[1:1],
}


def shapes(size: int) -> list[tuple[int, ...]]:
    """Every shape of up to four axes with this many elements, and some with axes of one."""
    lengths = [n for n in range(1, size + 1) if size % n == 0] if size else [0, 1, 3]
    found = [(), *(shape for n in (1, 2, 3, 4) for shape in itertools.product(lengths, repeat=n))]
    return [shape for shape in found if int(np.prod(shape)) == size]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", SOURCES)
def test_a_view_where_numpy_makes_one_and_a_refusal_where_it_copies(name, order):
    x = SOURCES[name]
    views = 0
    for shape in shapes(x.size):
        strides = [None] * len(shape)
        made = reshape_strides(
            None, x.ndim, x.shape, x.strides, len(shape), shape, strides, x.itemsize, int(order == "F")
        )
        expected = x.reshape(shape, order=order)
        is_view = x.size == 0 or np.shares_memory(expected, x)
        assert bool(made) == is_view, (shape, strides)
        if made and x.size:
            view = np.lib.stride_tricks.as_strided(x, shape, strides)
            np.testing.assert_array_equal(view, expected)
            views += 1
    assert views or x.size == 0


def test_another_number_of_elements_is_refused():
    for shape in ((47,), (7, 7), (0,), (48, 2)):
        assert reshape_strides(None, 4, BASE.shape, BASE.strides, len(shape), shape, [0, 0], 2, 0) == 0
