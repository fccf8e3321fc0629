"""Inline PTX in kernels on the executor: a collective of a program's own, and an instruction that nobody knows."""

import numpy as np
import pytest
from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

import refkit.cpu
from refkit.cpu import ptx
from refkit.cpu.ptx import registry
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import address_of, words_type
from refkit.cpu.tensor_core.numbers import LANES, registers_of

I32 = ir.IntType(32)


def _assembly(name, text):
    def typing(typingctx, x):
        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(I32, [I32])
            return builder.call(ir.InlineAsm(kind, text, "=r,r", side_effect=True), arguments)

        return types.uint32(types.uint32), generate

    typing.__name__ = name
    return intrinsic(typing)


prefix_sum = _assembly("prefix_sum", "prefixsum.warp.u32 $0, $1;")
mystery = _assembly("mystery", "mystery.warp.b32 $0, $1;")


def serve_prefix_sum(first, unused):
    lanes = address_of(first)
    total = 0
    for lane in range(LANES):
        registers = registers_of(lanes, lane)
        total += registers[0]
        registers[1] = total


@cuda.jit
def sums(x):
    i = cuda.grid(1)
    x[i] = prefix_sum(x[i])


@cuda.jit
def unknown(x):
    i = cuda.grid(1)
    x[i] = mystery(x[i])


@pytest.mark.cpu
@pytest.mark.parametrize("schedule", [None, 7])
def test_a_program_can_add_an_instruction_of_the_whole_warp(monkeypatch, schedule):
    monkeypatch.setattr(registry, "_TABLE", list(registry._TABLE))
    library = Library("prefix sum", (("test.prefix_sum", serve_prefix_sum, types.void, (words_type, words_type)),))

    @ptx.register(r"prefixsum\.warp\.u32")
    def _prefix_sum(frame, instruction):
        x = frame.read(instruction.operands[1], I32)
        (total,) = frame.collective(library, "test.prefix_sum", [x], [I32])
        frame.write(instruction.operands[0], total)

    x = np.random.default_rng(0).integers(0, 1000, 128).astype(np.uint32)
    wanted = x.reshape(4, 32).cumsum(axis=1).ravel()
    with refkit.cpu.emulate(schedule=schedule):
        sums[2, 64](x)
    assert np.array_equal(x, wanted)


@pytest.mark.cpu
def test_an_unknown_instruction_is_named_with_its_line():
    with refkit.cpu.emulate(), pytest.raises(refkit.cpu.Unsupported, match=r"mystery\.warp\.b32 \$0, \$1") as caught:
        unknown[1, 32](np.zeros(32, np.uint32))
    assert caught.value.line == unknown.py_func.__code__.co_firstlineno + 3
    assert caught.value.file == __file__
