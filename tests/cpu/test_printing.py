"""What kernels print: every type, in order, and no more than the queue holds."""

import re

import numpy as np
import pytest
from numba import cuda

from refkit.cpu import KernelException, emulate
from refkit.cpu.printing import PrintBuffer, format_record

pytestmark = pytest.mark.cpu


@cuda.jit
def greetings(x):
    i = cuda.grid(1)
    print("thread", i, "has", x[i], x[i] > 2, np.int8(-3), np.uint32(4_000_000_000))


def test_values_of_every_kind(capsys):
    with emulate():
        greetings[2, 2](np.array([1.5, 2.5, np.inf, -0.25]))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "thread 0 has 1.500000 False -3 4000000000",
        "thread 1 has 2.500000 True -3 4000000000",
        "thread 2 has inf True -3 4000000000",
        "thread 3 has -0.250000 False -3 4000000000",
    ]


@cuda.jit
def nothing_and_percent():
    print()
    print("100 %", 1, "%d")
    print((1, (2.5, 3)))


def test_empty_lines_percent_signs_and_tuples(capsys):
    with emulate():
        nothing_and_percent[1, 1]()
    assert capsys.readouterr().out == "\n100 % 1 %d\n(1, (2.500000, 3))\n"


@cuda.jit
def indices():
    print(cuda.threadIdx, cuda.blockDim, 1.5, cuda.blockIdx.x, -cuda.threadIdx.y)


def test_arguments_of_four_and_of_eight_bytes(capsys):
    with emulate():
        indices[1, (2, 2)]()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"({x}, {y}, 0) (2, 2, 1) 1.500000 0 {-y}" for y in (0, 1) for x in (0, 1)]


@cuda.jit
def before_and_after_a_barrier(out):
    i = cuda.threadIdx.x
    print("a", i)
    cuda.syncthreads()
    print("b", i)
    if i == 2:
        raise ValueError("stop")


def test_order_over_a_barrier_and_output_before_a_fault(capsys):
    with emulate(), pytest.raises(KernelException):
        before_and_after_a_barrier[1, 3](np.zeros(1))
    assert capsys.readouterr().out.split("\n")[:-1] == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]


@cuda.jit
def chatter(n):
    for k in range(n):
        print(cuda.grid(1), k)


def test_output_of_several_workers_is_whole(capsys):
    with emulate(workers=3):
        chatter[40, 50](3)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{i} {k}" for i in range(2000) for k in range(3))


def test_the_queue_is_as_large_as_it_is(capsys):
    with emulate():
        chatter[1, 1](50_000)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 0"
    assert lines[-2] == f"0 {len(lines) - 2}"
    held = PrintBuffer().capacity // 32  # a record of two arguments has four words
    assert len(lines) - 1 == held
    assert re.match(rf"\[{(50_000 - held) * 32} bytes of .* queue of {held * 32} bytes\]", lines[-1])


@pytest.mark.parametrize(
    ("template", "words", "text"),
    [
        ("%d|%5d|%-5d|%05d", [-1, 42, 42, 42], "-1|   42|42   |00042"),
        ("%u %x %llu %lld", [2**63 - 1, 255, -1, -1], "9223372036854775807 ff 18446744073709551615 -1"),
        ("%hhd %i%%", [7, 8], "7 8%"),
        ("%c%c", [104, 105], "hi"),
        ("%f %.2e %G", [np.float64(v).view(np.int64) for v in (1.5, 12345.0, 1e-7)], "1.500000 1.23e+04 1E-07"),
        ("%p", [4096], "0x1000"),
        ("plain", [], "plain"),
    ],
)
def test_printf_conversions(template, words, text):
    assert format_record(template, [int(word) for word in words]) == text
