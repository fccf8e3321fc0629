"""The hardware's approximate float32 functions (`ex2.approx`, `__expf` and the like).

The base functions of the multi-function unit are given here rounded to nearest, which lies within their documented
error; functions built on them (`__expf(x) = ex2(x * log2 e)`) are built the same way, so that they keep the character
of the real ones: the growing error of `__expf`, the zero of `__fdividef` by a huge divisor, the NaN of `__powf` of a
negative base. Subnormals are kept: the flushing forms are chosen by the caller.
"""

from __future__ import annotations

import math

from llvmlite import ir

from refkit.cpu.device_library.build import F32, F64, POINTER, VOID, DeviceFunction, call, constant, fabs, intrinsic

_LIBM = {"ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos", "tanh": "tanh"}


def approximate(b: ir.IRBuilder, name: str, x: ir.Value) -> ir.Value:
    """ex2, lg2, sin, cos, tanh, rcp, rsqrt or sqrt of a float, evaluated in double and rounded to nearest."""
    wide = b.fpext(x, F64)
    if name in _LIBM:
        result = call(b, _LIBM[name], F64, wide)
    elif name == "rcp":
        result = b.fdiv(constant(F64, 1.0), wide)
    else:
        result = intrinsic(b, "sqrt", wide)
        result = b.fdiv(constant(F64, 1.0), result) if name == "rsqrt" else result
    return b.fptrunc(result, F32)


def flush(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """A subnormal float as a zero of its sign."""
    tiny = b.fcmp_ordered("<", fabs(b, x), constant(F32, 2.0**-126))
    return b.select(tiny, intrinsic(b, "copysign", constant(F32, 0.0), x), x)


def divide(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """PTX `div.approx.f32`: x * (1 / y), and 0 (NaN for an infinite x) where 2^126 < |y| < 2^128."""
    size = fabs(b, y)
    huge = b.and_(
        b.fcmp_ordered(">", size, constant(F32, 2.0**126)), b.fcmp_ordered("<", size, constant(F32, float("inf")))
    )
    return b.select(huge, b.fmul(x, constant(F32, 0.0)), b.fdiv(x, y))


def _scaled(name: str, factor: float, before: bool):
    def emit(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
        (x,) = arguments
        scale = constant(F32, factor)
        return approximate(b, name, b.fmul(x, scale)) if before else b.fmul(approximate(b, name, x), scale)

    return emit


def _power(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
    x, y = arguments
    return approximate(b, "ex2", b.fmul(y, approximate(b, "lg2", x)))


def _tangent(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
    return divide(b, *(approximate(b, name, arguments[0]) for name in ("sin", "cos")))


def _sincos(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
    x, sine, cosine = arguments
    b.store(approximate(b, "sin", x), sine)
    b.store(approximate(b, "cos", x), cosine)


def _of_one(emit) -> DeviceFunction:
    return DeviceFunction(F32, (F32,), emit)


FUNCTIONS = {
    "__nv_fast_sinf": _of_one(lambda b, a: approximate(b, "sin", *a)),
    "__nv_fast_cosf": _of_one(lambda b, a: approximate(b, "cos", *a)),
    "__nv_fast_tanf": _of_one(_tangent),
    "__nv_fast_tanhf": _of_one(lambda b, a: approximate(b, "tanh", *a)),
    "__nv_fast_log2f": _of_one(lambda b, a: approximate(b, "lg2", *a)),
    "__nv_fast_logf": _of_one(_scaled("lg2", math.log(2), before=False)),
    "__nv_fast_log10f": _of_one(_scaled("lg2", math.log10(2), before=False)),
    "__nv_fast_expf": _of_one(_scaled("ex2", math.log2(math.e), before=True)),
    "__nv_fast_exp10f": _of_one(_scaled("ex2", math.log2(10), before=True)),
    "__nv_fast_powf": DeviceFunction(F32, (F32, F32), _power),
    "__nv_fast_fdividef": DeviceFunction(F32, (F32, F32), lambda b, a: divide(b, *a)),
    "__nv_fast_sincosf": DeviceFunction(VOID, (F32, POINTER, POINTER), _sincos),
}
