"""Operations of `__half` and `__nv_bfloat16` on their encodings, each rounded once.

+ - * / and square root are evaluated in float32, whose 24 bits are at least twice the format's and two more, so that
the second rounding is innocuous (Figueroa, "When is double rounding innocuous?", 1995); fma in float64 rounded to odd;
elementary functions in float64. NaN results are the GPU's 0x7fff.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from refkit.cpu.device_library import arithmetic, elementary
from refkit.cpu.device_library.build import F64, I16, I32, constant, intrinsic, is_nan
from refkit.cpu.device_library.floats import BFLOAT16, FLOAT16, Format, narrow, widen
from refkit.cpu.device_library.rounding import fma_to_odd, round_to_integral

FORMATS = {"__half": FLOAT16, "__nv_bfloat16": BFLOAT16}
Scalar = Callable[..., ir.Value]

_ELEMENTARY = {name: name for name in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tanh")}
_INTEGRAL = {"htrunc": "rz", "hceil": "ru", "hfloor": "rd", "hrint": "rn"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _elementary(b: ir.IRBuilder, name: str, x: ir.Value) -> ir.Value:
    """A function of a double by the name that the half-precision header gives it, without the h."""
    name = name.removesuffix("_approx")
    if name in _ELEMENTARY:
        return elementary.libm(b, name, x)
    if name == "exp10":
        return elementary.exp10(b, x)
    if name == "rcp":
        return b.fdiv(constant(F64, 1.0), x)
    root = intrinsic(b, "sqrt", x)
    return b.fdiv(constant(F64, 1.0), root) if name == "rsqrt" else root


def sign_bit(b: ir.IRBuilder, operation: str, x: ir.Value) -> ir.Value:
    """|x| or -x, by the sign bit alone."""
    if operation == "abs":
        return b.and_(x, constant(I16, 0x7FFF))
    return b.xor(x, constant(I16, 0x8000))


def fused(b: ir.IRBuilder, target: Format, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z, rounded once."""
    wide = (b.fpext(widen(b, v, target), F64) for v in (x, y, z))
    return narrow(b, fma_to_odd(b, *wide), target)


def binary(b: ir.IRBuilder, operation: str, target: Format, x: ir.Value, y: ir.Value) -> ir.Value:
    """x + y, x - y, x * y or x / y (`add`, `sub`, `mul`, `div`), rounded once."""
    emit = {"add": b.fadd, "sub": b.fsub, "mul": b.fmul, "div": b.fdiv}[operation]
    return narrow(b, emit(widen(b, x, target), widen(b, y, target)), target)


def _saturated(b: ir.IRBuilder, target: Format, x: ir.Value) -> ir.Value:
    return narrow(b, arithmetic.saturate(b, widen(b, x, target)), target)


def _rectified(b: ir.IRBuilder, target: Format, x: ir.Value) -> ir.Value:
    """x where it is positive, NaN where it is NaN, else +0 (PTX `.relu`)."""
    negative = b.icmp_signed("<", x, constant(I16, 0))
    return b.select(b.and_(negative, b.not_(is_nan(b, widen(b, x, target)))), constant(I16, 0), x)


def extremum(b: ir.IRBuilder, which: str, target: Format, x: ir.Value, y: ir.Value, nan: bool) -> ir.Value:
    """max or min; with `nan` a NaN operand gives NaN, otherwise the other operand; -0 lies below +0."""
    wide = [widen(b, v, target) for v in (x, y)]
    emit = arithmetic.larger if which == "max" else arithmetic.smaller
    result = narrow(b, emit(b, *wide), target)
    if not nan:
        return result
    unordered = b.fcmp_unordered("uno", *wide)
    return b.select(unordered, constant(I16, target.nan), result)


def compare(b: ir.IRBuilder, relation: str, target: Format, x: ir.Value, y: ir.Value, unordered: bool) -> ir.Value:
    """i1 of a comparison (`==`, `!=`, `<`, ...); a NaN operand gives `unordered`."""
    emit = b.fcmp_unordered if unordered else b.fcmp_ordered
    return emit(relation, widen(b, x, target), widen(b, y, target))


def comparison(name: str) -> tuple[str, bool] | None:
    """Relation and what NaN gives, of `eq` or `equ` and its like."""
    relation = _COMPARISONS.get(name[:2])
    if relation is None or name[2:] not in ("", "u"):
        return None
    return relation, name[2:] == "u"


def infinity_sign(b: ir.IRBuilder, target: Format, x: ir.Value) -> ir.Value:
    """-1 for -infinity, 1 for +infinity, else 0, as i32."""
    positive = b.icmp_unsigned("==", x, constant(I16, target.infinity))
    negative = b.icmp_unsigned("==", x, constant(I16, target.infinity | 0x8000))
    return b.select(negative, constant(I32, -1), b.zext(positive, I32))


def arithmetic_function(name: str, target: Format) -> Scalar | None:
    """The emitter, on encodings, of a header function such as `__hadd_sat` or `hexp`; None if unknown."""
    if name in _INTEGRAL:
        mode = _INTEGRAL[name]
        return lambda b, x: narrow(b, round_to_integral(b, widen(b, x, target), mode), target)
    if name in ("__habs", "__hneg"):
        return lambda b, x: sign_bit(b, name[3:], x)
    stem, _, ending = name.removeprefix("__h").partition("_")
    if name.startswith("__h") and stem in ("add", "sub", "mul", "div", "fma"):
        base: Scalar = (lambda b, *a: fused(b, target, *a)) if stem == "fma" else _binary(stem, target)
        finish = {"": None, "rn": None, "sat": _saturated, "relu": _rectified}.get(ending, "unknown")
        if finish is None:
            return base
        return (lambda b, *a: finish(b, target, base(b, *a))) if callable(finish) else None
    if name.startswith("__h") and stem in ("max", "min") and ending in ("", "nan"):
        return lambda b, x, y: extremum(b, stem, target, x, y, ending == "nan")
    plain = name.removeprefix("h")
    if name.startswith("h") and plain.removesuffix("_approx") in {*_ELEMENTARY, "exp10", "rcp", "rsqrt", "sqrt"}:
        return lambda b, x: narrow(b, _elementary(b, plain, b.fpext(widen(b, x, target), F64)), target)
    return None


def _binary(operation: str, target: Format) -> Scalar:
    return lambda b, x, y: binary(b, operation, target, x, y)
