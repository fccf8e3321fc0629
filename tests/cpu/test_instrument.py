import numpy as np
import pytest
from numba import cuda, float32

import refkit.cpu
from refkit.cpu.instrument import access, size_of

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(
    ("line", "found", "size"),
    [
        ("  store { float, i64 } %.5, ptr %.ret, align 8", ("write", "{ float, i64 }", "%.ret"), 12),
        ("  store {float, i64} %.5, ptr %.ret, align 8, !dbg !1", ("write", "{float, i64}", "%.ret"), 12),
        ("  store [2 x float] %.5, ptr %.ret, align 4", ("write", "[2 x float]", "%.ret"), 8),
        ("  store [2 x [3 x i8]] zeroinitializer, ptr %a", ("write", "[2 x [3 x i8]]", "%a"), 6),
        ("  store [2 x i8] [i8 1, i8 2], ptr %a", ("write", "[2 x i8]", "%a"), 2),
        ("  store <4 x float> %v, ptr %a, align 16", ("write", "<4 x float>", "%a"), 16),
        ("  store i32 7, ptr %a, align 4", ("write", "i32", "%a"), 4),
        ("  %.7 = load { float, i64 }, ptr %pair, align 8", ("read", "{ float, i64 }", "%pair"), 12),
        ("  %.7 = load volatile float, ptr %a", ("read", "float", "%a"), 4),
    ],
)
def test_the_type_of_an_access_is_read_whole(line, found, size):
    assert access(line) == found
    assert size_of(found[1]) == size


@cuda.jit(device=True)
def value_and_place(x, i):
    return x[i], i + 1  # float32 and int64: a struct, not an array


@cuda.jit
def through_a_struct_kernel(x, y):
    value, place = value_and_place(x, cuda.threadIdx.x)
    y[cuda.threadIdx.x] = value + float32(place)


def test_a_device_function_that_returns_different_types_runs_under_the_sanitizers():
    x, y = np.arange(5, dtype=np.float32) / 4, np.zeros(5, np.float32)
    with refkit.cpu.emulate(sanitize=("race", "memory", "uninitialized", "barrier")):
        through_a_struct_kernel[1, 5](x, y)
    np.testing.assert_array_equal(y, x + np.arange(1, 6))
