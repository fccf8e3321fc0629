"""What a warp does together on matrices: `mma.sync`, `ldmatrix`, `stmatrix` (PTX ISA 9.1, "Warp Level Matrix ...")."""

from __future__ import annotations

import re

from llvmlite import ir

from refkit.cpu.device_library.build import F32, F64, I32, I64, constant
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, split
from refkit.cpu.ptx.registry import register
from refkit.cpu.tensor_core.instruction import parse
from refkit.cpu.tensor_core.library import matrix_library, mma_library

_ROW_BYTES = 16
_REGISTER = {"f32": F32, "f16": I32, "s32": I32, "f64": F64}


def _names(operand: str) -> list[str]:
    return split(operand[1:-1]) if operand.startswith("{") else [operand]


def _no_predicate(frame: Frame, instruction: Instruction) -> None:
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a predicate on an instruction of the whole warp")


@register(r"mma\.sync\.aligned\.m\d+n\d+k\d+\.row\.col[\w.]*")
def _mma(frame: Frame, instruction: Instruction) -> None:
    _no_predicate(frame, instruction)
    form = parse(instruction.opcode)
    d, a, b, c = (_names(operand) for operand in instruction.operands)
    counts = (form.c_registers, form.a_registers, form.b_registers, form.c_registers)
    if tuple(map(len, (d, a, b, c))) != counts:
        raise UnknownInstruction(instruction.text, f"operands of other lengths than {counts}")
    element = F64 if form.a == "f64" else I32
    accumulator = _REGISTER[form.accumulator]
    inputs = [frame.read(name, element) for name in a + b] + [frame.read(name, accumulator) for name in c]
    library, handler = mma_library(form)
    for name, value in zip(d, frame.collective(library, handler, inputs, [accumulator] * len(d))):
        frame.write(name, value)


@register(r"ldmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?(\.shared(::cta)?)?\.b16")
def _load_matrices(frame: Frame, instruction: Instruction) -> None:
    _no_predicate(frame, instruction)
    names = _names(instruction.operands[0])
    address = frame.address(instruction.operands[1])
    _touch_rows(frame, "read", address, _count(instruction, names))
    library, handler = matrix_library(instruction.opcode, len(names))
    for name, value in zip(names, frame.collective(library, handler, [address], [I32] * len(names))):
        frame.write(name, value)


@register(r"stmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?(\.shared(::cta)?)?\.b16")
def _store_matrices(frame: Frame, instruction: Instruction) -> None:
    _no_predicate(frame, instruction)
    address = frame.address(instruction.operands[0])
    names = _names(instruction.operands[1])
    _touch_rows(frame, "write", address, _count(instruction, names))
    library, handler = matrix_library(instruction.opcode, len(names))
    frame.collective(library, handler, [address, *(frame.read(name, I32) for name in names)], [])


def _count(instruction: Instruction, names: list[str]) -> int:
    match = re.search(r"\.x([124])", instruction.opcode)
    if not match or int(match.group(1)) != len(names):
        raise UnknownInstruction(instruction.text, f"{len(names)} registers")
    return len(names)


def _touch_rows(frame: Frame, access: str, address: ir.Value, matrices: int) -> None:
    """Each lane whose address counts touches the row that it names."""
    b = frame.b
    lane = b.zext(frame.device_call("rk.lane", I32), I64)
    with b.if_then(b.icmp_unsigned("<", lane, constant(I64, 8 * matrices))):
        frame.touch(access, address, _ROW_BYTES, shared=True)
