"""Slabs: elements survive, every write outside them shows, and whoever reads a guard or a poison can tell."""

import ml_dtypes
import numpy as np
import pytest

from refkit.verify.layouts import LAYOUTS
from refkit.verify.slabs import GUARD_BYTES, POISONS, Slab, aligned_bytes, guard_pattern, poison_pattern

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64]
SHAPES = [(), (1,), (7,), (3, 5), (1, 5), (2, 3, 4), (0,), (3, 0), (0, 3)]


def some_array(shape, dtype, layout):
    values = np.arange(1, 1 + int(np.prod(shape))).reshape(shape) % 7
    if layout == "broadcast" and shape:
        values = np.broadcast_to(values[:1], shape)
    return values.astype(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.uint8, np.int64])
def test_elements_come_back(layout, shape, dtype):
    array = some_array(shape, dtype, layout)
    slab = Slab.place(array, layout, np.random.default_rng(0))
    image = slab.image.copy()
    back = slab.elements(image)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)
    assert not slab.guard_violations(image)
    assert slab.unwritten(image).shape == shape
    assert slab.unwritten(image).all()


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 4), (3, 0)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_every_byte_is_either_an_element_or_a_guard(layout, shape, dtype):
    slab = Slab.poisoned(shape, dtype, layout, "nan", np.random.default_rng(1))
    image = ~slab.image
    violations = slab.guard_violations(image)
    elements = int(np.prod(shape)) * np.dtype(dtype).itemsize
    assert len(violations) == slab.nbytes - elements
    assert not slab.unwritten(image).any()
    assert violations.before == slab.offset
    assert violations.after == slab.nbytes - slab.offset - slab.extent
    assert violations.between == slab.extent - elements


@pytest.mark.parametrize(
    ("where", "said"), [(-1, "1 before the first"), (15, "1 past the last"), (20, "6 past the last")]
)
def test_a_single_stray_write_is_found_and_described(where, said):
    slab = Slab.poisoned((3, 5), np.float32)
    image = slab.image.copy()
    image[slab.offset + 4 * where + 2] ^= 1
    violations = slab.guard_violations(image)
    assert violations.elements.tolist() == [where]
    assert said in violations.describe()
    assert "1 item written" in violations.describe()


def test_a_write_between_strided_elements_is_found():
    slab = Slab.poisoned((3, 5), np.float32, "strided")
    image = slab.image.copy()
    image[slab.offset + 4] ^= 1
    violations = slab.guard_violations(image)
    assert (violations.before, violations.between, violations.after) == (0, 1, 0)
    assert "between the elements" in violations.describe()


def test_guards_are_wide_enough_for_a_whole_row():
    wide = Slab.poisoned((3, 1000), np.float32)
    assert wide.offset > 4000
    assert wide.nbytes - wide.offset - wide.extent > 4000
    small = Slab.poisoned((1,), np.float32)
    assert small.offset >= GUARD_BYTES
    assert small.nbytes - small.offset - small.extent >= GUARD_BYTES
    flat = Slab.poisoned((1000,), np.float32)
    assert flat.offset > 4000


def test_alignment_of_the_first_element():
    address = Slab.poisoned((9,), np.float32).image.ctypes.data
    assert address % 256 == 0
    assert Slab.poisoned((9,), np.float32).offset % 256 == 0
    assert Slab.poisoned((9,), np.float32, "offset").offset % 256 == 4
    assert Slab.poisoned((9,), np.float64, "offset").offset % 16 == 8
    assert aligned_bytes(10).ctypes.data % 256 == 0
    assert aligned_bytes(10).shape == (10,)


@pytest.mark.parametrize("dtype", FLOATS)
def test_reading_a_guard_gives_nan(dtype):
    slab = Slab.poisoned((3, 5), dtype, "strided")
    image = slab.image
    whole = image.view(dtype).astype(np.float64)
    assert np.isnan(whole).all()  # the poison is a NaN too
    assert np.isnan(guard_pattern(np.dtype(dtype)).view(dtype).astype(float)).all()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_guards_are_far_out(dtype):
    value = int(guard_pattern(np.dtype(dtype)).view(dtype)[0])
    assert abs(value) > np.iinfo(dtype).max // 4


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_poisons_and_guard_all_differ(dtype):
    patterns = [bytes(poison_pattern(np.dtype(dtype), poison)) for poison in POISONS]
    patterns.append(bytes(guard_pattern(np.dtype(dtype))))
    assert len(set(patterns)) == 3


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_poisons_are_a_nan_and_a_large_finite_value(dtype):
    nan, large = (Slab.poisoned((4,), dtype, "contiguous", poison) for poison in POISONS)
    assert np.isnan(nan.elements(nan.image).astype(float)).all()
    values = large.elements(large.image).astype(float)
    assert np.isfinite(values).all()
    assert (values >= float(ml_dtypes.finfo(dtype).max) / 1e9).all()
    assert (values > 400).all()


def test_unwritten_marks_exactly_what_kept_its_bits():
    slab = Slab.poisoned((3, 5), ml_dtypes.bfloat16, "strided")
    image = slab.image.copy()
    view = np.ndarray(slab.shape, slab.dtype, buffer=image, offset=slab.offset, strides=slab.strides)
    view[1, 2] = 0.0
    view[2, 4] = np.nan  # another NaN than the poison
    expected = np.ones((3, 5), bool)
    expected[1, 2] = expected[2, 4] = False
    assert np.array_equal(slab.unwritten(image), expected)
    assert not slab.guard_violations(image)


def test_elements_is_a_read_only_view():
    slab = Slab.place(np.zeros((2, 2), np.float32), "broadcast")
    assert slab.strides == (0, 0)
    with pytest.raises(ValueError, match="read-only"):
        slab.elements(slab.image)[0, 0] = 1


def test_broadcast_needs_values_that_repeat():
    with pytest.raises(ValueError, match="constant along some axis"):
        Slab.place(np.arange(6.0).reshape(2, 3), "broadcast")


def test_unknown_poison_is_named():
    with pytest.raises(ValueError, match="poison is 'zero'; expected one of nan, large"):
        poison_pattern(np.dtype(np.float32), "zero")
