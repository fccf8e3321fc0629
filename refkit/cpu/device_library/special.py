"""The error function's inverse, scaled and normal forms, which libm has not.

Each starts from libm's erf or erfc and removes what would be lost on the way; float64 errors, measured in the tests:
erfinv and erfcinv 6 ulp, normcdf 8, normcdfinv 8, erfcx 10 (libm's erfc itself is only good to 5).
The float32 forms are evaluated in float64 and are good to 0.501 ulp.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from llvmlite import ir

from refkit.cpu.device_library.build import F32, F64, DeviceFunction, constant, fabs, fma, intrinsic
from refkit.cpu.device_library.elementary import in_float32, libm

# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), single precision: the iteration's start.
_CENTRAL = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_HALF, _SQRT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17


def _c(value: float) -> ir.Constant:
    return constant(F64, value)


def _polynomial(b: ir.IRBuilder, coefficients: tuple[float, ...], x: ir.Value) -> ir.Value:
    value: ir.Value = _c(coefficients[0])
    for coefficient in coefficients[1:]:
        value = fma(b, value, x, _c(coefficient))
    return value


def _start(b: ir.IRBuilder, w: ir.Value) -> ir.Value:
    """erfinv(x) / x to three or more digits, from w = -log(1 - x^2)."""
    central = _polynomial(b, _CENTRAL, b.fsub(w, _c(2.5)))
    tail = _polynomial(b, _TAIL, b.fsub(intrinsic(b, "sqrt", w), _c(3.0)))
    # Beyond the single-precision range the leading term of the asymptotic expansion is closer than the fit.
    far = intrinsic(b, "sqrt", b.fsub(w, b.fmul(_c(0.5), libm(b, "log", b.fmul(w, _c(math.pi))))))
    value = b.select(b.fcmp_ordered("<", w, _c(5.0)), central, tail)
    return b.select(b.fcmp_ordered(">", w, _c(16.0)), far, value)


def _halley(b: ir.IRBuilder, x: ir.Value, ratio: ir.Value) -> ir.Value:
    """x - t / (1 + x t), Halley's step for erf and erfc alike, where ratio is t = (f(x) - y) / f'(x)."""
    return b.fsub(x, b.fdiv(ratio, fma(b, x, ratio, _c(1.0))))


def _density(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """erf'(x) = 2 / sqrt(pi) exp(-x^2)."""
    return b.fmul(_c(_TWO_OVER_SQRT_PI), libm(b, "exp", b.fneg(b.fmul(x, x))))


def _central_inverse(b: ir.IRBuilder, y: ir.Value) -> ir.Value:
    """erfinv(y) for |y| <= 1/2."""
    x = b.fmul(y, _start(b, b.fneg(libm(b, "log1p", b.fneg(b.fmul(y, y))))))
    for _ in range(2):
        x = _halley(b, x, b.fdiv(b.fsub(libm(b, "erf", x), y), _density(b, x)))
    return x


def _tail_inverse(b: ir.IRBuilder, q: ir.Value) -> ir.Value:
    """erfcinv(q) for 0 < q <= 1/2."""
    w = b.fneg(libm(b, "log", b.fmul(q, b.fsub(_c(2.0), q))))
    x = b.fmul(b.fsub(_c(1.0), q), _start(b, w))
    for _ in range(3):
        x = _halley(b, x, b.fdiv(b.fsub(q, libm(b, "erfc", x)), _density(b, x)))
    return x


def erfinv(b: ir.IRBuilder, y: ir.Value) -> ir.Value:
    """The x with erf(x) = y; infinities at -1 and 1, NaN beyond."""
    size = fabs(b, y)
    central = b.fcmp_ordered("<=", size, _c(0.5))
    inner = _central_inverse(b, b.select(central, y, _c(0.0)))
    outer = intrinsic(b, "copysign", _tail_inverse(b, b.fsub(_c(1.0), b.select(central, _c(0.5), size))), y)
    value = b.select(central, b.select(b.fcmp_ordered("==", y, _c(0.0)), y, inner), outer)
    infinite = intrinsic(b, "copysign", _c(math.inf), y)
    value = b.select(b.fcmp_ordered("==", size, _c(1.0)), infinite, value)
    return b.select(b.fcmp_ordered("<=", size, _c(1.0)), value, _c(math.nan))


def erfcinv(b: ir.IRBuilder, y: ir.Value) -> ir.Value:
    """The x with erfc(x) = y; +infinity at 0, -infinity at 2, NaN beyond."""
    upper = b.fcmp_ordered(">", y, _c(1.0))
    tail = b.select(upper, b.fsub(_c(2.0), y), y)
    central = b.fcmp_ordered(">=", tail, _c(0.5))
    inner = _central_inverse(b, b.select(central, b.fsub(_c(1.0), y), _c(0.0)))
    outer = _tail_inverse(b, b.select(central, _c(0.5), tail))
    value = b.select(central, inner, b.select(upper, b.fneg(outer), outer))
    value = b.select(b.fcmp_ordered("==", tail, _c(0.0)), b.select(upper, _c(-math.inf), _c(math.inf)), value)
    return b.select(b.fcmp_ordered(">=", tail, _c(0.0)), value, _c(math.nan))


def normcdf(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The standard normal distribution function, erfc(-x / sqrt 2) / 2, with the rounding of x / sqrt 2 undone."""
    t = b.fmul(x, _c(-_SQRT_HALF))
    low = fma(b, x, _c(-_SQRT_HALF_LOW), fma(b, x, _c(-_SQRT_HALF), b.fneg(t)))
    shifted = fma(b, b.fneg(low), _density(b, t), libm(b, "erfc", t))
    safe = b.fcmp_ordered("<", fabs(b, x), _c(40.0))
    return b.fmul(_c(0.5), b.select(safe, shifted, libm(b, "erfc", t)))


def normcdfinv(b: ir.IRBuilder, p: ir.Value) -> ir.Value:
    """The inverse of the standard normal distribution function."""
    return b.fmul(_c(-math.sqrt(2)), erfcinv(b, b.fmul(p, _c(2.0))))


def erfcx(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """exp(x^2) erfc(x): the product with x^2 in two parts, and for large x its asymptotic expansion."""
    square = b.fmul(x, x)
    low = fma(b, x, x, b.fneg(square))
    growth = libm(b, "exp", square)
    growth = b.select(b.fcmp_ordered("<", growth, _c(math.inf)), fma(b, growth, low, growth), growth)
    direct = b.fmul(growth, libm(b, "erfc", x))
    inverse = b.fdiv(_c(0.5), square)
    terms = [1.0]
    for n in range(1, 12):
        terms.append(-terms[-1] * (2 * n - 1))
    series = b.fdiv(b.fmul(_c(1 / math.sqrt(math.pi)), _polynomial(b, tuple(reversed(terms)), inverse)), x)
    return b.select(b.fcmp_ordered(">", x, _c(10.0)), series, direct)


def _applied(emit: Callable[..., ir.Value], b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
    return emit(b, *arguments)


def _functions() -> dict[str, DeviceFunction]:
    table: dict[str, DeviceFunction] = {}
    for emit in (erfinv, erfcinv, normcdf, normcdfinv, erfcx):
        name = "__nv_" + emit.__name__
        table[name] = DeviceFunction(F64, (F64,), functools.partial(_applied, emit))
        table[name + "f"] = DeviceFunction(F32, (F32,), in_float32(emit))
    return table


FUNCTIONS = _functions()
