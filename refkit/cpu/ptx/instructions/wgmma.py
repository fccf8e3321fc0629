"""`wgmma` (PTX ISA 9.1, "Asynchronous Warpgroup Level Matrix Instructions").

The products are computed as they are issued, and what the program may not do before it waits for them is left to the
sanitizers: see `runtime/products.py`.
"""

from __future__ import annotations

from pathlib import Path

from llvmlite import ir
from numba.cuda import types

from refkit.cpu.device_library.build import F32, I1, I32, I64, POINTER, VOID, constant
from refkit.cpu.ptx.frame import Frame, reinterpret
from refkit.cpu.ptx.instructions.warpgroup import LIBRARY as WARPGROUPS
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, split
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime import products
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type
from refkit.cpu.tensor_core import warpgroup_watch
from refkit.cpu.tensor_core.library import wgmma_library
from refkit.cpu.tensor_core.warpgroup_product import NOTE_OPERAND
from refkit.cpu.tensor_core.wgmma_instruction import WgmmaInstruction, parse

_i32, _i64 = types.int32, types.int64
GROUPS = Library(
    "wgmma groups",
    (
        ("rk.wgmma.fence", products.fence, types.void, (words_type, _i32)),
        ("rk.wgmma.commit", products.commit_group, types.void, (words_type, _i32)),
        ("rk.wgmma.wait", products.wait_group, types.void, (words_type, _i32, _i32)),
        (NOTE_OPERAND, warpgroup_watch.note_operand, types.void, (words_type, *[_i64] * 5)),
    ),
    sources=tuple(sorted(Path(warpgroup_watch.__file__).parent.glob("*.py"))),
)
_SIGNS = {"1": 1, "-1": -1}


def _unconditional(frame: Frame, instruction: Instruction) -> None:
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a predicate on an instruction of the whole warpgroup")


def _form(instruction: Instruction) -> WgmmaInstruction:
    """The instruction's form, from its opcode and immediates."""
    n, a, b = parse(instruction.opcode)
    d, a_operand, _, _, a_sign, b_sign, *majors = instruction.operands
    in_registers = a_operand.startswith("{")
    across = [bool(int(major)) for major in majors]
    a_across = across.pop(0) if across and not in_registers else False
    b_across = across.pop(0) if across else False
    if across or len(split(d[1:-1])) != n // 2:
        raise UnknownInstruction(instruction.text, "operands of another number")
    return WgmmaInstruction(
        instruction.opcode, n, a, b, in_registers, a_across, b_across, _SIGNS[a_sign], _SIGNS[b_sign]
    )


@register(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k\d+\.f32\.\w+\.\w+")
def _product(frame: Frame, instruction: Instruction) -> None:
    _unconditional(frame, instruction)
    form = _form(instruction)
    d, a, b, adds = instruction.operands[:4]
    names = split(d[1:-1])
    operands = [frame.read(name, I32) for name in split(a[1:-1])] if form.a_in_registers else [frame.read(a, I64)]
    values = [*operands, frame.read(b, I64), frame.read(adds, I1), *(frame.read(name, F32) for name in names)]
    for name, value in zip(names, _together(frame, form, values)):
        frame.write(name, value)


def _together(frame: Frame, form: WgmmaInstruction, values: list[ir.Value]) -> list[ir.Value]:
    """Waits for the warpgroup with a thread's operands in memory; returns the sums, which the handler has put there."""
    b = frame.b
    library, handler = wgmma_library(form)
    frame.libraries |= {library, GROUPS}
    frame.needs_fiber = True
    with b.goto_entry_block():
        registers = b.alloca(ir.ArrayType(I64, len(values)))
    zero = constant(I32, 0)
    places = [b.gep(registers, [zero, constant(I32, i)]) for i in range(len(values))]
    for value, place in zip(values, places):
        b.store(reinterpret(b, value, I64), place)
    function = b.module.globals.get(handler)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(VOID, [POINTER, POINTER]), handler)
    addresses = (b.ptrtoint(function, I64), b.ptrtoint(registers, I64))
    frame.device_call("rk.warpgroup", VOID, frame.site, *addresses, library=WARPGROUPS)
    return [reinterpret(b, b.load(place), F32) for place in places[-form.sums :]]


def _group(frame: Frame, instruction: Instruction, name: str, *values: ir.Value) -> None:
    _unconditional(frame, instruction)
    frame.needs_fiber = True
    frame.device_call(name, VOID, frame.site, *values, library=GROUPS)


@register(r"wgmma\.fence\.sync\.aligned")
def _fence(frame: Frame, instruction: Instruction) -> None:
    _group(frame, instruction, "rk.wgmma.fence")


@register(r"wgmma\.commit_group\.sync\.aligned")
def _commit(frame: Frame, instruction: Instruction) -> None:
    _group(frame, instruction, "rk.wgmma.commit")


@register(r"wgmma\.wait_group\.sync\.aligned")
def _wait(frame: Frame, instruction: Instruction) -> None:
    _group(frame, instruction, "rk.wgmma.wait", constant(I32, int(instruction.operands[0], 0)))
