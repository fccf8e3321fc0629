"""Error rules of elementwise functions: `UNARY` and `BINARY` map a ufunc to its rule.

Documented maximum errors (in ulp) are those of CUDA's float32 functions, from the CUDA programming guide; arithmetic
and square roots are correctly rounded, except under fast math.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from refkit.numerics.rounding import LAMBDA, RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked

Array = np.ndarray
Ulps = Callable[[Array, Array], "float | Array"]


def finish(value: Array, variance: Array | None, drift: Array | None, model: RoundingModel) -> Tracked:
    """Return the result of an operation, its error made safe where the value is not finite or overflows.

    Values that are not finite carry no error; finite ones beyond the accumulation format, which are infinite in the
    kernel, carry an infinite one; any other error that is not finite becomes as large as the value.
    """
    if variance is not None:
        top = np.max(variance, initial=0.0)
        if not top < model.unit_variance * model.largest * model.largest:
            beyond = np.isfinite(value) & (np.abs(value) > model.largest)
            variance = np.where(np.isfinite(variance), variance, value * value)
            variance = np.where(np.isfinite(value), variance, 0.0)
            variance = np.where(beyond, np.inf, variance)
    if drift is not None and not np.isfinite(np.max(drift, initial=0.0)):
        drift = np.where(np.isfinite(drift), drift, 0.0)
    return Tracked(value, model, variance, drift)


def _plus(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _scaled(a: Array | None, factor: Array | float) -> Array | None:
    return None if a is None else a * factor


# One operand


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
        drift = None
        if not a.exact:
            slope = derivative(x, value)
            if a.variance is not None:
                variance = variance + slope * slope * a.variance
            drift = _scaled(a.drift, np.abs(slope))
            variance = _with_large_errors(a, function, value, variance, relative)
        return finish(value, variance, drift, model)

    return rule


def _with_large_errors(a: Tracked, function: np.ufunc, value: Array, variance: Array, relative: bool) -> Array:
    """Raise `variance` where the error of `a` is too large for a first derivative (or the derivative vanishes)."""
    reach = LAMBDA * a.deviation
    large = reach > (1e-3 * np.abs(a.value) if relative else 1e-4)
    large &= np.isfinite(reach) & np.isfinite(a.value)
    if not large.any():
        return variance
    x, step, v = a.value[large], reach[large], value[large]
    below = np.maximum(x - step, np.minimum(x, x / 64)) if relative else x - step
    change = np.fmax(np.abs(function(x + step) - v), np.abs(function(below) - v)) / LAMBDA
    variance = variance.copy()
    variance[large] = np.fmax(variance[large], change * change)
    return variance


def _keep_sign(function: np.ufunc) -> Callable[[Tracked], Tracked]:
    return lambda a: Tracked(function(a.value), a.model, a.variance, a.drift)


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
    np.negative: _keep_sign(np.negative),
    np.positive: _keep_sign(np.positive),
    np.absolute: _keep_sign(np.absolute),
    np.fabs: _keep_sign(np.fabs),
    np.conjugate: _keep_sign(np.positive),
    np.square: _square,
    np.sqrt: _unary(np.sqrt, lambda x, v: 0.5 / v, 1, 2, relative=True),
    np.cbrt: _unary(np.cbrt, lambda x, v: v / (3 * x), 1, relative=True),
    np.reciprocal: _unary(np.reciprocal, lambda x, v: v * v, 1, 2, relative=True),
    np.exp: _unary(np.exp, lambda x, v: v, 2, _exp_fast),
    np.exp2: _unary(np.exp2, lambda x, v: v * np.log(2), 2, 2),
    np.expm1: _unary(np.expm1, lambda x, v: v + 1, 2),
    np.log: _unary(np.log, lambda x, v: 1 / x, 1, _log_fast, relative=True),
    np.log2: _unary(np.log2, lambda x, v: 1 / (x * np.log(2)), 1, _log_fast, relative=True),
    np.log10: _unary(np.log10, lambda x, v: 1 / (x * np.log(10)), 2, _log_fast, relative=True),
    np.log1p: _unary(np.log1p, lambda x, v: 1 / (1 + x), 1),
    np.sin: _unary(np.sin, lambda x, v: np.cos(x), 2, _trigonometric_fast),
    np.cos: _unary(np.cos, lambda x, v: np.sin(x), 2, _trigonometric_fast),
    np.tan: _unary(np.tan, lambda x, v: 1 + v * v, 4, _trigonometric_fast),
    np.sinh: _unary(np.sinh, lambda x, v: np.cosh(x), 3),
    np.cosh: _unary(np.cosh, lambda x, v: np.sinh(x), 2),
    np.tanh: _unary(np.tanh, lambda x, v: 1 - v * v, 2, 2.0**13 * np.sqrt(3) / 4),
    np.arcsin: _unary(np.arcsin, lambda x, v: 1 / np.sqrt(1 - x * x), 2),
    np.arccos: _unary(np.arccos, lambda x, v: 1 / np.sqrt(1 - x * x), 2),
    np.arctan: _unary(np.arctan, lambda x, v: 1 / (1 + x * x), 2),
    special.expit: _unary(special.expit, lambda x, v: v * (1 - v), 4, lambda x, v: 4 + _exp_fast(x, v), composed=True),
    special.erf: _unary(special.erf, lambda x, v: 2 / np.sqrt(np.pi) * np.exp(-x * x), 2),
    special.erfc: _unary(special.erfc, lambda x, v: 2 / np.sqrt(np.pi) * np.exp(-x * x), 4, composed=True),
    special.ndtr: _unary(special.ndtr, lambda x, v: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), 4, composed=True),
    special.log_expit: _unary(special.log_expit, lambda x, v: special.expit(-x), 4),
}
UNARY |= {function: _stepwise(function) for function in (np.floor, np.ceil, np.trunc, np.rint, np.sign)}

# Two operands


def _linear(function: np.ufunc) -> Callable[[Tracked, Tracked], Tracked]:
    def rule(a: Tracked, b: Tracked) -> Tracked:
        value = np.asarray(function(a.value, b.value))
        if a is b:
            factor = 2.0 if function is np.add else 0.0
            doubled = _scaled(a.variance, factor * factor), _scaled(a.drift, factor)
            return Tracked(value, a.model, *doubled)
        variance = a.model.rounding(value)
        for part in (a.variance, b.variance):
            if part is not None:
                variance += part
        return finish(value, variance, _whole(_plus(a.drift, b.drift), value), a.model)

    return rule


def _squared_error(a: Tracked) -> Array:
    if a.drift is None and a.variance is not None:
        return a.variance
    return a.deviation**2


def _whole(drift: Array | None, value: Array) -> Array | None:
    return None if drift is None else np.broadcast_to(drift, value.shape)


def multiply(a: Tracked, b: Tracked) -> Tracked:
    """Return a * b; one array times itself has a doubled error, and the square of the error as a drift."""
    x, y, model = a.value, b.value, a.model
    value = np.asarray(x * y)
    variance = model.rounding(value)
    variance += model.underflow
    if a is b:
        if a.exact:
            return finish(value, variance, None, model)
        squared_error = _squared_error(a)
        if a.variance is not None:
            variance += 4 * value * a.variance
        drift = _scaled(a.drift, 2 * np.abs(x))
        # Squaring shifts the mean by the variance of the error, which later sums cannot average away.
        second = LAMBDA * squared_error
        if (second * second > 0.01 * variance).any():
            drift = _plus(drift, second)
        return finish(value, variance, drift, model)
    if a.variance is not None:
        factor = y * y
        if b.variance is not None:
            factor = factor + LAMBDA * LAMBDA * b.variance  # the product of both errors, where neither factor is large
        variance += factor * a.variance
    if b.variance is not None:
        factor = x * x
        variance += factor * b.variance
    drift = _plus(_scaled(a.drift, np.abs(y)), _scaled(b.drift, np.abs(x)))
    if drift is not None and not a.exact and not b.exact:
        drift = drift + LAMBDA * a.deviation * b.deviation
    return finish(value, variance, drift, model)


def divide(a: Tracked, b: Tracked) -> Tracked:
    """Return a / b."""
    y, model = b.value, a.model
    value = np.asarray(a.value / y)
    variance = model.rounding(value, 2.0 if model.precision.fast_math else 1.0)
    variance += model.underflow
    if a is b:
        return finish(value, None, None, model)
    inverse = 1 / y
    slope = inverse
    if not b.exact:
        # Over LAMBDA deviations the divisor may come closer to zero, but not below a 64th of itself.
        shrunk = 1 - np.minimum(LAMBDA * b.deviation * np.abs(inverse), 63 / 64)
        slope = value * inverse / shrunk
        if b.variance is not None:
            variance += slope * slope * b.variance
        slope_a = inverse / shrunk
    else:
        slope_a = inverse
    if a.variance is not None:
        variance += slope_a * slope_a * a.variance
    drift = _plus(_scaled(a.drift, np.abs(slope_a)), _scaled(b.drift, np.abs(slope)))
    return finish(value, variance, _whole(drift, value), model)


def power(a: Tracked, b: Tracked) -> Tracked:
    """Return a ** b; integer powers 1, 2 and 3 and the roots are exact products and square roots."""
    if b.ndim == 0 and b.exact:
        exponent = float(b.value)
        if exponent == 1:
            return a
        if exponent == 2:
            return _square(a)
        if exponent == 3:
            return multiply(_square(a), a)
        if exponent == 0.5:
            return UNARY[np.sqrt](a)
        if exponent == -1:
            return UNARY[np.reciprocal](a)
    value = np.asarray(np.power(a.value, b.value))
    logarithm = np.log(np.abs(a.value))
    ulps: float | Array = 4.0
    if a.model.precision.fast_math:
        ulps = 4 + 2 * np.abs(b.value * logarithm)
    # powf is within 4 ulp; kernels also write exp(y log x), whose error grows with |y log x|.
    variance = a.model.rounding(value, ulps) + a.model.underflow
    slope = b.value * value / a.value
    slope_b = value * logarithm
    for part, operand_slope in ((a, slope), (b, slope_b)):
        if part.variance is not None:
            variance = variance + operand_slope * operand_slope * part.variance
    drift = _plus(_scaled(a.drift, np.abs(slope)), _scaled(b.drift, np.abs(slope_b)))
    return finish(value, variance, _whole(drift, value), a.model)


def choose(condition: Array, a: Tracked, b: Tracked, value: Array) -> Tracked:
    """Return the elements of `a` where `condition` holds, else those of `b`, given their `value`."""

    def part(name: str) -> Array | None:
        first, second = getattr(a, name), getattr(b, name)
        if first is None and second is None:
            return None
        return np.where(condition, 0.0 if first is None else first, 0.0 if second is None else second)

    return Tracked(value, a.model, part("variance"), part("drift"))


def _extreme(function: np.ufunc, prefers: np.ufunc) -> Callable[[Tracked, Tracked], Tracked]:
    """Rule of maximum and minimum: the error of the operand chosen; near a tie, the larger of the two errors."""

    def rule(a: Tracked, b: Tracked) -> Tracked:
        value = np.asarray(function(a.value, b.value))
        result = choose(prefers(a.value, b.value), a, b, value)
        if a.exact and b.exact:
            return result
        reach_a, reach_b = a.deviation, b.deviation
        near = np.abs(a.value - b.value) <= LAMBDA * (reach_a + reach_b)
        if near.any() and result.variance is not None:
            larger = np.maximum(reach_a, reach_b) ** 2
            result.variance = np.where(near, np.maximum(result.variance, larger), result.variance)
        return result

    return rule


def _logaddexp(a: Tracked, b: Tracked) -> Tracked:
    value = np.asarray(np.logaddexp(a.value, b.value))
    weight = special.expit(a.value - b.value)
    variance = a.model.rounding(value, 4) + a.model.rounding(np.exp(-np.abs(a.value - b.value)), 4)
    if a.variance is not None:
        variance = variance + weight * weight * a.variance
    if b.variance is not None:
        variance = variance + (1 - weight) ** 2 * b.variance
    drift = _plus(_scaled(a.drift, weight), _scaled(b.drift, 1 - weight))
    return finish(value, variance, _whole(drift, value), a.model)


def _copysign(a: Tracked, b: Tracked) -> Tracked:
    if not b.exact:
        raise CannotTrack("np.copysign with a computed sign has no rule in the error model")
    value = np.copysign(a.value, b.value)
    return choose(np.ones(value.shape, bool), a, a, value)


def _hypot(a: Tracked, b: Tracked) -> Tracked:
    result = UNARY[np.sqrt](BINARY[np.add](multiply(a, a), multiply(b, b)))
    return Tracked(np.hypot(a.value, b.value), a.model, result.variance, result.drift)


def _heaviside(a: Tracked, b: Tracked) -> Tracked:
    value = np.asarray(np.heaviside(a.value, b.value))
    at_zero = choose(a.value == 0, b, Tracked(np.float64(0.0), a.model), value)
    jump = LAMBDA * a.deviation > np.abs(a.value)
    return finish(value, at_zero.deviation**2 + jump / LAMBDA**2, None, a.model)


BINARY: dict[np.ufunc, Callable[[Tracked, Tracked], Tracked]] = {
    np.add: _linear(np.add),
    np.subtract: _linear(np.subtract),
    np.multiply: multiply,
    np.divide: divide,
    np.power: power,
    np.float_power: power,
    np.maximum: _extreme(np.maximum, np.greater_equal),
    np.minimum: _extreme(np.minimum, np.less_equal),
    np.fmax: _extreme(np.fmax, np.greater_equal),
    np.fmin: _extreme(np.fmin, np.less_equal),
    np.logaddexp: _logaddexp,
    np.copysign: _copysign,
    np.hypot: _hypot,
    np.heaviside: _heaviside,
}
