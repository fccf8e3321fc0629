"""Floating-point arithmetic (PTX ISA, "Floating Point", "Half Precision Floating Point").

`.approx` forms are rounded to nearest, which lies within their documented error (`device_library/approximate.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from refkit.cpu.device_library import approximate, arithmetic, rounding, small_floats
from refkit.cpu.device_library.build import (
    F32,
    F64,
    I16,
    I32,
    constant,
    fabs,
    from_bits,
    intrinsic,
    is_finite,
    is_nan,
)
from refkit.cpu.device_library.build import bits_of as encoding
from refkit.cpu.device_library.floats import BFLOAT16, FLOAT16, FLOAT32, MODES
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, ptx_type
from refkit.cpu.ptx.registry import register

_MODE = r"(\.(rn|rz|rm|rp))?"
_ROUNDED: dict[str, Callable[..., ir.Value]] = {
    "add": rounding.add,
    "sub": rounding.sub,
    "mul": rounding.mul,
    "div": rounding.div,
} | {
    "fma": rounding.fma_directed,
    "mad": rounding.fma_directed,
    "rcp": rounding.rcp,
    "sqrt": rounding.sqrt,
}
_SMALL = {"f16": FLOAT16, "bf16": BFLOAT16, "f16x2": FLOAT16, "bf16x2": BFLOAT16}


def _sources(frame: Frame, instruction: Instruction) -> list[ir.Value]:
    type_ = ptx_type(instruction.parts[-1])
    values = [frame.read(o, type_) for o in instruction.operands[1:]]
    if "ftz" in instruction.parts and type_ == F32:
        return [approximate.flush(frame.b, v) for v in values]
    return values


def _finish(frame: Frame, instruction: Instruction, value: ir.Value) -> None:
    if "ftz" in instruction.parts and value.type == F32:
        value = approximate.flush(frame.b, value)
    if "sat" in instruction.parts:
        value = arithmetic.saturate(frame.b, value)
    frame.write(instruction.operands[0], value)


def _mode(instruction: Instruction) -> str:
    return next((MODES[part] for part in instruction.parts if part in MODES), "rn")


@register(rf"(add|sub|mul|fma|mad){_MODE}(\.ftz)?(\.sat)?\.f(32|64)")
def _arithmetic(frame: Frame, instruction: Instruction) -> None:
    values = _sources(frame, instruction)
    _finish(frame, instruction, _ROUNDED[instruction.parts[0]](frame.b, *values, _mode(instruction)))


@register(r"(div|rcp|sqrt)\.(rn|rz|rm|rp)(\.ftz)?\.f(32|64)")
def _divide(frame: Frame, instruction: Instruction) -> None:
    _arithmetic(frame, instruction)


@register(r"div\.(approx|full)(\.ftz)?\.f32")
def _divide_approximately(frame: Frame, instruction: Instruction) -> None:
    x, y = _sources(frame, instruction)
    divide = approximate.divide if "approx" in instruction.parts else lambda b, x, y: b.fdiv(x, y)
    _finish(frame, instruction, divide(frame.b, x, y))


@register(r"(rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)\.approx(\.ftz)?\.f32")
def _approximate(frame: Frame, instruction: Instruction) -> None:
    (x,) = _sources(frame, instruction)
    _finish(frame, instruction, approximate.approximate(frame.b, instruction.parts[0], x))


@register(r"(rcp|rsqrt)\.approx(\.ftz)?\.f64")
def _approximate_double(frame: Frame, instruction: Instruction) -> None:
    """20 bits or more on a GPU; here the full double."""
    (x,) = _sources(frame, instruction)
    b = frame.b
    base = intrinsic(b, "sqrt", x) if instruction.parts[0] == "rsqrt" else x
    frame.write(instruction.operands[0], b.fdiv(constant(F64, 1.0), base))


@register(r"(neg|abs)(\.ftz)?\.f(32|64)")
def _sign(frame: Frame, instruction: Instruction) -> None:
    (x,) = _sources(frame, instruction)
    value = frame.b.fneg(x) if instruction.parts[0] == "neg" else fabs(frame.b, x)
    _finish(frame, instruction, value)


@register(r"(min|max)(\.ftz)?(\.NaN)?\.f(32|64)")
def _extremum(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    values = _sources(frame, instruction)
    emit = arithmetic.larger if instruction.parts[0] == "max" else arithmetic.smaller
    result = values[0]
    for other in values[1:]:
        result = emit(b, result, other)
    if "NaN" in instruction.parts:
        for value in values:
            result = b.select(is_nan(b, value), value, result)
    _finish(frame, instruction, result)


@register(r"copysign\.f(32|64)")
def _copy_sign(frame: Frame, instruction: Instruction) -> None:
    sign, magnitude = _sources(frame, instruction)
    frame.write(instruction.operands[0], intrinsic(frame.b, "copysign", magnitude, sign))


@register(r"testp\.(finite|infinite|number|notanumber|normal|subnormal)\.f(32|64)")
def _test(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    (x,) = _sources(frame, instruction)
    size = fabs(b, x)
    least = constant(x.type, 2.0**-126 if x.type == F32 else 2.0**-1022)
    zero = constant(x.type, 0.0)
    value = {
        "finite": lambda: is_finite(b, x),
        "infinite": lambda: b.fcmp_ordered("==", size, constant(x.type, float("inf"))),
        "number": lambda: b.not_(is_nan(b, x)),
        "notanumber": lambda: is_nan(b, x),
        "normal": lambda: b.and_(is_finite(b, x), b.fcmp_ordered(">=", size, least)),
        "subnormal": lambda: b.and_(b.fcmp_ordered("<", size, least), b.fcmp_ordered(">", size, zero)),
    }[instruction.parts[1]]()
    frame.write(instruction.operands[0], value)


def _small_name(instruction: Instruction) -> str:
    """What the header calls the half-precision instruction: `fma.rn.relu.f16` is `__hfma_relu`."""
    root = instruction.parts[0]
    modifiers = set(instruction.parts[1:-1]) - {"rn", "ftz", "approx"}
    if not modifiers <= {"sat", "relu", "NaN"} or len(modifiers) > 1:
        raise UnknownInstruction(instruction.text, "modifiers that are not known for half precision")
    if root in ("ex2", "tanh"):
        return "hexp2" if root == "ex2" else "htanh"
    ending = "".join("_" + m.lower() for m in modifiers)
    return f"__h{root}{ending}"


@register(r"(add|sub|mul|fma|min|max|neg|abs|ex2|tanh)(\.\w+)*\.(bf16|f16)(x2)?")
def _small(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    kind = instruction.parts[-1]
    emit = small_floats.arithmetic_function(_small_name(instruction), _SMALL[kind])
    if emit is None:
        raise UnknownInstruction(instruction.text)
    type_ = ptx_type(kind)
    sources = [frame.read(o, type_) for o in instruction.operands[1:]]
    if type_ == I16:
        frame.write(instruction.operands[0], emit(b, *sources))
        return
    low = emit(b, *(b.trunc(s, I16) for s in sources))
    high = emit(b, *(b.trunc(b.lshr(s, constant(I32, 16)), I16) for s in sources))
    frame.write(instruction.operands[0], b.or_(b.zext(low, I32), b.shl(b.zext(high, I32), constant(I32, 16))))


def to_tf32(b: ir.IRBuilder, x: ir.Value, mode: str) -> ir.Value:
    """A float rounded to the 10 fraction bits of tf32, as the bits of a float whose low 13 are zero; NaN is kept."""
    bits = encoding(b, x)
    if mode == "rna":
        added: ir.Value = constant(I32, 0x1000)
    elif mode == "rn":
        added = b.add(b.and_(b.lshr(bits, constant(I32, 13)), constant(I32, 1)), constant(I32, 0xFFF))
    else:
        added = constant(I32, 0)
    rounded = b.and_(b.add(bits, added), constant(I32, 0xFFFFE000))
    return b.select(is_nan(b, from_bits(b, bits)), constant(I32, FLOAT32.nan), rounded)
