"""`mbarrier` (PTX ISA 9.1, "Parallel Synchronization and Communication Instructions"); see `runtime/mbarrier.py`."""

from __future__ import annotations

from contextlib import nullcontext

from llvmlite import ir
from numba.cuda import types

from refkit.cpu.device_library.build import I32, I64, VOID, constant
from refkit.cpu.ptx.frame import Frame, reinterpret
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime import mbarrier
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type

_i32, _i64 = types.int32, types.int64
_AT = (words_type, _i32, _i64)
LIBRARY = Library(
    "mbarrier",
    (
        ("rk.mbarrier.init", mbarrier.init, types.void, (*_AT, _i64)),
        ("rk.mbarrier.inval", mbarrier.invalidate, types.void, _AT),
        ("rk.mbarrier.arrive", mbarrier.arrive, types.void, (*_AT, _i64)),
        ("rk.mbarrier.expect", mbarrier.expect_bytes, types.void, (*_AT, _i64)),
        ("rk.mbarrier.arrive.expect", mbarrier.arrive_expecting, types.void, (*_AT, _i64)),
        ("rk.mbarrier.try_wait", mbarrier.try_wait, _i32, (*_AT, _i64)),
        ("rk.mbarrier.test_wait", mbarrier.test_wait, _i32, (*_AT, _i64)),
        ("rk.mbarrier.fence_init", mbarrier.fence_init, types.void, (words_type,)),
    ),
)
_SPACE = r"\.shared(::cta)?"


def _call(frame: Frame, name: str, result: ir.Type, operand: str, *values: ir.Value) -> ir.Value:
    frame.needs_fiber = True
    address = reinterpret(frame.b, frame.address(operand), I64)
    return frame.device_call(name, result, frame.site, address, *values, library=LIBRARY)


def _effect(frame: Frame, name: str, operand: str, *counts: str) -> None:
    values = [frame.b.zext(frame.read(count, I32), I64) for count in counts]
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        _call(frame, name, VOID, operand, *values)


@register(rf"mbarrier\.init{_SPACE}\.b64")
def _init(frame: Frame, instruction: Instruction) -> None:
    _effect(frame, "rk.mbarrier.init", instruction.operands[0], instruction.operands[1])


@register(rf"mbarrier\.inval{_SPACE}\.b64")
def _inval(frame: Frame, instruction: Instruction) -> None:
    _effect(frame, "rk.mbarrier.inval", instruction.operands[0])


@register(rf"mbarrier\.arrive(\.release)?(\.cta)?{_SPACE}\.b64")
def _arrive(frame: Frame, instruction: Instruction) -> None:
    token, barrier, *count = instruction.operands
    if token != "_":
        raise UnknownInstruction(instruction.text, "a state as result; only waits by parity are known")
    _effect(frame, "rk.mbarrier.arrive", barrier, *(count or ["1"]))


@register(rf"mbarrier\.arrive\.expect_tx(\.release)?(\.cta)?{_SPACE}\.b64")
def _arrive_expecting(frame: Frame, instruction: Instruction) -> None:
    token, barrier, size = instruction.operands
    if token != "_":
        raise UnknownInstruction(instruction.text, "a state as result; only waits by parity are known")
    _effect(frame, "rk.mbarrier.arrive.expect", barrier, size)


@register(rf"mbarrier\.expect_tx(\.relaxed)?(\.cta)?{_SPACE}\.b64")
def _expect(frame: Frame, instruction: Instruction) -> None:
    _effect(frame, "rk.mbarrier.expect", *instruction.operands)


@register(rf"mbarrier\.(try|test)_wait\.parity(\.acquire)?(\.cta)?{_SPACE}\.b64")
def _wait(frame: Frame, instruction: Instruction) -> None:
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a wait under a predicate")
    b = frame.b
    result, barrier, parity, *_ = instruction.operands  # a time limit changes no value
    kind = instruction.parts[1]
    ended = _call(frame, f"rk.mbarrier.{kind}", I32, barrier, b.zext(frame.read(parity, I32), I64))
    frame.write(result, b.icmp_unsigned("!=", ended, constant(I32, 0)))


@register(r"fence\.mbarrier_init\.release\.cluster")
def _fence_init(frame: Frame, instruction: Instruction) -> None:
    frame.device_call("rk.mbarrier.fence_init", VOID, library=LIBRARY)
