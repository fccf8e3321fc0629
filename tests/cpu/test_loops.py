"""How loops end, on IR text written by hand; and which loops of real kernels get a poll."""

import textwrap

import pytest
from numba import cuda, float32, int32, types

from refkit.cpu import lowering
from refkit.cpu.control_flow import Function, parts
from refkit.cpu.loops import Ending, ending

pytestmark = pytest.mark.cpu


def only_loop(body: str) -> Ending | None:
    function = Function(textwrap.dedent(body).strip("\n").splitlines())
    (loop,) = function.loops()
    return ending(function, loop)


def counting(start: str, step: str, test: str) -> str:
    """A loop whose counter `i` starts and steps as given and that goes on while `test`, which may use %i and %next."""
    return f"""
entry:
  %b = call i32 @nvvm.read.ptx.sreg.ntid.x(ptr %rk.thread)
  %stride = zext i32 %b to i64
  %twice = shl i64 %stride, 1
  br label %loop

loop:
  %i = phi i64 [ {start}, %entry ], [ %next, %loop ]
  %v = load i64, ptr %p, align 8
  %next = {step}
  %go = {test}
  br i1 %go, label %loop, label %exit

exit:
  ret void
"""


@pytest.mark.parametrize(
    ("start", "step", "test", "turns"),
    [
        ("0", "add i64 %i, 1", "icmp slt i64 %next, 10", 12),
        ("0", "add nuw nsw i64 %i, 3", "icmp ult i64 %i, 10", 5),
        ("10", "add i64 %i, -1", "icmp sgt i64 %next, 0", 12),
        ("10", "sub i64 %i, 2", "icmp samesign ugt i64 %i, 2", 6),
        ("0", "add i64 %i, 2", "icmp ne i64 %next, 10", 5),
        ("8", "add i64 %i, -1", "icmp ne i64 %next, 0", 8),
        ("0", "add i64 %i, 1", "icmp sgt i64 10, %next", 12),
    ],
)
def test_constant_loops_have_a_number_of_turns(start, step, test, turns):
    """The number is at most two too large: the test may stand before or after the body."""
    found = only_loop(counting(start, step, test))
    assert found is not None
    assert found.turns in (turns, turns - 1)


@pytest.mark.parametrize(
    ("start", "step", "test"),
    [
        ("0", "add i64 %i, 1", "icmp slt i64 %next, %n"),
        ("%n", "add i64 %i, -1", "icmp sgt i64 %i, 0"),
        ("%tid", "add i64 %i, %stride", "icmp slt i64 %next, %n"),
        ("%tid", "add i64 %twice, %i", "icmp ult i64 %next, %n"),
        ("0", "add i64 %i, 1", "icmp sgt i64 %n, %next"),
    ],
)
def test_loops_towards_a_bound_end(start, step, test):
    assert only_loop(counting(start, step, test)) == Ending(None)


@pytest.mark.parametrize(
    ("start", "step", "test"),
    [
        ("0", "add i64 %i, 0", "icmp slt i64 %next, %n"),  # stands still
        ("0", "add i64 %i, -1", "icmp slt i64 %next, %n"),  # steps away
        ("0", "add i64 %i, %m", "icmp slt i64 %next, %n"),  # a step that may be 0
        ("0", "add i64 %i, %v", "icmp slt i64 %next, %n"),  # a step from memory
        ("0", "mul i64 %i, 2", "icmp slt i64 %next, %n"),  # 0 stays 0
        ("0", "add i64 %i, 1", "icmp slt i64 %next, %v"),  # the bound is read from memory on each turn
        ("0", "add i64 %i, 1", "icmp ne i64 %next, %n"),  # n may be below the start
        ("0", "add i64 %i, 2", "icmp ne i64 %next, 5"),  # steps over the bound
        ("0", "add i64 %i, 1", "icmp eq i64 %v, 0"),  # a flag in memory
        ("0", "add i64 %i, 1", "fcmp olt double %x, 1.0"),
    ],
)
def test_other_loops_may_not_end(start, step, test):
    assert only_loop(counting(start, step, test)) is None


def two_tests(first: str, second: str, combined: str, targets: str) -> str:
    return f"""
entry:
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %v = load i64, ptr %p, align 8
  %next = add i64 %i, 1
  %a = {first}
  %b = {second}
  %c = {combined}
  br i1 %c, {targets}

exit:
  ret void
"""


GO, STOP = "label %loop, label %exit", "label %exit, label %loop"
COUNTER, FLAG = "icmp slt i64 %next, %n", "icmp eq i64 %v, 0"


def test_a_counter_joined_with_another_test():
    both = "select i1 %a, i1 %b, i1 false"
    either = "select i1 %a, i1 true, i1 %b"
    assert only_loop(two_tests(COUNTER, FLAG, both, GO)) == Ending(None)
    assert only_loop(two_tests(COUNTER, FLAG, "and i1 %b, %a", GO)) == Ending(None)
    assert only_loop(two_tests(COUNTER, FLAG, either, GO)) is None
    assert only_loop(two_tests("icmp sge i64 %next, %n", FLAG, either, STOP)) == Ending(None)
    assert only_loop(two_tests("icmp sge i64 %next, %n", FLAG, "and i1 %a, %b", STOP)) is None


def test_a_test_that_some_turns_skip_does_not_count():
    skipped = """
    entry:
      br label %loop

    loop:
      %i = phi i64 [ 0, %entry ], [ %next, %tested ], [ %i, %skip ]
      %v = load i64, ptr %p, align 8
      %some = icmp eq i64 %v, 0
      br i1 %some, label %skip, label %tested

    skip:
      br label %loop

    tested:
      %next = add i64 %i, 1
      %go = icmp slt i64 %next, 10
      br i1 %go, label %loop, label %exit

    exit:
      ret void
    """
    assert only_loop(skipped) is None


def test_natural_loops_and_what_every_turn_passes():
    nested = """
    entry:
      br label %outer

    outer:
      br label %inner

    inner:
      br i1 %x, label %inner, label %side

    side:
      br i1 %y, label %left, label %right

    left:
      br label %latch

    right:
      br label %latch

    latch:
      br i1 %z, label %outer, label %exit

    exit:
      ret void
    """
    function = Function(textwrap.dedent(nested).strip("\n").splitlines())
    loops = {loop.header: loop for loop in function.loops()}
    assert loops.keys() == {"outer", "inner"}
    assert loops["inner"].body == {"inner"}
    outer = loops["outer"]
    assert outer.body == {"outer", "inner", "side", "left", "right", "latch"}
    assert outer.latches == ("latch",)
    assert function.every_turn(outer, {"side"})
    assert function.every_turn(outer, {"left", "right"})
    assert not function.every_turn(outer, {"left"})
    assert not function.every_turn(outer, set())


def test_parts_give_the_text_back():
    text = "a = 1\ndefine void @f() {\n  ret void\n}\n\ndefine void @g() {\nx:\n  ret void\n}\n; end"
    again = [line for define, body in parts(text) for line in ([define, *body] if define else body)]
    assert "\n".join(again) == text


# --- real kernels: what they poll ------------------------------------------------------------------------------------


def counted(x, out):
    total = float32(0)
    for k in range(x.size):
        total += x[k]
    out[cuda.grid(1)] = total


def tiles(x, out):
    local = cuda.local.array(8, float32)
    for k in range(8):
        local[k] = x[k]
    for j in range(8):
        for k in range(8):
            out[j] += local[k] * local[j]


def grid_stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i]


def grid_stride_while(x, out):
    i = cuda.grid(1)
    while i < x.size:
        cuda.atomic.add(out, 0, x[i])
        i += cuda.gridDim.x * cuda.blockDim.x


def reduction_tree(x, out):
    buffer = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    buffer[i] = x[i]
    step = 32
    while step > 0:
        cuda.syncthreads()
        if i < step:
            buffer[i] += buffer[i + step]
        step //= 2
    out[0] = buffer[0]


def barrier_on_some_turns(x, out):
    k = 0
    while x[k] > 0:
        if k == 7:
            cuda.syncthreads()
        k = int(x[k])
    out[0] = k


def nested_bounds(x, out):
    for i in range(x.size):
        for j in range(x.size):
            out[i] += x[j]


def bisection(x, out):
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < out[0]:
            low = middle + 1
        else:
            high = middle
    out[1] = low


def lock(x, out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:
        pass
    out[0] = 0


@cuda.jit(device=True)
def taken(out):
    return cuda.atomic.cas(out, 0, 0, 1) != 0


def lock_in_function(x, out):
    while taken(out):
        pass
    out[0] = 0


def flag(x, out):
    while x[0] == 0:
        pass
    out[0] = 1


def stepless(x, out):
    i = 0
    while i < x.size:
        i += int(x[0])
    out[0] = i


@pytest.mark.parametrize(
    ("function", "polls", "spins"),
    [
        (counted, 0, 0),
        (tiles, 0, 0),
        (grid_stride, 0, 0),
        (grid_stride_while, 0, 0),
        (reduction_tree, 0, 0),
        (barrier_on_some_turns, 1, 0),
        (nested_bounds, 1, 0),
        (bisection, 1, 0),
        (lock, 0, 1),
        (lock_in_function, 0, 1),
        (flag, 0, 1),
        (stepless, 1, 0),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_polls_of_real_kernels(function, polls, spins):
    kind = int32 if function in (lock, lock_in_function) else float32
    array = types.Array(kind, 1, "C")
    lowered = lowering.lower(function, (array, array))
    assert lowered.text.count("call void @rk.poll(") == polls
    assert lowered.text.count("call void @rk.spin(") == spins
    assert lowered.spins == (spins > 0)


def test_a_poll_knows_its_line():
    array = types.Array(float32, 1, "C")
    lowered = lowering.lower(stepless, (array, array))
    first = stepless.__code__.co_firstlineno
    assert any(
        file == stepless.__code__.co_filename and first < line <= first + 4 for file, line in lowered.translation.sites
    )


def test_a_short_loop_over_a_local_array_is_unrolled_in_full():
    array = types.Array(float32, 1, "C")
    assert lowering.lower(tiles, (array, array)).text.count("!llvm.loop") >= 3
    assert lowering.lower(counted, (array, array)).text.count("!llvm.loop") == 0
