"""How errors pass from the operands of an operation to its result.

Errors of different elements are independent until an operand is broadcast: the error of a row's mean, subtracted from
every element of the row, is one and the same random number in all of them. Such errors are kept apart as `Shared`:
their signed size per element, and the axes along which they are one number, along which a later sum adds them with
their signs. So the error of the mean cancels in a sum of x - mean, and counts in full in a sum that does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from refkit.numerics.rounding import RoundingModel
from refkit.numerics.sharing import Key, Shared, key, numbered
from refkit.numerics.tracked import Tracked

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


def equal_as_shared(a: Tracked) -> Tracked:
    """Return `a` with its independent errors shared along the axes along which all of its elements are equal.

    What is computed from a broadcast input comes out equal, and is rounded the same way in every element.
    """
    if a.independent is None:
        return a
    axes = constant_axes(a.value) & constant_axes(a.independent)
    if not axes:
        return a
    groups = numbered(tuple(1 if i - a.ndim in axes else n for i, n in enumerate(a.shape)))
    own = Shared(np.sqrt(a.independent), axes, groups)
    return Tracked(a.value, a.model, None, a.drift, shared={**a.shared, key(a.token, groups): own})


def constant_axes(x: Array) -> frozenset[int]:
    """Return the axes, counted from the last as -1, along which the elements of `x` are equal; none of length 1."""
    axes = set()
    for axis in range(-1, -x.ndim - 1, -1):
        if x.size and x.shape[axis] > 1:
            second = [0] * x.ndim
            second[axis] = 1
            # Two elements tell in most cases.
            if x.flat[0] == x[tuple(second)] and (x == np.take(x, [0], axis)).all():
                axes.add(axis)
    return frozenset(axes)


def inherit(variance: Array, *operands: tuple[Tracked, Array | float]) -> dict[Key, Shared]:
    """Add the independent errors of the operands to `variance`, in place, and return the shared ones of the result.

    Each operand comes with its slope, the derivative of the result by it; `variance` has the shape of the result.
    """
    shared: dict[Key, Shared] = {}
    operands = tuple((equal_as_shared(operand), slope) for operand, slope in operands)
    for operand, slope in operands:
        repeated = broadcast_axes(operand.shape, variance.shape)
        if operand.independent is not None:
            if repeated:
                groups = numbered(operand.shape)
                own = Shared(slope * np.sqrt(operand.independent), repeated, groups)
                _join(shared, key(operand.token, groups), own)
            else:
                variance += slope * slope * operand.independent
        for name, part in operand.shared.items():
            _join(shared, name, Shared(slope * part.deviation, part.axes | repeated, part.groups))
    for name in _met_elsewhere(*(operand.shared for operand, _ in operands)):
        shared[name] = shared[name].scaled(np.sqrt(2.0))
    return _limited(shared, variance)


def _met_elsewhere(*operands: Mapping[Key, Shared]) -> set[Key]:
    """Return the errors that two operands share at different places, as x and x.T do: their covariance is not followed,
    and the variance of a sum of two is at most twice the sum of their variances."""
    if len(operands) < 2:
        return set()
    a, b = operands
    return {
        name
        for first in a.keys() - b.keys()
        for second in b.keys() - a.keys()
        if first[0] is second[0] and np.isin(a[first].groups, b[second].groups).any()
        for name in (first, second)
    }


def _join(shared: dict[Key, Shared], name: Key, part: Shared) -> None:
    if name in shared:
        part = Shared(shared[name].deviation + part.deviation, shared[name].axes | part.axes, part.groups)
    shared[name] = part


def _limited(shared: dict[Key, Shared], variance: Array) -> dict[Key, Shared]:
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
    shared: Mapping[Key, Shared] | None = None,
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
    clean = {name: _finite(part, value) for name, part in (shared or {}).items()}
    return Tracked(value, model, variance, drift, shared=clean)


def _finite(part: Shared, value: Array) -> Shared:
    if np.isfinite(np.sum(part.deviation)):
        return part
    instead = np.where(np.isfinite(value), value, 0.0)
    return replace(part, deviation=np.where(np.isfinite(part.deviation), part.deviation, instead))


def choose(condition: Array, a: Tracked, b: Tracked, value: Array) -> Tracked:
    """Return the elements of `a` where `condition` holds, else those of `b`, given their `value`."""

    def part(first: Array | None, second: Array | None) -> Array | None:
        if first is None and second is None:
            return None
        chosen = np.where(condition, 0.0 if first is None else first, 0.0 if second is None else second)
        return chosen if np.shape(chosen) == value.shape else np.broadcast_to(chosen, value.shape).copy()

    shared: dict[Key, Shared] = {}
    for name, some in {**a.shared, **b.shared}.items():
        first, second = a.shared.get(name), b.shared.get(name)
        axes: frozenset[int] = frozenset()
        for operand, held in ((a, first), (b, second)):
            if held is not None:
                axes |= held.axes | broadcast_axes(operand.shape, value.shape)
        deviations = (0.0 if held is None else held.deviation for held in (first, second))
        shared[name] = Shared(np.where(condition, *deviations), axes, some.groups)
    return Tracked(value, a.model, part(a.independent, b.independent), part(a.drift, b.drift), shared=shared)


def summed(
    shared: Mapping[Key, Shared], shape: tuple[int, ...], axes: tuple[int, ...], variance: Array
) -> dict[Key, Shared]:
    """Return the shared errors of a sum over `axes` (not negative) of an array of `shape`.

    Along its own axes a shared error adds with its signs, and keeps its name: it may meet itself again. Along others it
    adds in quadrature; what is then shared no longer is added to `variance` in place, which has the shape of the result
    with the summed axes kept as 1.
    """
    ndim = len(shape)
    left: dict[Key, Shared] = {}
    for name, part in shared.items():
        own = {axis % ndim for axis in part.axes}
        full = np.broadcast_to(part.deviation, shape)
        total = full.sum(axis=tuple(own.intersection(axes)), keepdims=True)
        others = tuple(set(axes) - own)
        if others:
            total = np.sqrt((total * total).sum(axis=others, keepdims=True))
        remaining = frozenset(axis - ndim for axis in own - set(axes))
        if others and not remaining:
            variance += total * total
        elif others:
            groups = numbered(tuple(1 if axis - ndim in remaining else n for axis, n in enumerate(total.shape)))
            left[key(object(), groups)] = Shared(total, remaining, groups)
        else:
            groups = part.groups.reshape((1,) * (ndim - part.groups.ndim) + part.groups.shape)
            left[name] = Shared(total, remaining, groups)
    return left
