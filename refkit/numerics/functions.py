"""Rules of NumPy's functions on tracked arrays that compute: reductions, choices, writing, products.

They are written with ufuncs, reductions and products, whose rules know about rounding. `FUNCTIONS` maps a function to
its rule, those of `arrangement` included; what is not in it raises `CannotTrack`. Arrays are typed `Any` where NumPy's
stubs do not know that its functions return what `__array_function__` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.numerics import contractions, reductions
from refkit.numerics.arrangement import FUNCTIONS, astype, full_like, model_of, rule
from refkit.numerics.doubt import doubt_of
from refkit.numerics.propagation import choose, finish, plus
from refkit.numerics.rounding import LAMBDA
from refkit.numerics.tracked import CannotTrack, Tracked, as_tracked, plain_index

__all__ = ["FUNCTIONS", "astype"]

# Reductions


def _reduction(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def call(
        a: Tracked, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any
    ) -> Any:
        result = reduce(a, axis=axis, keepdims=keepdims is True, **kwargs)
        if out is None:
            return result
        out[...] = result
        return out

    return call


FUNCTIONS[np.sum] = _reduction(reductions.add_reduce)
FUNCTIONS[np.prod] = _reduction(reductions.multiply_reduce)


@rule(np.max, np.amax, np.nanmax)
def _max(a: Tracked, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
    return _reduction(reductions.METHODS[np.maximum, "reduce"])(a, axis, None, out, keepdims, **kwargs)


@rule(np.min, np.amin, np.nanmin)
def _min(a: Tracked, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Any:
    return _reduction(reductions.METHODS[np.minimum, "reduce"])(a, axis, None, out, keepdims, **kwargs)


@rule(np.ptp)
def _ptp(a: Tracked, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return _max(a, axis, None, keepdims) - _min(a, axis, None, keepdims)


def _count(a: Tracked, axis: Any, where: Any) -> Any:
    axes = reductions.normalized_axes(axis, a.ndim)
    if where is not True and where is not np._NoValue:
        return np.broadcast_to(where, a.shape).sum(axis=axes)
    return int(np.prod([a.shape[i] for i in axes], dtype=np.int64))


@rule(np.mean, np.average)
def _mean(
    a: Tracked, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, where: Any = True,
    weights: Any = None,
) -> Any:  # fmt: skip
    if weights is not None:
        raise CannotTrack("np.average with weights has no rule in the error model; write it as a sum")
    total = FUNCTIONS[np.sum](a, axis, keepdims=True, where=where)
    count = _count(a, axis, where)
    result = total / (count if np.ndim(count) == 0 else np.reshape(count, total.shape))
    if keepdims is not True:
        result = result.squeeze(reductions.normalized_axes(axis, a.ndim))
    if out is None:
        return result
    out[...] = result
    return out


@rule(np.var)
def _var(
    a: Tracked, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False,
    **kwargs: Any,
) -> Any:  # fmt: skip
    if kwargs or out is not None:
        raise CannotTrack("np.var is followed with axis, ddof and keepdims only")
    centred = a - np.mean(a, axis=axis, keepdims=True)
    return np.sum(centred * centred, axis=axis, keepdims=keepdims is True) / (_count(a, axis, True) - ddof)


@rule(np.std)
def _std(a: Tracked, *args: Any, **kwargs: Any) -> Any:
    return np.sqrt(_var(a, *args, **kwargs))


@rule(np.cumsum, getattr(np, "cumulative_sum", None))
def _cumsum(a: Tracked, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return np.add.accumulate(a.ravel() if axis is None else a, axis=0 if axis is None else axis)


@rule(np.cumprod)
def _cumprod(a: Tracked, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return np.multiply.accumulate(a.ravel() if axis is None else a, axis=0 if axis is None else axis)


@rule(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        moved = np.moveaxis(a, axis, -1)
        a = np.moveaxis(moved[..., 1:] - moved[..., :-1], -1, axis)
    return a


@rule(np.trace)
def _trace(a: Tracked, offset: int = 0, axis1: int = 0, axis2: int = 1, **_: Any) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


@rule(np.linalg.norm)
def _norm(a: Tracked, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord in (None, 2, "fro") and (axis is not None or a.ndim == 1 or ord is None or ord == "fro"):
        if ord == 2 and (isinstance(axis, tuple) and len(axis) == 2):
            raise CannotTrack("the spectral norm has no rule in the error model")
        return np.sqrt(np.sum(a * a, axis=axis, keepdims=keepdims))
    if ord == np.inf and (a.ndim == 1 or isinstance(axis, int)):
        return np.max(np.abs(a), axis=axis, keepdims=keepdims)
    if ord == 1 and (a.ndim == 1 or isinstance(axis, int)):
        return np.sum(np.abs(a), axis=axis, keepdims=keepdims)
    raise CannotTrack(f"np.linalg.norm with ord={ord!r} has no rule in the error model")


# Choices: they follow the reference's own values

for _function in (np.argmax, np.argmin, np.argsort, np.argpartition, np.nonzero, np.count_nonzero, np.any, np.all,
                  np.argwhere, np.flatnonzero, np.isposinf, np.isneginf):  # fmt: skip

    def _of_values(a: Any, *args: Any, _function: Any = _function, **kwargs: Any) -> Any:
        return _function(a.value if isinstance(a, Tracked) else a, *args, **kwargs)

    FUNCTIONS[_function] = _of_values


@rule(np.searchsorted, np.digitize, np.array_equal, np.allclose, np.isclose)
def _comparison(*args: Any, **kwargs: Any) -> Any:
    raise CannotTrack("a choice that depends on several computed values cannot be followed")


@rule(np.sort)
def _sort(a: Any, axis: int | None = -1, **kwargs: Any) -> Any:
    if axis is None:
        a, axis = a.ravel(), -1
    return np.take_along_axis(a, np.argsort(a.value, axis=axis, kind="stable"), axis)


@rule(np.partition)
def _partition(a: Any, kth: Any, axis: int = -1, **_: Any) -> Any:
    return np.take_along_axis(a, np.argpartition(a.value, kth, axis=axis), axis)


@rule(np.where)
def _where(condition: Any, *choices: Any) -> Any:
    if isinstance(condition, Tracked):
        condition = condition.value != 0
    if not choices:
        return np.nonzero(condition)
    model = model_of(*choices)
    a, b = (as_tracked(x, model) for x in choices)
    value = np.where(condition, a.value, b.value)
    result = choose(np.asarray(condition, bool), a, b, value)
    doubt = doubt_of(condition)
    if not doubt.any():
        return result
    # Where the condition is in doubt, the other choice is right as well, and so is all that lies between.
    step = np.where(doubt, np.abs(a.value - b.value), 0.0) / LAMBDA
    other = np.where(doubt, np.fmax(a.deviation, b.deviation), 0.0)
    return finish(value, plus(result.variance, step * step + other * other), result.drift, result.model)


@rule(np.select)
def _select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    result: Any = as_tracked(default, model_of(*choices, default))
    for condition, choice in zip(reversed(conditions), reversed(choices)):
        result = np.where(condition, choice, result)
    return result


@rule(np.clip)
def _clip(a: Any, low: Any = None, high: Any = None, out: Any = None, min: Any = None, max: Any = None) -> Any:
    low, high = (min if low is None else low), (max if high is None else high)
    result = a if low is None else np.maximum(a, low)
    result = result if high is None else np.minimum(result, high)
    if out is None:
        return result
    out[...] = result
    return out


@rule(np.round, np.around)
def _round(a: Tracked, decimals: int = 0, out: Any = None) -> Any:
    scale = 10.0**decimals
    return np.rint(a * scale) / scale if decimals else np.rint(a)


@rule(np.nan_to_num)
def _nan_to_num(a: Tracked, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    largest = a.model.largest
    value = np.nan_to_num(a.value, nan=nan, posinf=posinf or largest, neginf=neginf or -largest)
    constant = Tracked(value, a.model)
    return choose(np.isfinite(a.value), a, constant, value)


# Writing


@rule(np.copyto)
def _copyto(target: Any, source: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not isinstance(target, Tracked):
        raise CannotTrack("np.copyto into a plain array; allocate it with np.zeros_like(x, shape=...)")
    if where is True:
        target[...] = source
    else:
        target[...] = np.where(where, source, target)


@rule(np.put_along_axis)
def _put_along_axis(target: Any, indices: Any, items: Any, axis: int | None) -> None:
    if not isinstance(target, Tracked):
        raise CannotTrack("np.put_along_axis into a plain array; allocate it with np.zeros_like(x, shape=...)")
    cells = np.arange(target.size).reshape(target.shape)
    rest = np.take_along_axis(cells, indices, axis)
    index: list[Any] = []
    for length in reversed(target.shape):  # np.unravel_index of NumPy 2.4 is wrong past 8,192 positions of shape (n, 1)
        rest, place = np.divmod(rest, length)
        index.insert(0, place)
    target[tuple(index)] = items


@rule(np.fill_diagonal)
def _fill_diagonal(target: Tracked, item: Any, wrap: bool = False) -> None:
    n = min(target.shape)
    target[(np.arange(n),) * target.ndim] = item


@rule(np.bincount)
def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    x = plain_index(np.asarray(x))
    size = max(minlength, int(x.max(initial=-1)) + 1)
    result = full_like(weights, 0.0, shape=size)
    np.add.at(result, x, weights)
    return result


# Products

FUNCTIONS[np.dot] = lambda a, b, out=None: contractions.dot(a, b)
FUNCTIONS[np.inner] = contractions.inner
FUNCTIONS[np.outer] = lambda a, b, out=None: contractions.outer(a, b)
FUNCTIONS[np.vdot] = contractions.vdot
FUNCTIONS[np.tensordot] = contractions.tensordot
FUNCTIONS[np.einsum] = lambda *operands, out=None, **kwargs: contractions.einsum(*operands, **kwargs)


@rule(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = np.dot(result, array)
    return result


@rule(np.cross, np.kron, np.convolve, np.correlate, np.interp, np.unique, np.histogram)
def _unknown(*args: Any, **kwargs: Any) -> Any:
    raise CannotTrack("this function has no rule in the error model")


FUNCTIONS.pop(None, None)
