"""How errors pass from the operands of an operation to its result.

Errors of different elements are independent until an operand is broadcast: the error of a row's mean, subtracted from
every element of the row, is one and the same random number in all of them. Such errors are kept apart as `Shared`:
their signed size per element, and the axes along which they are one number, along which a later sum adds them with
their signs. So the error of the mean cancels in a sum of x - mean, and counts in full in a sum that does not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import Shared, Tracked

Array = np.ndarray
MOST_SHARED = 8


def plus(a: Array | None, b: Array | None) -> Array | None:
    """Return a + b, where None is zero."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def scaled(a: Array | None, factor: Array | float) -> Array | None:
    """Return a * factor, where None is zero."""
    return None if a is None else a * factor


def broadcast_axes(shape: tuple[int, ...], result: tuple[int, ...]) -> frozenset[int]:
    """Return the axes, counted from the last as -1, along which an operand of `shape` is repeated in `result`."""
    return frozenset(
        -i for i in range(1, len(result) + 1) if result[-i] > 1 and (i > len(shape) or shape[-i] != result[-i])
    )


def inherit(variance: Array, *operands: tuple[Tracked, Array | float]) -> dict[object, Shared]:
    """Add the independent errors of the operands to `variance`, in place, and return the shared ones of the result.

    Each operand comes with its slope, the derivative of the result by it; `variance` has the shape of the result.
    """
    shared: dict[object, Shared] = {}
    for operand, slope in operands:
        repeated = broadcast_axes(operand.shape, variance.shape)
        if operand.independent is not None:
            if repeated:
                _join(shared, operand.token, slope * np.sqrt(operand.independent), repeated)
            else:
                variance += slope * slope * operand.independent
        for token, part in operand.shared.items():
            _join(shared, token, slope * part.deviation, part.axes | repeated)
    return _limited(shared, variance)


def _join(shared: dict[object, Shared], token: object, deviation: Array, axes: frozenset[int]) -> None:
    if token in shared:
        deviation, axes = shared[token].deviation + deviation, shared[token].axes | axes
    shared[token] = Shared(deviation, axes)


def _limited(shared: dict[object, Shared], variance: Array) -> dict[object, Shared]:
    """Count all but the latest few shared errors as independent ones."""
    while len(shared) > MOST_SHARED:
        oldest = shared.pop(next(iter(shared)))
        variance += oldest.deviation**2
    return shared


def finish(
    value: Array,
    variance: Array | None,
    drift: Array | None,
    model: RoundingModel,
    shared: Mapping[object, Shared] | None = None,
) -> Tracked:
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
    if drift is not None:
        if not np.isfinite(np.max(drift, initial=0.0)):
            drift = np.where(np.isfinite(drift) & np.isfinite(value), drift, 0.0)
        if drift.shape != value.shape:
            drift = np.broadcast_to(drift, value.shape).copy()
    clean = {token: _finite(part, value) for token, part in (shared or {}).items()}
    return Tracked(value, model, variance, drift, shared=clean)


def _finite(part: Shared, value: Array) -> Shared:
    if np.isfinite(np.sum(part.deviation)):
        return part
    instead = np.where(np.isfinite(value), value, 0.0)
    return Shared(np.where(np.isfinite(part.deviation), part.deviation, instead), part.axes)


def choose(condition: Array, a: Tracked, b: Tracked, value: Array) -> Tracked:
    """Return the elements of `a` where `condition` holds, else those of `b`, given their `value`."""

    def part(first: Array | None, second: Array | None) -> Array | None:
        if first is None and second is None:
            return None
        chosen = np.where(condition, 0.0 if first is None else first, 0.0 if second is None else second)
        return chosen if np.shape(chosen) == value.shape else np.broadcast_to(chosen, value.shape).copy()

    shared: dict[object, Shared] = {}
    for token in {**a.shared, **b.shared}:
        first, second = a.shared.get(token), b.shared.get(token)
        axes: frozenset[int] = frozenset()
        for operand, held in ((a, first), (b, second)):
            if held is not None:
                axes |= held.axes | broadcast_axes(operand.shape, value.shape)
        deviations = (0.0 if held is None else held.deviation for held in (first, second))
        shared[token] = Shared(np.where(condition, *deviations), axes)
    return Tracked(value, a.model, part(a.independent, b.independent), part(a.drift, b.drift), shared=shared)


def summed(
    shared: Mapping[object, Shared], shape: tuple[int, ...], axes: tuple[int, ...], variance: Array
) -> dict[object, Shared]:
    """Return the shared errors of a sum over `axes` (not negative) of an array of `shape`.

    Along its own axes a shared error adds with its signs, and keeps its name: it may meet itself again. Along others it
    adds in quadrature; what is then shared no longer is added to `variance` in place, which has the shape of the result
    with the summed axes kept as 1.
    """
    ndim = len(shape)
    left: dict[object, Shared] = {}
    for token, part in shared.items():
        own = {axis % ndim for axis in part.axes}
        full = np.broadcast_to(part.deviation, shape)
        total = full.sum(axis=tuple(own.intersection(axes)), keepdims=True)
        others = tuple(set(axes) - own)
        if others:
            total = np.sqrt((total * total).sum(axis=others, keepdims=True))
        remaining = frozenset(axis - ndim for axis in own - set(axes))
        if others and not remaining:
            variance += total * total
        else:
            left[object() if others else token] = Shared(total, remaining)
    return left
