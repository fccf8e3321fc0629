"""Kernel arguments of every type reach the kernel as they are."""

import enum
from collections import namedtuple

import numpy as np
import pytest
from numba import cuda

from refkit.cpu import emulate

pytestmark = pytest.mark.cpu

Point = namedtuple("Point", ["x", "y"])
Line = namedtuple("Line", ["start", "end"])


class Colour(enum.IntEnum):
    RED = 3
    BLUE = -5


@cuda.jit
def store(value, out):
    out[0] = value


INTEGERS = [
    (dtype, value)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    for value in (np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1)
]


@pytest.mark.parametrize(("dtype", "value"), INTEGERS, ids=[f"{dtype}={value}" for dtype, value in INTEGERS])
def test_integers(dtype, value):
    out = np.zeros(1, dtype)
    with emulate():
        store[1, 1](np.dtype(dtype).type(value), out)
    assert out[0] == value


@pytest.mark.parametrize("value", [0, -1, 2**31, -(2**63), 2**63 - 1, 2**64 - 1])
def test_python_integers(value):
    out = np.zeros(1, np.uint64 if value >= 2**63 else np.int64)
    with emulate():
        store[1, 1](value, out)
    assert out[0] == value


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 6e-8])
def test_floats(dtype, value):
    value = np.dtype(dtype).type(value)
    out = np.ones(1, dtype)
    with emulate():
        store[1, 1](value, out)
    assert out.tobytes() == value.tobytes()


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_booleans(value):
    out = np.full(1, 9, np.int32)
    with emulate():
        store[1, 1](value, out)
    assert out[0] == int(value)


@pytest.mark.parametrize("value", [3 - 4j, np.complex64(1.5 + 2j), np.complex128(-1j), complex(np.inf, -0.0)])
def test_complex_numbers(value):
    out = np.zeros(1, np.asarray(value).dtype)
    with emulate():
        store[1, 1](value, out)
    assert out.tobytes() == np.asarray(value).tobytes()


@cuda.jit
def nested(shape, pair, out):
    (a, b), c = pair
    out[0] = shape[0] * 1000 + shape[1]
    out[1] = a
    out[2] = b
    out[3] = c[0] + 10 * c[1]


@cuda.jit
def named(line, factor, out):
    out[0] = line.start.x + 10 * line.start.y
    out[1] = line.end.x * factor
    out[2] = line.end.y[1]


@cuda.jit
def empty_tuple(before, nothing, after, out):
    out[0] = before
    out[1] = after + len(nothing)


def test_tuples():
    with emulate():
        out = np.zeros(4)
        nested[1, 1]((3, 4), ((1.5, np.int8(-7)), (5, 6)), out)
        np.testing.assert_array_equal(out, [3004, 1.5, -7, 65])
        out = np.zeros(3)
        named[1, 1](Line(Point(1, 2.5), Point(np.float32(4), np.arange(3.0))), 0.5, out)
        np.testing.assert_array_equal(out, [26, 2, 1])
        for nothing in ((), ((), ())):
            out = np.zeros(2, np.int64)
            empty_tuple[1, 1](7, nothing, 9, out)
            np.testing.assert_array_equal(out, [7, 9 + len(nothing)])


def test_enumerations_and_dates():
    with emulate():
        out = np.zeros(1, np.int64)
        store[1, 1](Colour.BLUE, out)
        assert out[0] == -5
        for value in (np.datetime64("2024-02-29T12:00", "s"), np.timedelta64(-3, "D")):
            dates = np.zeros(1, value.dtype)
            store[1, 1](value, dates)
            assert dates[0] == value


record = np.dtype([("a", np.int16), ("b", np.float64), ("c", np.float32, (2, 2)), ("d", np.complex64)], align=True)


@cuda.jit
def change_record(r, out):
    out[0] = r.a
    out[1] = r.b
    out[2] = r.c[1, 0]
    out[3] = r.d.imag
    r.a = 99
    r.c[0, 1] = -1


def test_records():
    r = np.zeros(1, record)[0]
    r["a"], r["b"], r["c"], r["d"] = -3, 2.5, [[1, 2], [3, 4]], 1 - 8j
    out = np.zeros(4)
    with emulate():
        change_record[1, 1](r, out)
    np.testing.assert_array_equal(out, [-3, 2.5, 3, -8])
    assert (r["a"], r["c"][0, 1], r["c"][1, 1]) == (99, -1, 4)


@cuda.jit
def copy(x, out):
    for i in range(x.size):
        out[i] = x[i // x.shape[1], i % x.shape[1]]
    out[x.size] = x.size


@cuda.jit
def copy_vector(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i]
    out[x.size] = x.strides[0]


@pytest.mark.parametrize(
    "select",
    [
        lambda d: d,
        lambda d: d[::2],
        lambda d: d[::-1],
        lambda d: d[::-2, ::-1],
        lambda d: d[1:3, 2:],
        lambda d: d[:, ::3],
        lambda d: d[2:2],
        lambda d: d[:, 3:1],
    ],
    ids=["whole", "rows", "reversed", "reversed twice", "inner", "columns", "no rows", "no columns"],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_every_stride(select, order):
    base = np.asarray(np.arange(30, dtype=np.int16).reshape(5, 6), order=order)
    expected = select(base)
    out = np.zeros(expected.size + 1, np.int64)
    with emulate():
        copy[1, 1](select(cuda.to_device(base)), out)
    np.testing.assert_array_equal(out, [*expected.ravel(), expected.size])


def test_vectors_with_negative_strides_and_broadcasts():
    with emulate():
        d = cuda.to_device(np.arange(6, dtype=np.float32))
        out = np.zeros(7)
        copy_vector[1, 1](d[::-1], out)
        np.testing.assert_array_equal(out, [5, 4, 3, 2, 1, 0, -4])
        out = np.zeros(4)
        copy_vector[1, 1](np.broadcast_to(np.float32(3), (3,)), out)
        np.testing.assert_array_equal(out, [3, 3, 3, 0])


@cuda.jit
def scalar_array(x, out):
    out[0] = x[()]
    x[()] = 7


def test_arrays_without_dimensions():
    x, out = np.array(2.5), np.zeros(1)
    with emulate():
        scalar_array[1, 1](x, out)
    assert (x[()], out[0]) == (7, 2.5)


@cuda.jit
def many(a, x, b, y, c, z, d, out):
    out[0], out[1], out[2], out[3] = a, b, c, d
    out[4], out[5], out[6] = x[1], y[0, 1], z[0]


def test_many_arguments_of_different_widths():
    out = np.zeros(7)
    with emulate():
        many[1, 1](
            np.int8(-1),
            np.arange(3, dtype=np.uint8),
            True,
            np.ones((2, 2)) * 5,
            2.5,
            np.array([1j]).view(np.float64)[1:],
            -(2**40),
            out,
        )
    np.testing.assert_array_equal(out, [-1, 1, 2.5, -(2**40), 1, 5, 1])


def test_what_no_kernel_takes_is_refused_by_name():
    with emulate():
        for value, error in (("text", TypeError), (object(), TypeError), (None, NotImplementedError)):
            with pytest.raises((error, NotImplementedError), match="value"):
                store[1, 1](value, np.zeros(1))
