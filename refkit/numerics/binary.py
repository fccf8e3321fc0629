"""Error rules of elementwise functions of two operands: `BINARY` maps a ufunc to its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from refkit.numerics.propagation import choose, finish, inherit, plus, scaled
from refkit.numerics.rounding import LAMBDA, NEAREST_ZERO
from refkit.numerics.tracked import CannotTrack, Tracked

Array = np.ndarray


def _linear(function: np.ufunc) -> Callable[[Tracked, Tracked], Tracked]:
    sign = 1.0 if function is np.add else -1.0

    def rule(a: Tracked, b: Tracked) -> Tracked:
        value = np.asarray(function(a.value, b.value))
        if a is b:
            # Doubling and cancelling are exact.
            variance = np.zeros(value.shape)
            shared = inherit(variance, (a, 1 + sign))
            return Tracked(value, a.model, variance, scaled(a.drift, 1 + sign), shared=shared)
        variance = a.model.rounding(value)
        shared = inherit(variance, (a, 1.0), (b, sign))
        return finish(value, variance, plus(a.drift, b.drift), a.model, shared)

    return rule


def _squared_error(a: Tracked) -> Array:
    if a.drift is None and a.variance is not None:
        return a.variance
    return a.deviation**2


def _relatively_exact(a: Tracked) -> bool:
    """Tell whether no error of `a` reaches a hundredth of its value; asked of small operands, where asking is cheap."""
    if a.exact:
        return True
    return a.size <= 4096 and bool(np.all(1e4 * LAMBDA * LAMBDA * _squared_error(a) <= a.value * a.value))


def multiply(a: Tracked, b: Tracked) -> Tracked:
    """Return a * b; one array times itself has a doubled error, and the square of the error as a drift."""
    x, y, model = a.value, b.value, a.model
    value = np.asarray(x * y)
    variance = model.rounding(value)
    variance += model.underflow
    if a is b:
        if a.exact:
            return finish(value, variance, None, model)
        shared = inherit(variance, (a, 2 * x))
        drift = scaled(a.drift, 2 * np.abs(x))
        # Squaring shifts the mean by the variance of the error, which later sums cannot average away.
        second = LAMBDA * _squared_error(a)
        if (second * second > 0.01 * variance).any():
            drift = plus(drift, second)
        return finish(value, variance, drift, model, shared)
    shared = inherit(variance, (a, y), (b, x))
    if not (_relatively_exact(a) or _relatively_exact(b)):
        # The product of both errors counts where both factors are small.
        variance += (LAMBDA * LAMBDA * _squared_error(b)) * _squared_error(a)
    drift = plus(scaled(a.drift, np.abs(y)), scaled(b.drift, np.abs(x)))
    return finish(value, variance, drift, model, shared)


def divide(a: Tracked, b: Tracked) -> Tracked:
    """Return a / b."""
    y, model = b.value, a.model
    value = np.asarray(a.value / y)
    variance = model.rounding(value, 2.0 if model.precision.fast_math else 1.0)
    variance += model.underflow
    if a is b:
        return finish(value, None, None, model)
    slope = 1 / y
    if b.exact:
        shared = inherit(variance, (a, slope))
        return finish(value, variance, scaled(a.drift, np.abs(slope)), model, shared)
    # Over LAMBDA deviations the divisor may come closer to zero, by a factor of at most NEAREST_ZERO.
    relative = LAMBDA * b.deviation * np.abs(slope)
    most = 1 - 1 / NEAREST_ZERO
    held = np.minimum(relative, most)
    slope_b = -value * slope / (1 - held)
    if (relative > most).any():
        slope_b = np.where(relative > most, slope_b * (most / relative), slope_b)
    slope = slope / (1 - held)
    shared = inherit(variance, (a, slope), (b, slope_b))
    drift = plus(scaled(a.drift, np.abs(slope)), scaled(b.drift, np.abs(slope_b)))
    return finish(value, variance, drift, model, shared)


def power(a: Tracked, b: Tracked) -> Any:
    """Return a ** b; integer powers 1, 2 and 3 and the roots are exact products and square roots."""
    if b.ndim == 0 and b.exact:
        simple: dict[float, Callable[[], Any]] = {
            1.0: lambda: a,
            2.0: lambda: multiply(a, a),
            3.0: lambda: multiply(multiply(a, a), a),
            0.5: lambda: np.sqrt(a),
            -1.0: lambda: np.reciprocal(a),
            -0.5: lambda: np.reciprocal(np.sqrt(a)),
        }
        if float(b.value) in simple:
            return simple[float(b.value)]()
    value = np.asarray(np.power(a.value, b.value))
    logarithm = np.log(np.abs(a.value))
    ulps: float | Array = 4.0
    if a.model.precision.fast_math:
        ulps = 4 + 2 * np.abs(b.value * logarithm)
    # powf is within 4 ulp; kernels also write exp(y log x), whose error grows with |y log x|.
    variance = a.model.rounding(value, ulps) + a.model.underflow
    slope = b.value * value / a.value
    slope_b = value * logarithm
    shared = inherit(variance, (a, slope), (b, slope_b))
    drift = plus(scaled(a.drift, np.abs(slope)), scaled(b.drift, np.abs(slope_b)))
    return finish(value, variance, drift, a.model, shared)


def _extreme(function: np.ufunc, prefers: np.ufunc) -> Callable[[Tracked, Tracked], Tracked]:
    """Rule of maximum and minimum: the error of the operand chosen; near a tie, the larger of the two errors."""

    def rule(a: Tracked, b: Tracked) -> Tracked:
        value = np.asarray(function(a.value, b.value))
        result = choose(prefers(a.value, b.value), a, b, value)
        if a.exact and b.exact:
            return result
        reach_a, reach_b = a.deviation, b.deviation
        near = np.abs(a.value - b.value) <= LAMBDA * (reach_a + reach_b)
        if not near.any():
            return result
        larger = np.where(near, np.maximum(reach_a, reach_b), result.deviation)
        return Tracked(value, a.model, larger**2)

    return rule


def _logaddexp(a: Tracked, b: Tracked) -> Tracked:
    value = np.asarray(np.logaddexp(a.value, b.value))
    weight = special.expit(a.value - b.value)
    variance = a.model.rounding(value, 4) + a.model.rounding(np.exp(-np.abs(a.value - b.value)), 4)
    shared = inherit(variance, (a, weight), (b, 1 - weight))
    drift = plus(scaled(a.drift, weight), scaled(b.drift, 1 - weight))
    return finish(value, variance, drift, a.model, shared)


def _copysign(a: Tracked, b: Tracked) -> Tracked:
    if not b.exact:
        raise CannotTrack("np.copysign with a computed sign has no rule in the error model")
    value = np.copysign(a.value, b.value)
    return choose(np.ones(value.shape, bool), a, a, value)


def _hypot(a: Tracked, b: Tracked) -> Tracked:
    result = np.sqrt(multiply(a, a) + multiply(b, b))
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
