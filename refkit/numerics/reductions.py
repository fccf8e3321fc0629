"""Error rules of ufunc methods: reduce, accumulate, reduceat, and the scatter of `ufunc.at`.

`METHODS` maps (ufunc, method) to its rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.numerics.accumulation import prefix_error, scatter_error, sum_error
from refkit.numerics.propagation import choose, finish, plus, summed
from refkit.numerics.rounding import LAMBDA
from refkit.numerics.sharing import Shared
from refkit.numerics.tracked import CannotTrack, Tracked

Array = np.ndarray
_NONE: Any = np._NoValue


def normalized_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return `axis` (None, an integer or a tuple) as a tuple of non-negative axes."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        if not -ndim <= a < ndim:
            raise ValueError(f"axis {a} is out of bounds for an array of {ndim} dimensions")
    return tuple(int(a) % ndim for a in axes)


def _lined_up(x: Array, axes: tuple[int, ...]) -> Array:
    """Return `x` with the reduced `axes` flattened into the last one, in C order."""
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = x.transpose(kept + list(axes))
    return moved.reshape(*(x.shape[i] for i in kept), math.prod(x.shape[i] for i in axes))


def _shape_after(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def add_reduce(
    a: Tracked, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NONE,
    where: Any = True,
) -> Tracked:  # fmt: skip
    """Return the sum of `a` over `axis`, with the error of summing in any order."""
    a = _masked(a, where, 0.0)
    axes = normalized_axes(axis, a.ndim)
    if not axes:
        return a.copy()
    shape = _shape_after(a.shape, axes, keepdims is True)
    with np.errstate(all="ignore"):
        lines = _lined_up(a.value, axes)
        total = np.asarray(lines.sum(axis=-1))
        if a.exact and lines.shape[-1] <= 1:
            result = Tracked(total.reshape(shape), a.model)
        else:
            variance, drift = sum_error(lines, total, a.model)
            variance = variance.reshape(_shape_after(a.shape, axes, True))
            if a.independent is not None:
                variance += a.independent.sum(axis=axes, keepdims=True)
            shared = summed(a.shared, a.shape, axes, variance)
            if keepdims is not True:
                shared = {token: _without_axes(part, axes, a.ndim) for token, part in shared.items()}
            if a.drift is not None:
                inherited = a.drift.sum(axis=axes)
                drift = inherited if drift is None else drift + inherited
            drift = None if drift is None else drift.reshape(shape)
            result = finish(total.reshape(shape), variance.reshape(shape), drift, a.model, shared)
    return result if initial is _NONE or initial is None else result + initial


def _without_axes(part: Shared, axes: tuple[int, ...], ndim: int) -> Shared:
    """Return a shared error with the summed axes, of length 1, taken out."""
    own = frozenset(axis + sum(1 for summed_axis in axes if summed_axis - ndim > axis) for axis in part.axes)
    return Shared(part.deviation.squeeze(axes), own, part.groups.squeeze(axes))


def _masked(a: Tracked, where: Any, neutral: float) -> Tracked:
    if where is True or where is _NONE:
        return a
    where = np.broadcast_to(where, a.shape)
    value = np.where(where, a.value, neutral)
    return choose(where, a, Tracked(np.float64(neutral), a.model), value)


def multiply_reduce(
    a: Tracked, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NONE,
    where: Any = True,
) -> Tracked:  # fmt: skip
    """Return the product of `a` over `axis`."""
    a = _masked(a, where, 1.0)
    axes = normalized_axes(axis, a.ndim)
    lines = _lined_up(a.value, axes)
    n = lines.shape[-1]
    with np.errstate(all="ignore"):
        value = np.asarray(lines.prod(axis=-1))
        variance = a.model.rounding(value) * max(n - 1, 0) + (a.model.underflow if n > 1 else 0.0)
        drift = None
        if not a.exact:
            slope = _products_of_the_others(lines)
            if a.variance is not None:
                variance = variance + (slope * slope * _lined_up(a.variance, axes)).sum(axis=-1)
            if a.drift is not None:
                drift = (np.abs(slope) * _lined_up(a.drift, axes)).sum(axis=-1)
        result = finish(value, variance, drift, a.model)
    result = result.reshape(_shape_after(a.shape, axes, keepdims is True))
    return result if initial is _NONE or initial is None else result * initial


def _products_of_the_others(lines: Array) -> Array:
    """Return, for each element of the last axis, the product of all the others (zeros among them do no harm)."""
    ones = np.ones((*lines.shape[:-1], 1))
    before = np.cumprod(np.concatenate([ones, lines[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([ones, lines[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return before * after


def _extreme_reduce(function: np.ufunc) -> Callable[..., Tracked]:
    def rule(
        a: Tracked, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NONE,
        where: Any = True,
    ) -> Tracked:  # fmt: skip
        axes = normalized_axes(axis, a.ndim)
        extra: dict[str, Any] = {} if initial is _NONE or initial is None else {"initial": initial}
        if where is not True and where is not _NONE:
            extra["where"] = where
        value = np.asarray(function.reduce(a.value, axis=axes, keepdims=True, **extra))
        # The result is within the error of any element that may be the extreme one.
        variance = drift = None
        if not a.exact:
            reach = LAMBDA * a.deviation
            contender = np.abs(a.value - value) <= reach + np.max(reach, axis=axes, keepdims=True, initial=0.0)
            variance, drift = (
                None if part is None else np.max(np.where(contender, part, 0.0), axis=axes, keepdims=True, initial=0.0)
                for part in (a.variance, a.drift)
            )
        result = finish(value, variance, drift, a.model)
        return result if keepdims is True else result.reshape(_shape_after(a.shape, axes, False))

    return rule


def add_accumulate(a: Tracked, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tracked:
    """Return the prefix sums of `a` along `axis`."""
    value = np.cumsum(a.value, axis=axis)
    lines, prefix = np.moveaxis(a.value, axis, -1), np.moveaxis(value, axis, -1)
    with np.errstate(all="ignore"):
        variance, drift = prefix_error(lines, prefix, a.model)
        variance = np.moveaxis(variance, -1, axis)
        drift = None if drift is None else np.moveaxis(drift, -1, axis)
        if a.variance is not None:
            variance = variance + np.cumsum(a.variance, axis=axis)
        drift = plus(drift, None if a.drift is None else np.cumsum(a.drift, axis=axis))
        return finish(value, variance, drift, a.model)


def multiply_accumulate(a: Tracked, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tracked:
    """Return the prefix products of `a` along `axis`; elements that are zero must be exact."""
    if not a.exact and (a.value == 0).any():
        raise CannotTrack("np.cumprod over computed zeros has no rule in the error model")
    value = np.cumprod(a.value, axis=axis)
    with np.errstate(all="ignore"):
        relative = np.full(a.shape, a.model.unit_variance)
        if not a.exact:
            relative = relative + (a.deviation / a.value) ** 2
        return finish(value, value * value * np.cumsum(relative, axis=axis), None, a.model)


def _extreme_accumulate(function: np.ufunc) -> Callable[..., Tracked]:
    def rule(a: Tracked, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tracked:
        value = function.accumulate(a.value, axis=axis)
        variance, drift = (
            None if part is None else np.maximum.accumulate(part, axis=axis) for part in (a.variance, a.drift)
        )
        return Tracked(value, a.model, variance, drift)

    return rule


def add_reduceat(a: Tracked, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return the sums of the slices of `a` along `axis` that start at `indices`."""
    moved = a.rearranged(lambda part: np.moveaxis(part, axis, -1))
    starts = np.asarray(indices)
    stops = np.append(starts[1:], moved.shape[-1])
    pieces = [add_reduce(moved[..., i : max(j, i + 1)], axis=-1, keepdims=True) for i, j in zip(starts, stops)]
    return np.moveaxis(np.concatenate(pieces, axis=-1), -1, axis)


METHODS: dict[tuple[np.ufunc, str], Callable[..., Any]] = {
    (np.add, "reduce"): add_reduce,
    (np.multiply, "reduce"): multiply_reduce,
    (np.maximum, "reduce"): _extreme_reduce(np.maximum),
    (np.minimum, "reduce"): _extreme_reduce(np.minimum),
    (np.fmax, "reduce"): _extreme_reduce(np.fmax),
    (np.fmin, "reduce"): _extreme_reduce(np.fmin),
    (np.add, "accumulate"): add_accumulate,
    (np.multiply, "accumulate"): multiply_accumulate,
    (np.maximum, "accumulate"): _extreme_accumulate(np.maximum),
    (np.minimum, "accumulate"): _extreme_accumulate(np.minimum),
    (np.add, "reduceat"): add_reduceat,
}


def scatter(ufunc: np.ufunc, target: Tracked, index: Any, source: Tracked) -> None:
    """Do `ufunc.at(target, index, source)` for add, subtract, maximum and minimum, in any order of the updates."""
    cells = np.arange(target.size).reshape(target.shape)[index]
    source = source.rearranged(lambda part: np.broadcast_to(part, cells.shape), repeats=True)
    value = target.value.copy()
    ufunc.at(value, index, source.value)
    if ufunc in (np.add, np.subtract):
        parts = _scattered_sum(target, cells.ravel(), source, 1.0 if ufunc is np.add else -1.0)
    else:
        parts = _scattered_extreme(target, cells, source, value)
    target[...] = finish(value, *parts, target.model)


def _scattered_sum(target: Tracked, cell: Array, source: Tracked, sign: float) -> tuple[Array | None, Array | None]:
    """Return variance and drift of adding `source` to the cells of `target`: inherited errors and rounding."""
    parts: list[Array | None] = []
    for own, incoming in ((target.variance, source.variance), (target.drift, source.drift)):
        total = own
        if incoming is not None:
            added = np.bincount(cell, incoming.ravel(), target.size).reshape(target.shape)
            total = added if own is None else own + added
        parts.append(total)
    variance, drift = scatter_error(cell, sign * source.value.ravel(), target.value.ravel(), target.model)
    drift = None if drift is None else drift.reshape(target.shape)
    return plus(variance.reshape(target.shape), parts[0]), plus(drift, parts[1])


def _scattered_extreme(
    target: Tracked, cells: Array, source: Tracked, value: Array
) -> tuple[Array | None, Array | None]:
    """Return variance and drift of the extreme values: the largest among the elements that may be the extreme one."""
    if target.exact and source.exact:
        return None, None
    flat = value.ravel()
    own = LAMBDA * target.deviation.ravel() >= np.abs(target.value.ravel() - flat)
    reach = LAMBDA * source.deviation >= np.abs(source.value - flat[cells])
    parts = []
    for before, incoming in ((target.variance, source.variance), (target.drift, source.drift)):
        total = np.zeros(target.size) if before is None else np.where(own, before.ravel(), 0.0)
        if incoming is not None:
            np.maximum.at(total, cells, np.where(reach, incoming, 0.0))
        parts.append(total.reshape(target.shape))
    return parts[0], parts[1]
