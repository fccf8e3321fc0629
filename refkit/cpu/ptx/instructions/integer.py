"""Integer arithmetic, logic, shifts and bit fields (PTX ISA, "Integer Arithmetic", "Logic and Shift")."""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library import integers
from refkit.cpu.device_library.build import I1, I8, I32, constant, intrinsic, minimum
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, ptx_type
from refkit.cpu.ptx.registry import register

_INT = r"[us](16|32|64)"
_BITS = r"b(16|32|64)"


def _operands(frame: Frame, instruction: Instruction) -> tuple[list[ir.Value], bool]:
    """The source operands in the instruction's last type, and whether it is signed."""
    name = instruction.parts[-1]
    type_ = ptx_type(name)
    return [frame.read(o, type_) for o in instruction.operands[1:]], name.startswith("s")


@register(rf"(add|sub)(\.sat)?\.{_INT}")
def _add(frame: Frame, instruction: Instruction) -> None:
    (x, y), _ = _operands(frame, instruction)
    operation = instruction.parts[0]
    if "sat" in instruction.parts:
        value = intrinsic(frame.b, f"s{operation}.sat", x, y)
    else:
        value = frame.b.add(x, y) if operation == "add" else frame.b.sub(x, y)
    frame.write(instruction.operands[0], value)


@register(rf"(mul|mad)\.(lo|hi|wide)(\.sat)?\.{_INT}")
def _multiply(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    part, signed = instruction.parts[1], instruction.parts[-1].startswith("s")
    type_ = ptx_type(instruction.parts[-1])
    x, y = (frame.read(o, type_) for o in instruction.operands[1:3])
    if part == "lo":
        value = b.mul(x, y)
    elif part == "hi":
        value = integers.mul_high(b, x, y, signed)
    else:
        wide = ir.IntType(2 * type_.width)
        value = b.mul(*((b.sext if signed else b.zext)(v, wide) for v in (x, y)))
    if instruction.parts[0] == "mad":
        z = frame.read(instruction.operands[3], value.type)
        value = intrinsic(b, "sadd.sat", value, z) if "sat" in instruction.parts else b.add(value, z)
    frame.write(instruction.operands[0], value)


@register(r"(mul|mad)24\.(lo|hi)\.[us]32")
def _multiply_24(frame: Frame, instruction: Instruction) -> None:
    (x, y, *z), signed = _operands(frame, instruction)
    value = integers.mul24(frame.b, x, y, signed, high=instruction.parts[1] == "hi")
    frame.write(instruction.operands[0], frame.b.add(value, z[0]) if z else value)


@register(rf"sad\.{_INT}")
def _sum_of_differences(frame: Frame, instruction: Instruction) -> None:
    (x, y, z), signed = _operands(frame, instruction)
    frame.write(instruction.operands[0], frame.b.add(integers.absolute_difference(frame.b, x, y, signed), z))


@register(rf"(div|rem)\.{_INT}")
def _divide(frame: Frame, instruction: Instruction) -> None:
    """Division by zero, which PTX leaves open, gives all ones and the dividend as remainder, as the hardware does."""
    b = frame.b
    (x, y), signed = _operands(frame, instruction)
    zero = b.icmp_unsigned("==", y, constant(y.type, 0))
    unsafe = zero
    if signed:
        least = b.icmp_unsigned("==", x, constant(x.type, 1 << (x.type.width - 1)))
        minus_one = b.icmp_unsigned("==", y, constant(y.type, -1))
        unsafe = b.or_(zero, b.and_(least, minus_one))
    divisor = b.select(unsafe, constant(y.type, 1), y)
    if instruction.parts[0] == "div":
        quotient = (b.sdiv if signed else b.udiv)(x, divisor)
        value = b.select(zero, constant(x.type, -1), quotient)
    else:
        value = b.select(zero, x, (b.srem if signed else b.urem)(x, divisor))
    frame.write(instruction.operands[0], value)


@register(r"(abs|neg)\.s(16|32|64)")
def _sign(frame: Frame, instruction: Instruction) -> None:
    (x,), _ = _operands(frame, instruction)
    value = frame.b.neg(x) if instruction.parts[0] == "neg" else intrinsic(frame.b, "abs", x, constant(I1, 0))
    frame.write(instruction.operands[0], value)


@register(rf"(min|max)(\.relu)?\.{_INT}")
def _extremum(frame: Frame, instruction: Instruction) -> None:
    (x, y), signed = _operands(frame, instruction)
    value = intrinsic(frame.b, ("s" if signed else "u") + instruction.parts[0], x, y)
    if "relu" in instruction.parts:
        value = intrinsic(frame.b, "smax", value, constant(value.type, 0))
    frame.write(instruction.operands[0], value)


@register(r"(popc|clz)\.b(32|64)")
def _count(frame: Frame, instruction: Instruction) -> None:
    (x,), _ = _operands(frame, instruction)
    emit = integers.population_count if instruction.parts[0] == "popc" else integers.leading_zeros
    frame.write(instruction.operands[0], emit(frame.b, x))


@register(r"bfind(\.shiftamt)?\.[us](32|64)")
def _find_leading(frame: Frame, instruction: Instruction) -> None:
    """Position of the highest bit that differs from the sign; all ones where there is none."""
    b = frame.b
    (x,), signed = _operands(frame, instruction)
    if signed:
        x = b.xor(x, b.ashr(x, constant(x.type, x.type.width - 1)))
    zeros = integers.leading_zeros(b, x)
    found = zeros if "shiftamt" in instruction.parts else b.sub(constant(I32, x.type.width - 1), zeros)
    none = b.icmp_unsigned("==", x, constant(x.type, 0))
    frame.write(instruction.operands[0], b.select(none, constant(I32, -1), found))


@register(r"brev\.b(32|64)")
def _reverse(frame: Frame, instruction: Instruction) -> None:
    (x,), _ = _operands(frame, instruction)
    frame.write(instruction.operands[0], intrinsic(frame.b, "bitreverse", x))


@register(r"(and|or|xor|not|cnot)\.(pred|b16|b32|b64)")
def _logic(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    values, _ = _operands(frame, instruction)
    emit = {"and": b.and_, "or": b.or_, "xor": b.xor, "not": b.not_}.get(instruction.parts[0])
    if emit is None:
        value = b.zext(b.icmp_unsigned("==", values[0], constant(values[0].type, 0)), values[0].type)
    else:
        value = emit(*values)
    frame.write(instruction.operands[0], value)


@register(r"lop3\.b32")
def _lookup(frame: Frame, instruction: Instruction) -> None:
    """Any function of three bits, bit for bit; the table's bit (a, b, c) is its value."""
    b = frame.b
    x, y, z = (frame.read(o, I32) for o in instruction.operands[1:4])
    table = int(instruction.operands[4], 0)
    value = constant(I32, 0)
    for row in range(8):
        if table >> row & 1:
            chosen = (v if row >> (2 - place) & 1 else b.not_(v) for place, v in enumerate((x, y, z)))
            first, second, third = chosen
            value = b.or_(value, b.and_(b.and_(first, second), third))
    frame.write(instruction.operands[0], value)


@register(rf"(shl\.{_BITS}|shr\.[bus](16|32|64))")
def _shift(frame: Frame, instruction: Instruction) -> None:
    """Shifts by the width or more empty the value, or fill it with the sign."""
    b = frame.b
    type_ = ptx_type(instruction.parts[-1])
    x = frame.read(instruction.operands[1], type_)
    amount = frame.read(instruction.operands[2], I32)
    if instruction.parts[-1].startswith("s"):
        limited = intrinsic(b, "umin", amount, constant(I32, type_.width - 1))
        frame.write(instruction.operands[0], b.ashr(x, _cast(b, limited, type_)))
        return
    frame.write(instruction.operands[0], _shifted(b, x, amount, left=instruction.parts[0] == "shl"))


def _cast(b: ir.IRBuilder, x: ir.Value, type_: ir.IntType) -> ir.Value:
    if x.type.width == type_.width:
        return x
    return b.trunc(x, type_) if x.type.width > type_.width else b.zext(x, type_)


def _shifted(b: ir.IRBuilder, x: ir.Value, amount: ir.Value, left: bool) -> ir.Value:
    """x shifted by an i32 that may be the width or more, which gives 0."""
    beyond = b.icmp_unsigned(">=", amount, constant(I32, x.type.width))
    safe = _cast(b, b.select(beyond, constant(I32, 0), amount), x.type)
    return b.select(beyond, constant(x.type, 0), (b.shl if left else b.lshr)(x, safe))


@register(r"shf\.[lr]\.(clamp|wrap)\.b32")
def _funnel_shift(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    low, high, amount = (frame.read(o, I32) for o in instruction.operands[1:4])
    left = instruction.parts[1] == "l"
    value = intrinsic(b, "fshl" if left else "fshr", high, low, amount)
    if instruction.parts[2] == "clamp":
        whole = b.icmp_unsigned(">=", amount, constant(I32, 32))
        value = b.select(whole, low if left else high, value)
    frame.write(instruction.operands[0], value)


def _low_mask(b: ir.IRBuilder, count: ir.Value, type_: ir.IntType) -> ir.Value:
    """The lowest `count` bits set; all for the width or more."""
    return b.not_(_shifted(b, constant(type_, -1), count, left=True))


def _byte(frame: Frame, operand: str) -> ir.Value:
    return frame.b.and_(frame.read(operand, I32), constant(I32, 0xFF))


@register(r"bfe\.[us](32|64)")
def _extract_field(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    type_, signed = ptx_type(instruction.parts[-1]), instruction.parts[-1].startswith("s")
    x = frame.read(instruction.operands[1], type_)
    position, length = (_byte(frame, o) for o in instruction.operands[2:4])
    width = constant(I32, type_.width)
    room = b.sub(width, minimum(b, position, width))
    field = _low_mask(b, minimum(b, length, room), type_)
    value = b.and_(_shifted(b, x, position, left=False), field)
    if signed:
        last = minimum(b, b.sub(b.add(position, length), constant(I32, 1)), constant(I32, type_.width - 1))
        sign = b.trunc(_shifted(b, x, last, left=False), I1)
        negative = b.and_(sign, b.icmp_unsigned("!=", length, constant(I32, 0)))
        value = b.select(negative, b.or_(value, b.not_(field)), value)
    frame.write(instruction.operands[0], value)


@register(r"bfi\.b(32|64)")
def _insert_field(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    type_ = ptx_type(instruction.parts[-1])
    field, base = (frame.read(o, type_) for o in instruction.operands[1:3])
    position, length = (_byte(frame, o) for o in instruction.operands[3:5])
    mask = _shifted(b, _low_mask(b, length, type_), position, left=True)
    moved = _shifted(b, field, position, left=True)
    frame.write(instruction.operands[0], b.or_(b.and_(base, b.not_(mask)), b.and_(moved, mask)))


@register(r"prmt\.b32(\.\w+)?")
def _permute(frame: Frame, instruction: Instruction) -> None:
    if len(instruction.parts) > 2:
        raise UnknownInstruction(instruction.text, "only the default mode of prmt is known")
    values = (frame.read(o, I32) for o in instruction.operands[1:4])
    frame.write(instruction.operands[0], integers.permute_bytes(frame.b, *values))


@register(r"dp4a\.[us]32\.[us]32")
def _dot_bytes(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    x, y, total = (frame.read(o, I32) for o in instruction.operands[1:4])
    for place in range(4):
        products = []
        for value, name in ((x, instruction.parts[1]), (y, instruction.parts[2])):
            byte = b.trunc(b.lshr(value, constant(I32, 8 * place)), I8)
            products.append((b.sext if name == "s32" else b.zext)(byte, I32))
        total = b.add(total, b.mul(*products))
    frame.write(instruction.operands[0], total)
