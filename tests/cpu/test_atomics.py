"""Every atomic of numba-cuda, on shared and global memory: the result, the old value returned, and no update lost."""

import numpy as np
import pytest
from numba import cuda, float32

from refkit.cpu import emulate

pytestmark = pytest.mark.cpu

INTEGERS = ["int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64"]


@cuda.jit(device=True)
def atomic_add(target, i, value):
    return cuda.atomic.add(target, i, value)


@cuda.jit(device=True)
def atomic_sub(target, i, value):
    return cuda.atomic.sub(target, i, value)


@cuda.jit(device=True)
def atomic_and(target, i, value):
    return cuda.atomic.and_(target, i, value)


@cuda.jit(device=True)
def atomic_or(target, i, value):
    return cuda.atomic.or_(target, i, value)


@cuda.jit(device=True)
def atomic_xor(target, i, value):
    return cuda.atomic.xor(target, i, value)


@cuda.jit(device=True)
def atomic_max(target, i, value):
    return cuda.atomic.max(target, i, value)


@cuda.jit(device=True)
def atomic_min(target, i, value):
    return cuda.atomic.min(target, i, value)


@cuda.jit(device=True)
def atomic_nanmax(target, i, value):
    return cuda.atomic.nanmax(target, i, value)


@cuda.jit(device=True)
def atomic_nanmin(target, i, value):
    return cuda.atomic.nanmin(target, i, value)


@cuda.jit(device=True)
def atomic_exch(target, i, value):
    return cuda.atomic.exch(target, i, value)


@cuda.jit(device=True)
def atomic_inc(target, i, value):
    return cuda.atomic.inc(target, i, value)


@cuda.jit(device=True)
def atomic_dec(target, i, value):
    return cuda.atomic.dec(target, i, value)


def global_kernel(operation):
    @cuda.jit
    def kernel(target, values, old):
        i = cuda.grid(1)
        if i < values.size:
            old[i] = operation(target, i % target.size, values[i])

    return kernel


def shared_kernel(operation, dtype):
    @cuda.jit
    def kernel(target, values, old):
        cell = cuda.shared.array(3, dtype)
        i = cuda.threadIdx.x
        if i < target.size:
            cell[i] = target[i]
        cuda.syncthreads()
        if i < values.size:
            old[i] = operation(cell, i % target.size, values[i])
        cuda.syncthreads()
        if i < target.size:
            target[i] = cell[i]

    return kernel


OPERATIONS = {
    "add": (atomic_add, lambda a, b: a + b, INTEGERS + FLOATS),
    "sub": (atomic_sub, lambda a, b: a - b, ["int32", "int64", *FLOATS]),
    "and": (atomic_and, lambda a, b: a & b, INTEGERS),
    "or": (atomic_or, lambda a, b: a | b, INTEGERS),
    "xor": (atomic_xor, lambda a, b: a ^ b, INTEGERS),
    "max": (atomic_max, max, INTEGERS + FLOATS),
    "min": (atomic_min, min, INTEGERS + FLOATS),
    "nanmax": (atomic_nanmax, max, INTEGERS + FLOATS),
    "nanmin": (atomic_nanmin, min, INTEGERS + FLOATS),
    "exch": (atomic_exch, lambda a, b: b, INTEGERS),
    "inc": (atomic_inc, lambda a, b: a.dtype.type(0) if a >= b else a + a.dtype.type(1), ["uint32", "uint64"]),
    "dec": (atomic_dec, lambda a, b: b if a == 0 or a > b else a - a.dtype.type(1), ["uint32", "uint64"]),
}
CASES = [(name, dtype) for name, (_, _, dtypes) in OPERATIONS.items() for dtype in dtypes]


def operands(name: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Three cells and 70 values; in 64 bits beyond what 32 hold, floats exact under any order of addition."""
    rng = np.random.default_rng(7)
    if name in ("inc", "dec"):
        return np.array([0, 3, 2**32 - 1], dtype), np.full(70, 5, dtype)
    if dtype in FLOATS:
        return np.array([0.5, -8.0, 4.0], dtype), (rng.integers(-64, 64, 70) / 8).astype(dtype)
    low, high = (-(2**29), 2**29) if dtype.startswith("i") else (0, 2**30)
    scale = 2**31 if dtype.endswith("64") else 1
    return (rng.integers(low, high, 3) * scale).astype(dtype), (rng.integers(low, high, 70) * scale).astype(dtype)


@pytest.mark.parametrize("memory", ["global", "shared"])
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=[f"{name}-{dtype}" for name, dtype in CASES])
def test_result_and_old_values_are_those_of_some_order(name, dtype, memory):
    operation, model, _ = OPERATIONS[name]
    target, values = operands(name, dtype)
    expected, expected_old = target.copy(), np.zeros_like(values)
    with np.errstate(over="ignore"):
        for i, value in enumerate(values):  # threads of one block run in order without a schedule
            expected_old[i] = expected[i % 3]
            expected[i % 3] = model(expected[i % 3], value)
    kernel = global_kernel(operation) if memory == "global" else shared_kernel(operation, np.dtype(dtype))
    old = np.zeros_like(values)
    with emulate():
        kernel[1, 96](target, values, old)
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(old, expected_old)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "start", "value", "result"),
    [
        ("max", 1.0, np.nan, 1.0),
        ("min", 1.0, np.nan, 1.0),
        ("nanmax", 1.0, np.nan, 1.0),
        ("nanmin", 1.0, np.nan, 1.0),
        ("nanmax", np.nan, 2.0, 2.0),
        ("nanmin", np.nan, 2.0, 2.0),
        ("max", -np.inf, -1e30, -1e30),
        ("min", np.inf, 1e30, 1e30),
        ("max", -0.0, -1.0, -0.0),
        ("min", 0.0, 1.0, 0.0),
        ("nanmax", -0.0, -1.0, -0.0),
        ("add", 1.0, np.nan, np.nan),
        ("add", np.inf, -np.inf, np.nan),
        ("add", -0.0, -0.0, -0.0),
        ("sub", -0.0, 0.0, -0.0),
    ],
)
def test_special_values(name, start, value, result, dtype):
    """NaN and signed zeros; expectations from numba-cuda's documentation of max, min, nanmax and nanmin."""
    target, old = np.array([start], dtype), np.full(1, 9, dtype)
    with emulate():
        global_kernel(OPERATIONS[name][0])[1, 1](target, np.array([value], dtype), old)
    np.testing.assert_array_equal(target, np.array([result], dtype))
    assert np.signbit(target[0]) == np.signbit(result) or np.isnan(result)
    np.testing.assert_array_equal(old, np.array([start], dtype))


@cuda.jit
def swap_if(target, expected, new, old):
    i = cuda.grid(1)
    if i < expected.size:
        old[i] = cuda.atomic.cas(target, i, expected[i], new[i])


@cuda.jit
def swap_first(target, expected, new, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.compare_and_swap(target[i:], expected[i], new[i])


@pytest.mark.parametrize("kernel", [swap_if, swap_first], ids=["cas", "compare_and_swap"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_compare_and_swap(kernel, dtype):
    target = np.array([1, 2, 3, 4], dtype)
    expected, new = np.array([1, 0, 3, 0], dtype), np.array([10, 20, 30, 40], dtype)
    old = np.zeros(4, dtype)
    with emulate():
        kernel[1, 4](target, expected, new, old)
    assert target.tolist() == [10, 2, 30, 4]
    assert old.tolist() == [1, 2, 3, 4]


@cuda.jit
def by_tuple(target, i, j):
    cuda.atomic.add(target, (i, j), 2.5)
    cuda.atomic.max(target, (j, i), 7.0)


def test_tuple_index_and_strided_array():
    base = np.zeros((6, 8))
    view = base[::2, ::-2]
    with emulate():
        d = cuda.to_device(base)
        by_tuple[1, 8](d[::2, ::-2], 2, 1)
        base[:] = d.copy_to_host()
    expected = np.zeros((3, 4))
    expected[2, 1], expected[1, 2] = 20, 7
    np.testing.assert_array_equal(view, expected)


@cuda.jit
def contended(counts, extremes, total):
    i = cuda.grid(1)
    cuda.atomic.add(counts, 0, 1)
    cuda.atomic.add(counts, 1 + i % 3, 1)
    cuda.atomic.max(extremes, 0, i)
    cuda.atomic.min(extremes, 1, -i)
    cuda.atomic.add(total, 0, float32(1.0))
    cuda.atomic.sub(total, 1, float32(0.5))


def test_no_update_is_lost_between_workers():
    counts, extremes, total = np.zeros(4, np.int64), np.zeros(2, np.int64), np.zeros(2, np.float32)
    n = 256 * 512
    with emulate(workers=4):
        contended[256, 512](counts, extremes, total)
    assert counts.tolist() == [n, *(len(range(r, n, 3)) for r in range(3))]
    assert extremes.tolist() == [n - 1, -(n - 1)]
    assert total.tolist() == [n, -n / 2]


@cuda.jit
def tickets(counter, taken):
    i = cuda.atomic.add(counter, 0, 1)
    taken[i] += 1


def test_returned_old_values_are_distinct_over_workers():
    counter, taken = np.zeros(1, np.int32), np.zeros(128 * 256, np.int32)
    with emulate(workers=4):
        tickets[128, 256](counter, taken)
    assert (taken == 1).all()


@cuda.jit
def spin_lock(lock, total, order):
    """The classic lock: correct under independent thread scheduling."""
    i = cuda.grid(1)
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            cuda.threadfence()
            order[total[0]] = i
            total[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


@pytest.mark.parametrize("settings", [{}, {"workers": 3}, {"schedule": 4}], ids=["plain", "workers", "schedule"])
def test_a_lock_excludes_and_ends(settings):
    lock, total, order = np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(96 * 4, -1, np.int32)
    with emulate(timeout=20, **settings):
        spin_lock[4, 96](lock, total, order)
    assert total[0] == 96 * 4
    np.testing.assert_array_equal(np.sort(order), np.arange(96 * 4))


@cuda.jit(device=True)
def acquire(lock):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()


@cuda.jit(device=True)
def try_acquire(lock):
    return cuda.atomic.cas(lock, 0, 0, 1) == 0


@cuda.jit(device=True)
def release(lock):
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def lock_in_functions(lock, total):
    acquire(lock)
    total[0] += 1
    release(lock)


@cuda.jit
def lock_tried_in_function(lock, total):
    while not try_acquire(lock):
        pass
    total[0] += 1
    release(lock)


@pytest.mark.parametrize("schedule", [None, 1])
@pytest.mark.parametrize("kernel", [lock_in_functions, lock_tried_in_function], ids=["acquire", "try"])
def test_a_lock_in_device_functions(kernel, schedule):
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int64)
    with emulate(timeout=20, schedule=schedule):
        kernel[8, 64](lock, total)
    assert total[0] == 512


@cuda.jit(device=True)
def unset(flags, i):
    return cuda.atomic.add(flags, i, 0) == 0


@cuda.jit
def wait_for_the_next_thread(flags, out):
    i = cuda.threadIdx.x
    if i + 1 < cuda.blockDim.x:
        while unset(flags, i + 1):
            pass
    out[i] = flags[0]
    cuda.atomic.exch(flags, i, 1)


@pytest.mark.parametrize("schedule", [None, 1])
def test_threads_wait_for_later_threads_in_a_device_function(schedule):
    flags, out = np.zeros(70, np.int32), np.full(70, -1, np.int32)
    with emulate(timeout=20, schedule=schedule):
        wait_for_the_next_thread[1, 70](flags, out)
    assert (flags == 1).all()
    assert (out == 0).all()  # thread 0 is the last to set its flag
