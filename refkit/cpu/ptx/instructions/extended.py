"""Extended-precision integer arithmetic with the carry flag (PTX ISA, "Extended-Precision Integer Arithmetic")."""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library import integers
from refkit.cpu.device_library.build import I1, constant
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, ptx_type
from refkit.cpu.ptx.registry import register

_TYPE = r"(\.cc)?\.[us](32|64)"


def _add(frame: Frame, instruction: Instruction, x: ir.Value, y: ir.Value, subtract: bool, uses_carry: bool) -> None:
    """x + y + carry, or x - y - borrow; with `.cc` the carry or borrow out is kept."""
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a carry under a predicate")
    b = frame.b
    type_ = x.type
    wide = ir.IntType(2 * type_.width)
    first, second = b.zext(x, wide), b.zext(y, wide)
    total = b.sub(first, second) if subtract else b.add(first, second)
    if uses_carry:
        carry = b.zext(frame.carry, wide)
        total = b.sub(total, carry) if subtract else b.add(total, carry)
    if "cc" in instruction.parts:
        frame.carry = b.trunc(b.lshr(total, constant(wide, type_.width)), I1)
    frame.write(instruction.operands[0], b.trunc(total, type_))


@register(rf"(add|sub)\.cc\.[us](32|64)|(addc|subc){_TYPE}")
def _add_or_subtract(frame: Frame, instruction: Instruction) -> None:
    type_ = ptx_type(instruction.parts[-1])
    x, y = (frame.read(o, type_) for o in instruction.operands[1:3])
    root = instruction.parts[0]
    _add(frame, instruction, x, y, subtract=root.startswith("sub"), uses_carry=root.endswith("c"))


@register(rf"mad\.(lo|hi)\.cc\.[us](32|64)|madc\.(lo|hi){_TYPE}")
def _multiply_add(frame: Frame, instruction: Instruction) -> None:
    name = instruction.parts[-1]
    x, y, z = (frame.read(o, ptx_type(name)) for o in instruction.operands[1:4])
    if instruction.parts[1] == "hi":
        product = integers.mul_high(frame.b, x, y, name.startswith("s"))
    else:
        product = frame.b.mul(x, y)
    _add(frame, instruction, product, z, subtract=False, uses_carry=instruction.parts[0] == "madc")
