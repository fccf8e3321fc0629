"""Kernels at fault: each ends in one error that names what, which threads and where; none hangs or ends the process."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from llvmlite import ir
from numba import cuda, float32, float64, int32, int64, types
from numba.cuda.extending import intrinsic

from refkit.cpu import Deadlock, KernelException, NoProgress, Unsupported, emulate
from refkit.cpu.faults import kernel_exception_class

pytestmark = pytest.mark.cpu

FILE = os.path.abspath(__file__)


def line_of(kernel, text: str) -> int:
    """The line of a kernel that holds a piece of text."""
    function = getattr(kernel, "py_func", kernel)
    with open(FILE) as file:
        lines = file.read().splitlines()
    first = function.__code__.co_firstlineno
    return next(number for number in range(first, len(lines) + 1) if text in lines[number - 1])


# --- exceptions ------------------------------------------------------------------------------------------------------


@cuda.jit
def raising(x, limit):
    i = cuda.grid(1)
    if x[i] > limit:
        raise ValueError("too large")
    x[i] = -1


@cuda.jit
def indexing_a_tuple(out, k):
    values = (10, 20, 30)
    out[0] = values[k]


@cuda.jit(device=True)
def checked(x):
    if x < 0:
        raise RuntimeError("negative")
    return x * 2


@cuda.jit(device=True)
def checked_twice(x):
    if x > 1000:
        raise OverflowError("huge")
    return checked(x)


@cuda.jit
def raising_in_functions(x):
    i = cuda.grid(1)
    if x[i] == 77:
        raise KeyError("seventy-seven")
    x[i] = checked_twice(x[i])


def test_a_raise_names_exception_thread_and_line():
    x = np.zeros(3 * 64)
    x[32 + 5] = 5
    with emulate(), pytest.raises(KernelException) as caught:
        raising[3, (32, 2)](x, 1.0)
    fault = caught.value
    assert isinstance(fault.exception, ValueError)
    assert str(fault.exception) == "too large"
    assert fault.thread in (((1, 0, 0), (5, 0, 0)), ((1, 0, 0), (5, 1, 0)))
    assert (fault.kernel, fault.file) == ("raising", FILE)
    assert fault.line == line_of(raising, "raise ValueError")
    assert "ValueError: too large" in str(fault)


class Refused(Exception):
    """An exception with a constructor of its own."""

    def __init__(self, value, limit=3):
        self.value, self.limit = value, limit


@cuda.jit
def raising_what_is_asked(kind):
    if kind == 0:
        raise ZeroDivisionError("zero")
    if kind == 1:
        raise OSError(5, "input or output")
    if kind == 2:
        raise Refused(7)
    if kind == 3:
        raise KeyError("key")


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [(0, ZeroDivisionError, "zero"), (1, OSError, "input or output"), (2, Refused, "Refused"), (3, KeyError, "'key'")],
)
def test_a_raise_is_caught_as_the_exception_that_the_kernel_names(number, kind, text):
    with emulate(), pytest.raises(kind) as caught:
        raising_what_is_asked[1, 1](number)
    fault = caught.value
    assert isinstance(fault, KernelException)
    assert type(fault.exception) is kind
    assert text in str(fault)
    assert fault.kernel == "raising_what_is_asked"
    again = pickle.loads(pickle.dumps(fault))
    assert isinstance(again, kind)
    assert isinstance(again, KernelException)
    assert (str(again), again.thread) == (str(fault), fault.thread)


def test_a_class_that_cannot_be_a_base_is_left_out():
    class Final(Exception):
        def __init_subclass__(cls):
            raise TypeError("final")

    assert kernel_exception_class(Final) is KernelException
    assert kernel_exception_class(type(None)) is KernelException


def test_only_the_raising_thread_stops():
    x = np.arange(64.0)
    with emulate():
        d = cuda.to_device(x)
        with pytest.raises(KernelException):
            raising[2, 32](d, 62.0)
        np.testing.assert_array_equal(d.copy_to_host(), np.where(x > 62, x, -1))


def test_without_always_raise_such_a_thread_just_returns():
    x = np.arange(64.0)
    with emulate(always_raise=False):
        raising[2, 32](x, 62.0)
    np.testing.assert_array_equal(x, np.where(np.arange(64) > 62, 63, -1))


def test_a_debug_kernel_raises_whatever_the_settings():
    kernel = cuda.jit(raising.py_func, debug=True, opt=False)
    with emulate(always_raise=False), pytest.raises(KernelException, match="too large"):
        kernel[1, 32](np.full(32, 9.0), 1.0)


def test_division_by_zero_raises_in_debug_kernels_alone():
    def divide(x, y):
        y[0] = x[0] / y[0]

    with emulate():
        y = np.zeros(1)
        cuda.jit(divide)[1, 1](np.ones(1), y)
        assert y[0] == np.inf
        with pytest.raises(KernelException, match="ZeroDivisionError"):
            cuda.jit(divide, debug=True, opt=False)[1, 1](np.ones(1), np.zeros(1))


ASSERTING = """
from numba import cuda

@cuda.jit
def asserting(x):
    i = cuda.grid(1)
    assert x[i] < 100, "below 100"
"""


def test_a_failed_assert():
    namespace = {}
    exec(ASSERTING, namespace)  # pytest rewrites the asserts of its own modules
    asserting = namespace["asserting"]
    with emulate(), pytest.raises(KernelException, match=r"AssertionError.*below 100"):
        asserting[1, 32](np.arange(90, 122))


def test_an_index_error_of_a_tuple():
    with emulate():
        out = np.zeros(1, np.int64)
        indexing_a_tuple[1, 1](out, 2)
        assert out[0] == 30
        with pytest.raises(KernelException, match="IndexError"):
            indexing_a_tuple[1, 1](out, 3)


@pytest.mark.parametrize(
    ("value", "exception", "where", "text"),
    [
        (-1, RuntimeError, checked, "raise RuntimeError"),
        (5000, OverflowError, checked_twice, "raise OverflowError"),
        (77, KeyError, raising_in_functions, "raise KeyError"),
    ],
)
def test_exceptions_of_device_functions_are_told_apart(value, exception, where, text):
    x = np.ones(32, np.int64)
    x[7] = value
    with emulate(), pytest.raises(KernelException) as caught:
        raising_in_functions[1, 32](x)
    assert type(caught.value.exception) is exception
    assert caught.value.thread == ((0, 0, 0), (7, 0, 0))
    assert caught.value.line == line_of(where, text)


def test_a_fault_survives_pickling():
    with emulate(), pytest.raises(KernelException) as caught:
        raising[1, 32](np.full(32, 9.0), 1.0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line, again.thread) == (str(caught.value), caught.value.line, caught.value.thread)


# --- loops that do not end -------------------------------------------------------------------------------------------


@cuda.jit
def for_ever(out):
    i = 0
    while i >= 0:
        i = (i * 7 + 1) % 1000
    out[0] = i


@cuda.jit
def for_ever_with_atomics(out):
    while cuda.atomic.add(out, 0, 1) >= 0:
        cuda.atomic.exch(out, 0, 5)


@cuda.jit
def for_ever_with_a_barrier(out):
    while out[0] == 0:
        cuda.syncthreads()


@cuda.jit
def for_ever_with_a_warp_operation(out):
    while cuda.any_sync(0xFFFFFFFF, out[0] == 0):
        pass


@cuda.jit
def for_ever_nested(out):
    for i in range(1000):
        k = i
        while k != 5000:
            k = (k + 2) % 4001
        out[0] = k


@cuda.jit
def for_ever_in_one_thread(out):
    """The other threads wait at a barrier for one that loops."""
    if cuda.threadIdx.x == 40:
        k = 1
        while k > 0:
            k = k % 13 + 1
    cuda.syncthreads()
    out[0] = 1


@cuda.jit
def lock_never_released(out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:
        pass


@cuda.jit
def flag_never_set(out):
    while out[0] == 0:
        pass


@cuda.jit
def far_too_long(out):
    """Counts towards a bound, and so has no poll, but would take centuries."""
    total = 0
    for i in range(out[0]):
        total ^= i * i
    out[1] = total


@cuda.jit
def far_too_long_by_fibers(out):
    cuda.syncthreads()
    total = 0
    for i in range(out[0] + cuda.threadIdx.x):
        total ^= i * i
    out[1 + cuda.threadIdx.x] = total


LOOPS = [
    (for_ever, "while i"),
    (for_ever_with_atomics, "while cuda"),
    (for_ever_with_a_barrier, "cuda.syncthreads"),
    (for_ever_with_a_warp_operation, "while cuda"),
    (for_ever_nested, "while k"),
    (for_ever_in_one_thread, "while k"),
    (lock_never_released, "while cuda"),
    (flag_never_set, "while out"),
]


@pytest.mark.parametrize("settings", [{}, {"workers": 2}, {"schedule": 1}], ids=["plain", "workers", "schedule"])
@pytest.mark.parametrize(("kernel", "text"), LOOPS, ids=[kernel.py_func.__name__ for kernel, _ in LOOPS])
def test_an_endless_loop_ends_at_the_time_limit_and_names_its_line(kernel, text, settings):
    begin = time.monotonic()
    with emulate(timeout=0.3, **settings), pytest.raises(NoProgress, match=r"did not end within 0\.3 s") as caught:
        kernel[2, 64](np.zeros(2, np.int32))
    assert time.monotonic() - begin < 15  # compilation included
    assert caught.value.kernel == kernel.py_func.__name__
    assert caught.value.file == FILE
    line = line_of(kernel, text)
    assert any(f"test_faults.py:{number}" in str(caught.value) for number in range(line, line + 3)), str(caught.value)


@pytest.mark.parametrize("kernel", [far_too_long, far_too_long_by_fibers])
def test_a_loop_without_polls_is_stopped_too(kernel):
    out = np.zeros(65, np.int64)
    out[0] = 1 << 61
    with emulate(timeout=0.3):
        for _ in range(2):
            begin = time.monotonic()
            with pytest.raises(NoProgress, match=r"did not end within 0\.3 s"):
                kernel[1, 64](out)
        assert time.monotonic() - begin < 5
        out[0] = 10  # and the executor still works
        kernel[1, 64](out)
    expected = 0
    for i in range(10):
        expected ^= i * i
    assert out[1] == expected


def test_an_exception_before_an_endless_wait_is_what_is_reported():
    @cuda.jit
    def kernel(out):
        if cuda.threadIdx.x == 0:
            raise ValueError("first")
        while out[0] == 0:
            pass

    begin = time.monotonic()
    with emulate(), pytest.raises(KernelException, match="first"):
        kernel[1, 32](np.zeros(1, np.int32))
    assert time.monotonic() - begin < 30  # far below the time limit


def test_a_deadlock_is_reported_while_another_worker_still_loops():
    @cuda.jit
    def kernel(out):
        if cuda.blockIdx.x == 0:
            if cuda.threadIdx.x == 0:
                cuda.syncwarp(0x3)
            else:
                cuda.syncthreads()
        else:
            k = 1
            while k > 0:
                k = k % 7 + 1
                out[1] = k

    begin = time.monotonic()
    with emulate(workers=2), pytest.raises(Deadlock):
        kernel[2, 32](np.zeros(2, np.int32))
    assert time.monotonic() - begin < 30


# --- deadlocks -------------------------------------------------------------------------------------------------------


@cuda.jit
def divergent_barrier(out):
    if cuda.threadIdx.x < 3:
        cuda.syncthreads()
    else:
        cuda.syncwarp(0xFFFFFFFF)
    out[0] = 1


@cuda.jit
def half_a_grid_barrier(out):
    if cuda.blockIdx.x != 2:
        cuda.cg.this_grid().sync()
    else:
        cuda.syncthreads()
        while cuda.threadIdx.x < 2:
            cuda.syncwarp(0x3 << 1)
    out[0] = 1


def test_a_deadlock_names_threads_and_lines():
    begin = time.monotonic()
    with emulate(), pytest.raises(Deadlock) as caught:
        divergent_barrier[(2, 2), (8, 4)](np.zeros(1, np.int32))
    assert time.monotonic() - begin < 15
    fault = caught.value
    barrier, warp = line_of(divergent_barrier, "syncthreads()"), line_of(divergent_barrier, "syncwarp")
    assert f"wait at a block barrier at test_faults.py:{barrier}" in str(fault)
    assert f"wait at a warp operation at test_faults.py:{warp} with mask 0xffffffff" in str(fault)
    assert (fault.kernel, fault.file) == ("divergent_barrier", FILE)
    assert fault.line in (barrier, warp)
    assert len(fault.threads) == 32
    at_barrier = {thread for _, thread, where in fault.threads if "barrier" in where}
    assert at_barrier == {(x, y, 0) for x in range(3) for y in range(4)}


@cuda.jit(device=True)
def wait_in_function():
    cuda.syncthreads()


@cuda.jit
def divergent_barrier_in_function(out):
    if cuda.threadIdx.x < 3:
        wait_in_function()
    else:
        cuda.syncwarp(0xFFFFFFFF)
    out[0] = 1


def test_a_wait_in_a_device_function_has_that_functions_line():
    with emulate(), pytest.raises(Deadlock) as caught:
        divergent_barrier_in_function[1, 8](np.zeros(1, np.int32))
    line = line_of(wait_in_function, "cuda.syncthreads")
    first = "3 threads (first: block (0, 0, 0), thread (0, 0, 0))"
    assert f"{first} wait at a block barrier at test_faults.py:{line}" in str(caught.value)


def test_a_block_that_misses_a_grid_barrier():
    with emulate(), pytest.raises(Deadlock) as caught:
        half_a_grid_barrier[4, 16](np.zeros(1, np.int32))
    grid = [block for block, _, where in caught.value.threads if "grid barrier" in where]
    assert sorted(set(grid)) == [(0, 0, 0), (1, 0, 0), (3, 0, 0)]


# --- stacks ----------------------------------------------------------------------------------------------------------


@cuda.jit
def large_local_array(x, out):
    local = cuda.local.array(16_000, float64)
    i = cuda.threadIdx.x
    for k in range(local.size):
        local[k] = k * x[i]
    cuda.syncthreads()
    total = 0.0
    for k in range(0, local.size, 1000):
        total += local[(k * 7 + i) % local.size]
    out[i] = total


@pytest.mark.parametrize("schedule", [None, 0])
def test_large_local_arrays(schedule):
    x, out = np.arange(64.0), np.zeros(64)
    with emulate(schedule=schedule):
        large_local_array[1, 64](x, out)
    k = np.arange(0, 16_000, 1000)
    np.testing.assert_array_equal(out, [((k * 7 + i) % 16_000 * x[i]).sum() for i in range(64)])


with emulate():

    @cuda.jit("int64(int64)", device=True)
    def factorial(n):
        if n <= 1:
            return 1
        return n * factorial(n - 1)


@cuda.jit
def factorials(out):
    i = cuda.threadIdx.x
    out[i] = factorial(i)


with emulate():

    @cuda.jit("int64(int64, int64[::1])", device=True)
    def depth(n, x):
        if n == 0:
            return x[0]
        local = cuda.local.array(32, int64)
        for k in range(32):
            local[k] = n + k
        return depth(n - 1, x) + local[n % 32] - local[(n + 1) % 32]


@cuda.jit
def deep(x, out, wait):
    if wait:
        cuda.syncthreads()
    out[cuda.threadIdx.x] = depth(x[1], x)


def test_recursion():
    out = np.zeros(21, np.int64)
    with emulate():
        factorials[1, 21](out)
    assert out[20] == 2432902008176640000
    assert out[5] == 120


@pytest.mark.parametrize("wait", [False, True])
def test_recursion_that_goes_too_deep_is_an_error_and_not_the_end_of_the_process(wait):
    out = np.zeros(32, np.int64)
    with emulate():
        deep[1, 32](np.array([3, 200]), out, wait)
        assert out[0] != 0
        with pytest.raises(KernelException, match=r"RecursionError.*stack") as caught:
            deep[1, 32](np.array([3, 1 << 40]), out, wait)
        assert caught.value.file == FILE
        assert line_of(depth, "def depth") <= caught.value.line <= line_of(depth, "return depth")
        deep[1, 32](np.array([3, 100]), out, wait)  # and the executor still works


# --- what has no meaning here ----------------------------------------------------------------------------------------


@intrinsic
def unknown_instruction(typingctx, x):
    def codegen(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        return builder.call(ir.InlineAsm(kind, "frobnicate.u32 $0, $1;", "=r,r"), arguments)

    return types.int32(types.int32), codegen


@cuda.jit
def with_unknown_instruction(out):
    value = int32(out[0])
    out[0] = unknown_instruction(value)


def test_unknown_inline_assembly_is_named_with_its_line():
    with emulate(), pytest.raises(Unsupported, match=r"frobnicate\.u32") as caught:
        with_unknown_instruction[1, 1](np.zeros(1, np.int32))
    assert caught.value.kernel == "with_unknown_instruction"
    assert caught.value.location == f"{FILE}:{line_of(with_unknown_instruction, 'unknown_instruction(value)')}"


foreign = cuda.declare_device(
    "foreign",
    "float32(float32)",
    link=cuda.CUSource('extern "C" __device__ int foreign(float *r, float x) { return 0; }'),
)


@cuda.jit
def with_foreign_code(out):
    out[0] = foreign(out[0])


def test_linked_foreign_code_is_refused():
    with emulate(), pytest.raises(Unsupported, match="linked device code") as caught:
        with_foreign_code[1, 1](np.zeros(1, np.float32))
    assert caught.value.kernel == "with_foreign_code"
    assert caught.value.location == f"{FILE}:{with_foreign_code.py_func.__code__.co_firstlineno}"


undefined = cuda.declare_device("undefined_elsewhere", "float32(float32)")


@cuda.jit
def with_undefined_function(out):
    out[0] = undefined(float32(out[0]))


def test_a_declared_function_that_nobody_defines():
    with emulate(), pytest.raises(Unsupported, match="undefined_elsewhere") as caught:
        with_undefined_function[1, 1](np.zeros(1, np.float32))
    assert caught.value.kernel == "with_undefined_function"


# --- interrupts ------------------------------------------------------------------------------------------------------

INTERRUPTED = """
    import sys, threading, time
    import numpy as np
    from numba import cuda
    from refkit.cpu import emulate

    @cuda.jit
    def kernel(out):
        {body}

    with emulate():
        kernel[4, 64](np.full(64, 1, np.int64), {argument})  # compiled
        print("ready", flush=True)
        try:
            kernel[4, 64](np.zeros(64, np.int64), {argument})
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        out = np.full(64, 1, np.int64)
        kernel[4, 64](out, {argument})
        print("works", out[0], flush=True)
"""


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("out, n", "while out[0] == 0:\n            pass"),
        ("out, n", "while out[0] == 0:\n            cuda.syncthreads()"),
        ("out, n", "for k in range((1 - out[0]) << 60):\n            out[1] ^= k * k"),
    ],
    ids=["loop", "barrier", "no poll"],
)
def test_ctrl_c_ends_a_launch_within_a_second(signature, body):
    program = textwrap.dedent(INTERRUPTED).replace("def kernel(out)", f"def kernel({signature})")
    program = program.replace("{body}", textwrap.dedent(body).replace("            ", "        ")).replace(
        "{argument}", "1"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < 1.5
        assert process.stdout.readline() == "works 1\n"
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.stdout.close()
