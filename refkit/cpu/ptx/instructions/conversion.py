"""`cvt` and `cvta` (PTX ISA, "Data Movement and Conversion Instructions: cvt")."""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library import approximate, arithmetic, rounding
from refkit.cpu.device_library.build import F32, F64, I8, I16, I32, I64, constant, from_bits, intrinsic
from refkit.cpu.device_library.floats import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    MODES,
    Format,
    narrow,
    widen,
)
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.instructions.floating import to_tf32
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, ptx_type
from refkit.cpu.ptx.registry import register

_SMALL = {"f16": FLOAT16, "bf16": BFLOAT16, "e4m3": FLOAT8_E4M3, "e5m2": FLOAT8_E5M2}
_LARGE = {"f32": FLOAT32, "f64": FLOAT64}
_SCALAR = r"(f16|bf16|f32|f64|[us](8|16|32|64))"
_MODIFIERS = r"(\.(rni|rzi|rmi|rpi|rn|rz|rm|rp|rna|ftz|sat|satfinite|relu))*"


def _mode(instruction: Instruction, default: str) -> str:
    return next((MODES[part] for part in instruction.parts[1:-2] if part in MODES), default)


@register(rf"cvt{_MODIFIERS}\.{_SCALAR}\.{_SCALAR}")
def _convert(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    to, source = instruction.parts[-2:]
    x = frame.read(instruction.operands[1], ptx_type(source))
    if "ftz" in instruction.parts and source == "f32":
        x = approximate.flush(b, x)
    if source in _SMALL:
        x = widen(b, x, _SMALL[source])
    if to[0] in "us":
        value = _to_integer(b, x, source, to, instruction)
    else:
        value = _to_number(b, x, source, to, instruction)
    if to.startswith("s") and value.type != I64:
        value = b.sext(value, I64)  # a register wider than the type gets the sign
    frame.write(instruction.operands[0], value)


def _to_integer(b: ir.IRBuilder, x: ir.Value, source: str, to: str, instruction: Instruction) -> ir.Value:
    type_, signed = ptx_type(to), to.startswith("s")
    if x.type in (F32, F64):
        return rounding.to_integer(b, x, type_.width, signed, _mode(instruction, "rz"))
    from_signed = source.startswith("s")
    if "sat" in instruction.parts:
        wide = (b.sext if from_signed else b.zext)(x, ir.IntType(128))
        low = -(2 ** (type_.width - 1)) if signed else 0
        high = 2 ** (type_.width - signed) - 1
        wide = intrinsic(b, "smin", intrinsic(b, "smax", wide, constant(wide.type, low)), constant(wide.type, high))
        return b.trunc(wide, type_)
    if x.type.width >= type_.width:
        return x if x.type == type_ else b.trunc(x, type_)
    return (b.sext if from_signed else b.zext)(x, type_)


def _to_number(b: ir.IRBuilder, x: ir.Value, source: str, to: str, instruction: Instruction) -> ir.Value:
    mode = _mode(instruction, "rn")
    if source[0] in "us":
        encoded = rounding.from_integer(b, x, source.startswith("s"), (_SMALL | _LARGE)[to], mode)
        return encoded if to in _SMALL else _saturated(b, from_bits(b, encoded), instruction)
    if any(part in ("rni", "rzi", "rmi", "rpi") for part in instruction.parts):
        x = rounding.round_to_integral(b, x, mode)
    if to in _SMALL:
        return _narrowed(b, _saturated(b, x, instruction), _SMALL[to], mode, instruction)
    if to == "f64":
        x = b.fpext(x, F64) if x.type == F32 else x
    elif x.type == F64:
        x = b.fptrunc(x, F32) if mode == "rn" else from_bits(b, narrow(b, x, FLOAT32, mode))
    x = _saturated(b, x, instruction)
    return approximate.flush(b, x) if "ftz" in instruction.parts and x.type == F32 else x


def _saturated(b: ir.IRBuilder, x: ir.Value, instruction: Instruction) -> ir.Value:
    return arithmetic.saturate(b, x) if "sat" in instruction.parts else x


def _narrowed(b: ir.IRBuilder, x: ir.Value, target: Format, mode: str, instruction: Instruction) -> ir.Value:
    if "relu" in instruction.parts:
        x = b.select(b.fcmp_ordered("<=", x, constant(x.type, 0.0)), constant(x.type, 0.0), x)
    return narrow(b, x, target, mode, saturate="satfinite" in instruction.parts)


@register(r"cvt\.(rn|rz|rna)(\.relu)?(\.satfinite)?\.tf32\.f32")
def _convert_to_tf32(frame: Frame, instruction: Instruction) -> None:
    if "satfinite" in instruction.parts:
        raise UnknownInstruction(instruction.text, "satfinite is not known for tf32")
    b = frame.b
    x = frame.read(instruction.operands[1], F32)
    if "relu" in instruction.parts:
        x = b.select(b.fcmp_ordered("<=", x, constant(F32, 0.0)), constant(F32, 0.0), x)
    frame.write(instruction.operands[0], to_tf32(b, x, instruction.parts[1]))


@register(r"cvt\.(rn|rz)(\.satfinite)?(\.relu)?(\.satfinite)?\.(f16|bf16|e4m3|e5m2)x2\.f32")
def _pack_floats(frame: Frame, instruction: Instruction) -> None:
    """Two floats to a pair; the first source becomes the upper half."""
    b = frame.b
    target = _SMALL[instruction.parts[-2].removesuffix("x2")]
    high, low = (
        _narrowed(b, frame.read(o, F32), target, _mode(instruction, "rn"), instruction)
        for o in instruction.operands[1:3]
    )
    frame.write(instruction.operands[0], _joined(b, low, high))


@register(r"cvt\.rn\.satfinite(\.relu)?\.(e4m3|e5m2)x2\.f16x2")
def _pack_halves(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    target = _SMALL[instruction.parts[-2].removesuffix("x2")]
    pair = frame.read(instruction.operands[1], I32)
    halves = (widen(b, b.trunc(b.lshr(pair, constant(I32, shift)), I16), FLOAT16) for shift in (0, 16))
    low, high = (_narrowed(b, half, target, "rn", instruction) for half in halves)
    frame.write(instruction.operands[0], _joined(b, low, high))


@register(r"cvt\.rn(\.relu)?\.f16x2\.(e4m3|e5m2)x2")
def _unpack_to_halves(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    source = _SMALL[instruction.parts[-1].removesuffix("x2")]
    pair = frame.read(instruction.operands[1], I16)
    eighths = (widen(b, b.trunc(b.lshr(pair, constant(I16, shift)), I8), source) for shift in (0, 8))
    low, high = (_narrowed(b, eighth, FLOAT16, "rn", instruction) for eighth in eighths)
    frame.write(instruction.operands[0], _joined(b, low, high))


def _joined(b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    width = low.type.width
    wide = ir.IntType(2 * width)
    return b.or_(b.zext(low, wide), b.shl(b.zext(high, wide), constant(wide, width)))


@register(r"cvta(\.to)?\.(global|shared|shared::cta|local|const|param)\.u64")
def _convert_address(frame: Frame, instruction: Instruction) -> None:
    """All state spaces are host memory, so that generic and specific addresses are the same."""
    frame.write(instruction.operands[0], frame.read(instruction.operands[1], I64))
