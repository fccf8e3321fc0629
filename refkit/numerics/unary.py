"""Error rules of elementwise functions of one operand: `UNARY` maps a ufunc to its rule.

Documented maximum errors (in ulp) are those of CUDA's float32 functions, from the CUDA programming guide; arithmetic
and square roots are correctly rounded, except under fast math.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from refkit.numerics.binary import multiply
from refkit.numerics.propagation import finish, inherit, scaled
from refkit.numerics.rounding import LAMBDA, NEAREST_ZERO
from refkit.numerics.tracked import Tracked

Array = np.ndarray
Ulps = Callable[[Array, Array], "float | Array"]


def _unary(
    function: np.ufunc,
    derivative: Callable[[Array, Array], Array],
    ulps: float | Ulps,
    fast: float | Ulps | None = None,
    relative: bool = False,
    composed: bool = False,
) -> Callable[[Tracked], Tracked]:
    """Return the rule of `function`: its `derivative(x, f(x))`, its error in ulps, and that under fast math.

    `relative` says that the function's scale of change is |x| (roots, logarithms), not 1; `composed` that kernels make
    it of others, which may overflow on the way to a result that then is 0 instead of subnormal.
    """

    def rule(a: Tracked) -> Tracked:
        x, model = a.value, a.model
        value = np.asarray(function(x))
        multiple = fast if fast is not None and model.precision.fast_math else ulps
        variance = model.rounding(value, multiple(x, value) if callable(multiple) else multiple)
        variance += model.flush if composed else model.underflow
        if a.exact:
            return finish(value, variance, None, model)
        slope = np.asarray(derivative(x, value), np.float64)
        slope = _slope_over_large_errors(a, function, value, slope, relative)
        shared = inherit(variance, (a, slope))
        return finish(value, variance, scaled(a.drift, np.abs(slope)), model, shared)

    return rule


def _slope_over_large_errors(a: Tracked, function: np.ufunc, value: Array, slope: Array, relative: bool) -> Array:
    """Return `slope`, but that of the chord over LAMBDA deviations where the error of `a` is too large for it."""
    reach = LAMBDA * a.deviation
    large = reach > (1e-3 * np.abs(a.value) if relative else 1e-4)
    large &= np.isfinite(reach) & np.isfinite(a.value)
    if not large.any():
        return slope
    x, step, v = a.value[large], reach[large], value[large]
    below = np.maximum(x - step, np.minimum(x, x / NEAREST_ZERO)) if relative else x - step
    change = np.fmax(np.abs(function(x + step) - v), np.abs(function(below) - v))
    slope = slope.copy()
    slope[large] = np.copysign(change / step, slope[large])
    return slope


def _signed(function: np.ufunc, sign: Callable[[Array], Array | float]) -> Callable[[Tracked], Tracked]:
    """Rule of functions that at most change the sign."""

    def rule(a: Tracked) -> Tracked:
        shared = {name: part.scaled(sign(a.value)) for name, part in a.shared.items()}
        return Tracked(function(a.value), a.model, a.independent, a.drift, shared=shared)

    return rule


def _square(a: Tracked) -> Tracked:
    return multiply(a, a)


def _stepwise(function: np.ufunc) -> Callable[[Tracked], Tracked]:
    """Rule of functions that jump (floor, sign): an error only where the operand's reaches across a jump."""

    def rule(a: Tracked) -> Tracked:
        value = np.asarray(function(a.value))
        if a.exact:
            return Tracked(value, a.model)
        reach = LAMBDA * a.deviation
        jump = np.fmax(np.abs(function(a.value + reach) - value), np.abs(function(a.value - reach) - value)) / LAMBDA
        return finish(value, jump * jump, None, a.model)

    return rule


def _trigonometric_fast(x: Array, value: Array) -> Array:
    # sin.approx and cos.approx have an absolute error of 2**-20.9; in units of the rounding of the result.
    return 2.0**-20.9 / LAMBDA / (np.maximum(np.abs(value), 1e-30) * 2.0**-24 / np.sqrt(3)) * np.maximum(1, np.abs(x))


def _log_fast(x: Array, value: Array) -> Array:
    return 3 + 2.0**-21 / LAMBDA / (np.maximum(np.abs(value), 1e-30) * 2.0**-24 / np.sqrt(3))


def _exp_fast(x: Array, value: Array) -> Array:
    return np.minimum(2 + 1.173 * np.abs(x), 1e6)


UNARY: dict[np.ufunc, Callable[[Tracked], Tracked]] = {
    np.negative: _signed(np.negative, lambda x: -1.0),
    np.positive: _signed(np.positive, lambda x: 1.0),
    np.absolute: _signed(np.absolute, np.sign),
    np.fabs: _signed(np.fabs, np.sign),
    np.conjugate: _signed(np.positive, lambda x: 1.0),
    np.square: _square,
    np.sqrt: _unary(np.sqrt, lambda x, v: 0.5 / v, 1, 2, relative=True),
    np.cbrt: _unary(np.cbrt, lambda x, v: v / (3 * x), 1, relative=True),
    np.reciprocal: _unary(np.reciprocal, lambda x, v: -v * v, 1, 2, relative=True),
    np.exp: _unary(np.exp, lambda x, v: v, 2, _exp_fast),
    np.exp2: _unary(np.exp2, lambda x, v: v * np.log(2), 2, 2),
    np.expm1: _unary(np.expm1, lambda x, v: v + 1, 2),
    np.log: _unary(np.log, lambda x, v: 1 / x, 1, _log_fast, relative=True),
    np.log2: _unary(np.log2, lambda x, v: 1 / (x * np.log(2)), 1, _log_fast, relative=True),
    np.log10: _unary(np.log10, lambda x, v: 1 / (x * np.log(10)), 2, _log_fast, relative=True),
    np.log1p: _unary(np.log1p, lambda x, v: 1 / (1 + x), 1),
    np.sin: _unary(np.sin, lambda x, v: np.cos(x), 2, _trigonometric_fast),
    np.cos: _unary(np.cos, lambda x, v: -np.sin(x), 2, _trigonometric_fast),
    np.tan: _unary(np.tan, lambda x, v: 1 + v * v, 4, _trigonometric_fast),
    np.sinh: _unary(np.sinh, lambda x, v: np.cosh(x), 3),
    np.cosh: _unary(np.cosh, lambda x, v: np.sinh(x), 2),
    np.tanh: _unary(np.tanh, lambda x, v: 1 - v * v, 2, 2.0**13 * np.sqrt(3) / 4),
    np.arcsin: _unary(np.arcsin, lambda x, v: 1 / np.sqrt(1 - x * x), 2),
    np.arccos: _unary(np.arccos, lambda x, v: -1 / np.sqrt(1 - x * x), 2),
    np.arctan: _unary(np.arctan, lambda x, v: 1 / (1 + x * x), 2),
    special.expit: _unary(special.expit, lambda x, v: v * (1 - v), 4, lambda x, v: 4 + _exp_fast(x, v), composed=True),
    special.erf: _unary(special.erf, lambda x, v: 2 / np.sqrt(np.pi) * np.exp(-x * x), 2),
    special.erfc: _unary(special.erfc, lambda x, v: -2 / np.sqrt(np.pi) * np.exp(-x * x), 4, composed=True),
    special.ndtr: _unary(special.ndtr, lambda x, v: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), 4, composed=True),
    special.log_expit: _unary(special.log_expit, lambda x, v: special.expit(-x), 4),
}
UNARY |= {function: _stepwise(function) for function in (np.floor, np.ceil, np.trunc, np.rint, np.sign)}
