"""Barriers in inline assembly: `bar.sync`, `bar.arrive`, `bar.warp.sync` (PTX ISA 9.1, "Parallel Synchronization")."""

from __future__ import annotations

from contextlib import nullcontext

from numba.cuda import types

from refkit.cpu.device_library.build import I32, VOID
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime import named_barriers
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type

_i32 = types.int32
LIBRARY = Library(
    "named barriers",
    (
        ("rk.bar.sync", named_barriers.sync, types.void, (words_type, _i32, _i32, _i32)),
        ("rk.bar.arrive", named_barriers.arrive_only, types.void, (words_type, _i32, _i32, _i32)),
    ),
)


@register(r"(bar|barrier)(\.cta)?\.sync(\.aligned)?")
def _sync(frame: Frame, instruction: Instruction) -> None:
    number, *count = instruction.operands
    if not count and number.strip() != "0":
        raise UnknownInstruction(instruction.text, "a named barrier without a count")
    frame.needs_fiber = True
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        if not count:
            frame.device_call("nvvm.barrier0", VOID, frame.site)
        else:
            values = (frame.read(number, I32), frame.read(count[0], I32))
            frame.device_call("rk.bar.sync", VOID, frame.site, *values, library=LIBRARY)


@register(r"(bar|barrier)(\.cta)?\.arrive(\.aligned)?")
def _arrive(frame: Frame, instruction: Instruction) -> None:
    frame.needs_fiber = True
    values = [frame.read(operand, I32) for operand in instruction.operands[:2]]
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        frame.device_call("rk.bar.arrive", VOID, frame.site, *values, library=LIBRARY)


@register(r"bar\.warp\.sync")
def _warp_sync(frame: Frame, instruction: Instruction) -> None:
    frame.needs_fiber = True
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        frame.device_call("nvvm.bar.warp.sync", VOID, frame.site, frame.read(instruction.operands[0], I32))
