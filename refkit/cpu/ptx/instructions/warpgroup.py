"""What specialised warps need: `setmaxnreg` and `elect.sync` (PTX ISA 9.1)."""

from __future__ import annotations

from llvmlite import ir
from numba.cuda import types

from refkit.cpu.device_library.build import I1, I32, I64, POINTER, VOID, constant
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime import warpgroups
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type

_i32, _i64 = types.int32, types.int64
NOTHING = "rk.warpgroup.nothing"
LIBRARY = Library(
    "warpgroup operations",
    (
        ("rk.warpgroup", warpgroups.together, types.void, (words_type, _i32, _i64, _i64)),
        (NOTHING, warpgroups.nothing, types.void, (words_type, words_type)),
    ),
)


@register(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32")
def _set_registers(frame: Frame, instruction: Instruction) -> None:
    """Registers are not counted here: what is left is that the whole warpgroup comes."""
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a predicate on an instruction of the whole warpgroup")
    frame.needs_fiber = True
    function = ir.Function(frame.b.module, ir.FunctionType(VOID, [POINTER, POINTER]), NOTHING)
    handler = frame.b.ptrtoint(function, I64)
    frame.device_call("rk.warpgroup", VOID, frame.site, handler, constant(I64, 0), library=LIBRARY)


@register(r"elect\.sync")
def _elect(frame: Frame, instruction: Instruction) -> None:
    """The lowest lane of those that came is elected, once all lanes of the mask have come."""
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a predicate on an instruction of the whole warp")
    b = frame.b
    targets, mask = instruction.operands
    lane_target, _, predicate = targets.partition("|")
    frame.needs_fiber = True
    ballot_mode = constant(I32, 3)
    packed = frame.device_call("rk.vote", I64, frame.site, frame.read(mask, I32), ballot_mode, constant(I32, 1))
    ballot = b.trunc(packed, I32)
    elected = b.cttz(ballot, constant(I1, 0))
    frame.write(lane_target, elected)
    frame.write(predicate, b.icmp_unsigned("==", elected, frame.device_call("rk.lane", I32)))
