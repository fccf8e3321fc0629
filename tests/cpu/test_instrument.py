import numpy as np
import pytest
from numba import cuda, float32, int64

import refkit.cpu
from refkit.cpu import emulate
from refkit.cpu.instrument import access, size_of
from refkit.cpu.local_arrays import receivers

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


with emulate():

    @cuda.jit("int64(float32[::1], float32[::1], int64)", device=True)
    def fill_by_recursion(window, x, k):
        if k == 8:
            return k
        window[k] = x[k]
        return fill_by_recursion(window, x, k + 1)


@cuda.jit
def filled_by_recursion_kernel(x, y):
    window = cuda.local.array(8, float32)
    total = float32(0)
    for k in range(fill_by_recursion(window, x, int64(0))):
        total += window[k]
    y[0] = total


def test_a_local_array_that_a_recursive_function_fills_is_not_judged():
    """Who else writes an array whose address goes into a function that stays apart cannot be known."""
    x, y = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    with refkit.cpu.emulate(sanitize=("uninitialized",)):
        filled_by_recursion_kernel[1, 1](x, y)
    assert y[0] == 28


MODULE = """\
define void @kernel(ptr %rk.thread, ptr %x.4) {
entry:
  %_cudapy_lmem = alloca [8 x float], align 4
  %1 = getelementptr float, ptr %_cudapy_lmem, i64 2
  %2 = call i32 @outer(ptr %rk.thread, ptr %x.4, ptr nonnull %1)
  %3 = call i32 @global_only(ptr %rk.thread, ptr %x.4)
  ret void
}
define i32 @outer(ptr %rk.thread, ptr %x.4, ptr %a.4) {
entry:
  %1 = call i32 @inner(ptr %rk.thread, ptr %a.4)
  ret i32 %1
}
define i32 @inner(ptr %rk.thread, ptr %a.4) {
entry:
  ret i32 0
}
define i32 @global_only(ptr %rk.thread, ptr %a.4) {
entry:
  ret i32 0
}
"""


def test_functions_that_are_handed_a_local_array_are_found_at_any_depth():
    assert receivers(MODULE) == {"outer", "inner"}
    assert receivers(MODULE.replace("ptr nonnull %1", "ptr nonnull %x.4")) == set()
