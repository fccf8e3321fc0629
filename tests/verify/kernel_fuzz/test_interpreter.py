"""The interpreter on programs whose results are known by hand."""

import numpy as np
import pytest

from refkit.verify.kernel_fuzz import arguments
from refkit.verify.kernel_fuzz.interpreter import interpret
from refkit.verify.kernel_fuzz.interpreter.expressions import Evaluator
from refkit.verify.kernel_fuzz.search import draw_programs
from refkit.verify.kernel_fuzz.tree import (
    FLOAT_LIMIT,
    Accumulate,
    Arithmetic,
    Array,
    Assign,
    Atomic,
    Break,
    Cast,
    Comparison,
    Continue,
    Division,
    Element,
    Exchange,
    For,
    If,
    Kind,
    Match,
    Name,
    Number,
    OwnAtomic,
    Program,
    Shift,
    Shuffle,
    Split,
    Ticket,
    Unary,
    Vote,
)

LANE = Name("lane", Kind.INT32)
TID = Name("tid", Kind.INT32)
V = Name("v", Kind.INT32)
FLAG = Name("flag", Kind.BOOLEAN)


def number(value, kind=Kind.INT32):
    return Number(value, kind)


def outputs_of(body, output=V, block=(32,), grid=(1,), arrays=(), leave=None):
    """What each thread writes after `body`, with v = lane and flag = False before it."""
    start = ((V, Arithmetic("+", LANE, number(0), Kind.INT32)), (FLAG, Comparison("<", LANE, number(0))))
    program = Program(grid, block, 0, (), tuple(arrays), start, tuple(body), (output,), leave)
    return interpret(program)[: program.threads * program.blocks]


def value_of(expression):
    return int(outputs_of([], expression, block=(1,))[0])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Arithmetic("+", number(2**31 - 1), number(1), Kind.INT32), -(2**31)),
        (Arithmetic("+", number(2**31 - 1), number(1), Kind.INT64), 2**31),
        (Arithmetic("-", number(0, Kind.UINT32), number(1), Kind.UINT32), 2**32 - 1),
        (Arithmetic("*", number(2**62, Kind.INT64), number(2), Kind.INT64), -(2**63)),
        (Division("//", number(-7), number(0), 1, Kind.INT32), -4),
        (Division("%", number(-7), number(1), 1, Kind.INT32), 2),
        (Division("%", number(7), number(1), -1, Kind.INT32), -2),
        (Shift("<<", number(1), number(33), Kind.INT64), 2),
        (Shift("<<", number(1, Kind.INT64), number(33), Kind.INT64), 2**33),
        (Shift(">>", number(-8), number(1), Kind.INT32), -4),
        (Shift(">>", number(2**31, Kind.UINT32), number(31), Kind.UINT32), 1),
        (Unary("popc", number(-1), Kind.INT32), 32),
        (Unary("clz", number(0, Kind.INT64), Kind.INT32), 64),
        (Unary("clz", number(1), Kind.INT32), 31),
        (Unary("ffs", number(0), Kind.INT32), 0),
        (Unary("ffs", number(8), Kind.INT32), 4),
        (Unary("brev", number(1, Kind.UINT32), Kind.UINT32), 2**31),
        (Unary("brev", number(6, Kind.INT64), Kind.INT64), 0b011 << 61),
    ],
)
def test_expressions_wrap_and_round_as_documented(expression, expected):
    assert value_of(expression) == expected


@pytest.mark.parametrize(
    ("mode", "operand", "expected"),
    [
        ("idx", 5, [5] * 32),
        ("up", 3, [0, 1, 2, *range(29)]),
        ("down", 30, [30, 31, *range(2, 32)]),
        ("xor", 1, [lane ^ 1 for lane in range(32)]),
        ("up", 33, [0, *range(31)]),
    ],
)
def test_shuffles_read_the_lane_that_ptx_names(mode, operand, expected):
    assert outputs_of([Shuffle(V, mode, LANE, number(operand), "everyone")]).tolist() == expected


def test_a_split_votes_and_shuffles_among_each_side_alone():
    low = Comparison("<", LANE, number(10))
    first = (Shuffle(V, "last", LANE, number(0), "a"),)
    second = (Vote(V, "ballot", Comparison("==", LANE, number(31)), "b"),)
    got = outputs_of([Split("everyone", low, "side", "a", "b", first, second)])
    assert got.tolist() == [9] * 10 + [-(2**31)] * 22


def test_matches_group_lanes_by_value():
    low_bit = Arithmetic("&", LANE, number(1), Kind.INT32)
    some = outputs_of([Match(V, None, low_bit, "everyone")])
    assert some.tolist() == [0x55555555, 0xAAAAAAAA - 2**32] * 16
    assert outputs_of([Match(V, FLAG, low_bit, "everyone")]).tolist() == [0] * 32
    assert outputs_of([Match(V, FLAG, number(4), "everyone")], FLAG).tolist() == [1] * 32


def test_loops_are_left_and_continued_thread_by_thread():
    i = Name("i", Kind.INT32)
    skip = If(Comparison("==", i, number(1)), (Continue(),))
    leave = If(Comparison("==", i, LANE), (Break(),))
    add = Assign(V, Arithmetic("+", V, number(100), Kind.INT32))
    got = outputs_of([For(i, 0, number(4), 1, (skip, leave, add))])
    # Lane 1 skips turn 1 before it could leave there.
    turns = [0, 3, 1, 2, *[3] * 28]
    assert got.tolist() == [lane + 100 * turns[lane] for lane in range(32)]


def test_an_exchange_counts_votes_and_shows_other_threads_values():
    slots = Array("slots", Kind.INT32, (40,), "shared")
    read = Assign(V, Element(slots, (Arithmetic("+", TID, number(1), Kind.INT32),)))
    body = Exchange(slots, "reverse", 0, "block", TID, (read,), "count", Comparison("<", TID, number(7)), V)
    assert outputs_of([body], block=(40,), arrays=(slots,)).tolist() == [
        (39 - (thread + 1) % 40) for thread in range(40)
    ]
    counted = Exchange(slots, "own", 0, "block", TID, (), "count", Comparison("<", TID, number(7)), V)
    assert outputs_of([counted], block=(40,), grid=(2,), arrays=(slots,)).tolist() == [7] * 80


def test_accumulation_is_per_block():
    total = Array("total", Kind.INT32, (1,), "shared")
    update = Atomic(total, "add", number(0), TID)
    read = Assign(V, Element(total, (number(0),)))
    got = outputs_of([Accumulate(total, 5, (update,), (read,))], block=(4,), grid=(3,), arrays=(total,))
    assert got.tolist() == [5 + 0 + 1 + 2 + 3] * 12


def test_atomics_return_what_they_found():
    own = arguments.OWN[2]
    target = Name("w", Kind.UINT32)
    steps = [
        OwnAtomic(target, own, "dec", number(9, Kind.UINT32)),
        OwnAtomic(target, own, "inc", number(9, Kind.UINT32)),
    ]
    assert outputs_of(steps[:1], target).tolist() == [0] * 32
    # dec of 0 gives the limit, and inc finds it.
    assert outputs_of(steps, target).tolist() == [9] * 32


def test_tickets_add_up_whoever_draws_them():
    program = Program(
        (1,), (8,), 0, (), (), (), (Ticket(arguments.TICKETS, arguments.TICKET_TOTALS, number(2), 3, 1),), (LANE,)
    )
    got = interpret(program)
    totals = got[-4:]
    assert totals.tolist() == [0, 0, sum((t + 1) * (3 * t + 1) for t in range(8)), 0]
    assert arguments.locate(len(got) - 2, 8, 1) == "ticket_totals[2]"


def test_threads_that_leave_write_only_what_was_kept():
    got = outputs_of([], block=(4,), leave=Comparison(">", LANE, number(1)))
    assert got.tolist() == [0, 1, arguments.UNTOUCHED, arguments.UNTOUCHED]


def test_float32_values_are_integers_that_float32_holds(monkeypatch):
    evaluate, largest = Evaluator.__call__, []

    def checked(self, node):
        value = evaluate(self, node)
        # A conversion of any integer may be rounded: it is compared and nothing else.
        if node.kind is Kind.FLOAT32 and not isinstance(node, Cast):
            assert np.array_equal(value, np.rint(value))
            largest.append(np.abs(value).max())
        return value

    monkeypatch.setattr(Evaluator, "__call__", checked)
    for program in draw_programs(250, seed=17):
        interpret(program)
    assert FLOAT_LIMIT < max(largest) <= 2**24
