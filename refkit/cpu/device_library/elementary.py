"""CUDA's elementary and special functions through the host's libm.

A float32 function is the libm's float64 one rounded to float32: about 0.5 ulp, and the same bits with any libm
that is good to a few ulp, which the float32 functions of different libms are not. A float64 function is the
libm's own (1 or 2 ulp for most; erfc 5, tgamma 10, lgamma and the Bessel functions absolute near their zeros).
"""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library.build import (
    F32,
    F64,
    I32,
    POINTER,
    VOID,
    DeviceFunction,
    Emitter,
    call,
    constant,
    fabs,
    fma,
    intrinsic,
)

_UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "log"),
    *("log10", "log1p", "log2", "sin", "sinh", "tan", "tanh", "tgamma", "j0", "j1", "y0", "y1"),
)
_BINARY = ["atan2", "fmod", "hypot", "pow", "remainder"]


def libm(b: ir.IRBuilder, name: str, *arguments: ir.Value) -> ir.Value:
    """A float64 function of libm."""
    return call(b, name, F64, *arguments)


def exp10(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """10^x; not every libm has an exp10."""
    return libm(b, "pow", constant(F64, 10.0), x)


def lgamma(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """log |gamma(x)|, by the form that writes no global sign (blocks run on many threads)."""
    with b.goto_entry_block():
        sign = b.alloca(I32)
    return libm(b, "lgamma_r", x, sign)


def rsqrt(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """1 / sqrt(x) of a double, with one correction by the exact residual 1 - x y^2: under 0.51 ulp."""
    y = b.fdiv(constant(F64, 1.0), intrinsic(b, "sqrt", x))
    # 1 - x y^2 in a form that neither overflows nor loses the low part of x y.
    p = b.fmul(x, y)
    low = fma(b, x, y, b.fneg(p))
    residual = fma(b, b.fneg(low), y, fma(b, b.fneg(p), y, constant(F64, 1.0)))
    better = fma(b, b.fmul(y, constant(F64, 0.5)), residual, y)
    regular = b.fcmp_ordered("<", fabs(b, residual), constant(F64, 2.0**-40))
    return b.select(regular, better, y)


def cbrt(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The cube root: libm's, which may be 3 ulp off, corrected by one Newton step with x - y^3 in two parts."""
    y = libm(b, "cbrt", x)
    square = b.fmul(y, y)
    square_low = fma(b, y, y, b.fneg(square))
    residual = b.fsub(fma(b, b.fneg(square), y, x), b.fmul(square_low, y))
    better = b.fadd(y, b.fdiv(residual, b.fmul(constant(F64, 3.0), square)))
    size = fabs(b, x)
    normal = b.and_(
        b.fcmp_ordered(">", size, constant(F64, 2.0**-900)), b.fcmp_ordered("<", size, constant(F64, 2.0**1000))
    )
    return b.select(normal, better, y)


def rcbrt(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """1 / cbrt(x) of a double, corrected by the residual 1 - x y^3; about 1 ulp."""
    y = b.fdiv(constant(F64, 1.0), libm(b, "cbrt", x))
    square = b.fmul(y, y)
    square_low = fma(b, y, y, b.fneg(square))
    product = b.fmul(x, y)
    product_low = fma(b, x, y, b.fneg(product))
    residual = fma(b, b.fneg(product), square, constant(F64, 1.0))
    residual = b.fsub(residual, fma(b, product_low, square, b.fmul(product, square_low)))
    better = fma(b, b.fmul(y, constant(F64, 1 / 3)), residual, y)
    regular = b.fcmp_ordered("<", fabs(b, residual), constant(F64, 2.0**-40))
    return b.select(regular, better, y)


def rhypot(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """1 / hypot(x, y)."""
    return b.fdiv(constant(F64, 1.0), libm(b, "hypot", x, y))


def _quarter_turn(b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """sin(pi r), cos(pi r) and n mod 4, where 2 x = n + 2 r exactly and |r| <= 1/4."""
    # From 2^54 on every double is an even integer, whole turns; twice the largest would overflow.
    huge = b.fcmp_ordered(">=", fabs(b, x), constant(F64, 2.0**54))
    x = b.select(huge, constant(F64, 0.0), x)
    n = intrinsic(b, "rint", b.fmul(x, constant(F64, 2.0)))
    r = fma(b, n, constant(F64, -0.5), x)
    angle = b.fmul(r, constant(F64, 3.141592653589793))
    quadrant = b.fsub(n, b.fmul(constant(F64, 4.0), intrinsic(b, "floor", b.fmul(n, constant(F64, 0.25)))))
    whole = call(b, "llvm.fptoui.sat.i32.f64", I32, quadrant)
    return libm(b, "sin", angle), libm(b, "cos", angle), whole


def sinpi(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """sin(pi x), about 1 ulp; an integral x gives a zero of its sign."""
    sine, cosine, quadrant = _quarter_turn(b, x)
    value = b.select(_is_odd(b, quadrant), cosine, sine)
    value = b.select(b.icmp_unsigned(">=", quadrant, constant(I32, 2)), b.fneg(value), value)
    integral = b.fcmp_ordered("==", intrinsic(b, "trunc", x), x)
    infinite = b.fcmp_ordered("==", fabs(b, x), constant(F64, float("inf")))
    zero = intrinsic(b, "copysign", constant(F64, 0.0), x)
    return b.select(b.and_(integral, b.not_(infinite)), zero, b.select(infinite, constant(F64, float("nan")), value))


def cospi(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """cos(pi x), about 1 ulp; +0 at half integers."""
    sine, cosine, quadrant = _quarter_turn(b, x)
    odd = _is_odd(b, quadrant)
    value = b.select(odd, sine, cosine)
    turned = b.add(quadrant, constant(I32, 1))
    negate = b.icmp_unsigned("==", b.and_(turned, constant(I32, 2)), constant(I32, 2))
    value = b.select(negate, b.fneg(value), value)
    value = b.fadd(value, constant(F64, 0.0))  # -0 becomes +0
    infinite = b.fcmp_ordered("==", fabs(b, x), constant(F64, float("inf")))
    return b.select(infinite, constant(F64, float("nan")), value)


def _is_odd(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.icmp_unsigned("==", b.and_(x, constant(I32, 1)), constant(I32, 1))


def _power_of_integer(b: ir.IRBuilder, x: ir.Value, n: ir.Value) -> ir.Value:
    return libm(b, "pow", x, b.sitofp(n, F64))


def norm(b: ir.IRBuilder, *x: ir.Value) -> ir.Value:
    """Euclidean norm of doubles, by hypot of hypots: no overflow of the squares, 1 ulp more for each."""
    result = x[0]
    for other in x[1:]:
        result = libm(b, "hypot", result, other)
    return result


def in_float32(emit) -> Emitter:
    """The float32 form of a float64 emitter: floats widened, the result rounded; i32 arguments pass."""

    def single(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
        return b.fptrunc(emit(b, *(b.fpext(a, F64) if a.type == F32 else a for a in arguments)), F32)

    return single


def _two_results(first, second, type_: ir.Type) -> Emitter:
    def emit(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        x, *pointers = arguments
        wide = b.fpext(x, F64) if type_ == F32 else x
        for function, pointer in zip((first, second), pointers):
            value = function(b, wide)
            b.store(b.fptrunc(value, F32) if type_ == F32 else value, pointer)

    return emit


def _functions() -> dict[str, DeviceFunction]:
    table: dict[str, DeviceFunction] = {}

    def both(name: str, parameters: tuple[ir.Type, ...], emit) -> None:
        table[f"__nv_{name}"] = DeviceFunction(F64, parameters, lambda b, a: emit(b, *a))
        singles = tuple(F32 if p == F64 else p for p in parameters)
        table[f"__nv_{name}f"] = DeviceFunction(F32, singles, in_float32(emit))

    for name in _UNARY:
        both(name, (F64,), lambda b, x, name=name: libm(b, name, x))
    for name in _BINARY:
        both(name, (F64, F64), lambda b, x, y, name=name: libm(b, name, x, y))
    for name in ("jn", "yn"):
        both(name, (I32, F64), lambda b, n, x, name=name: libm(b, name, n, x))
    for name, emit in (("exp10", exp10), ("lgamma", lgamma), ("cbrt", cbrt), ("rsqrt", rsqrt), ("rcbrt", rcbrt)):
        both(name, (F64,), emit)
    both("sinpi", (F64,), sinpi)
    both("cospi", (F64,), cospi)
    both("rhypot", (F64, F64), rhypot)
    both("powi", (F64, I32), _power_of_integer)
    for count in (3, 4):
        reciprocal = lambda b, *x: b.fdiv(constant(F64, 1.0), norm(b, *x))  # noqa: E731
        both(f"norm{count}d", (F64,) * count, norm)
        both(f"rnorm{count}d", (F64,) * count, reciprocal)
    sine, cosine = (lambda b, x, name=name: libm(b, name, x) for name in ("sin", "cos"))
    for name, pair in (("sincos", (sine, cosine)), ("sincospi", (sinpi, cospi))):
        for ending, type_ in (("", F64), ("f", F32)):
            parameters = (type_, POINTER, POINTER)
            table[f"__nv_{name}{ending}"] = DeviceFunction(VOID, parameters, _two_results(*pair, type_))
    return table


FUNCTIONS = _functions()
