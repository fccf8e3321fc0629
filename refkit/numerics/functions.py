"""NumPy's functions on tracked arrays: `FUNCTIONS` maps a function to its rule.

Most only move elements, and move the parts of the error alike; the rest are written with ufuncs, reductions and
products, whose rules know about rounding. What is not here raises `CannotTrack`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.numerics import contractions, reductions
from refkit.numerics.formats import format_of, is_floating, round_to
from refkit.numerics.propagation import choose, finish
from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked, as_tracked, plain_index

Array = np.ndarray
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def _rule(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = rule
        return rule

    return register


def _model(*operands: Any) -> RoundingModel:
    return next(x.model for x in operands if isinstance(x, Tracked))


# Functions that only move elements: the first argument is the array

for _function in (
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.broadcast_to, np.expand_dims,
    np.squeeze, np.flip, np.fliplr, np.flipud, np.roll, np.rot90, np.repeat, np.tile, np.tril, np.triu, np.diag,
    np.diagonal, np.take, np.take_along_axis, np.delete, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.copy,
    np.resize,
):  # fmt: skip

    def _move(a: Any, *args: Any, _function: Any = _function, **kwargs: Any) -> Tracked:
        if not isinstance(a, Tracked) or any(isinstance(x, Tracked) for x in (*args, *kwargs.values())):
            raise CannotTrack(f"np.{_function.__name__} with a tracked array as a parameter cannot be followed")
        kwargs.pop("out", None)
        return a.rearranged(lambda part: np.asarray(_function(part, *args, **kwargs)))

    FUNCTIONS[_function] = _move
if hasattr(np, "matrix_transpose"):
    FUNCTIONS[np.matrix_transpose] = lambda a: a.mT


def _joined(function: Any) -> Callable[..., Tracked]:
    def rule(arrays: Any, *args: Any, **kwargs: Any) -> Tracked:
        model = _model(*arrays)
        parts = [as_tracked(x, model) for x in arrays]

        def join(name: str) -> Array | None:
            pieces = [getattr(p, name) for p in parts]
            if all(piece is None for piece in pieces):
                return None
            pieces = [np.zeros(p.shape) if piece is None else piece for p, piece in zip(parts, pieces)]
            return function(pieces, *args, **kwargs)

        return Tracked(function([p.value for p in parts], *args, **kwargs), model, join("variance"), join("drift"))

    return rule


for _function in (np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.block):
    FUNCTIONS[_function] = _joined(_function)


@_rule(np.split, np.array_split)
def _split(a: Tracked, sections: Any, axis: int = 0) -> list[Tracked]:
    pieces = np.array_split(np.arange(a.shape[axis]), sections)
    along = (slice(None),) * (axis % a.ndim)
    return [a[(*along, slice(p[0], p[-1] + 1) if p.size else slice(0, 0))] for p in pieces]


@_rule(np.append)
def _append(a: Any, items: Any, axis: int | None = None) -> Tracked:
    if axis is None:
        return np.concatenate([np.ravel(a), np.ravel(items)])
    return np.concatenate([a, items], axis=axis)


@_rule(np.pad)
def _pad(a: Tracked, width: Any, mode: str = "constant", **kwargs: Any) -> Tracked:
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise CannotTrack(f"np.pad with mode {mode!r} has no rule in the error model")
    value = np.pad(a.value, width, mode, **kwargs)  # type: ignore[call-overload]
    error = {} if mode == "constant" else kwargs
    variance, drift = (
        None if part is None else np.pad(part, width, mode, **error)  # type: ignore[call-overload]
        for part in (a.variance, a.drift)
    )
    return Tracked(value, a.model, variance, drift)


# Making arrays


def _shaped(a: Tracked, shape: Any) -> tuple[int, ...]:
    return a.shape if shape is None else tuple(np.atleast_1d(shape))


@_rule(np.zeros_like)
def _zeros_like(
    a: Tracked, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    return _full_like(a, 0.0, dtype, shape=shape)


@_rule(np.empty_like)
def _empty_like(
    a: Tracked, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    return _full_like(a, np.nan, dtype, shape=shape)


@_rule(np.ones_like)
def _ones_like(a: Tracked, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any) -> Any:
    return _full_like(a, 1.0, dtype, shape=shape)


@_rule(np.full_like)
def _full_like(
    a: Any, fill: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    """Return a filled array; tracked, unless its dtype is integral or boolean."""
    model = _model(a, fill)
    shape = _shaped(as_tracked(a, model), shape)
    if dtype is not None and not is_floating(dtype):
        return np.full(shape, np.nan_to_num(fill) if isinstance(fill, float) else fill, dtype)
    result = Tracked(np.empty(shape), model, np.zeros(shape))
    result[...] = fill
    return result


@_rule(np.shape)
def _shape(a: Tracked) -> tuple[int, ...]:
    return a.shape


@_rule(np.ndim)
def _ndim(a: Tracked) -> int:
    return a.ndim


@_rule(np.size)
def _size(a: Tracked, axis: int | None = None) -> int:
    return a.size if axis is None else a.shape[axis]


@_rule(np.broadcast_arrays)
def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Tracked, ...]:
    model = _model(*arrays)
    shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
    return tuple(np.broadcast_to(as_tracked(x, model), shape) for x in arrays)


@_rule(np.result_type, np.iscomplexobj, np.isrealobj, np.can_cast, np.common_type)
def _type_question(*_: Any) -> Any:
    raise CannotTrack("a question about dtypes depends on the dtype the reference runs in")


def astype(a: Tracked, dtype: Any) -> Any:
    """Return `a` rounded to `dtype`, with the error of that rounding; plain values for integers and booleans."""
    if not is_floating(dtype):
        return a.value.astype(dtype)
    fmt = format_of(dtype)
    if fmt.significand >= a.model.precision.accumulate_format.significand:
        return a.copy()
    value = round_to(a.value, fmt)
    if a.exact and np.array_equal(value, a.value, equal_nan=True):
        return a.copy()
    # The kernel rounds a slightly different number, which may fall on the other side of a tie: one unit away.
    variance = (fmt.unit_roundoff * value) ** 2 / 3 + fmt.smallest_subnormal**2 / 12
    return finish(value, variance if a.variance is None else variance + a.variance, a.drift, a.model)


@_rule(getattr(np, "astype", None))
def _astype(a: Tracked, dtype: Any, *_: Any, **__: Any) -> Any:
    return astype(a, dtype)


# Reductions


def _reduction(rule: Callable[..., Any]) -> Callable[..., Any]:
    def call(
        a: Tracked, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any
    ) -> Any:
        result = rule(a, axis=axis, keepdims=keepdims is True, **kwargs)
        if out is None:
            return result
        out[...] = result
        return out

    return call


FUNCTIONS[np.sum] = _reduction(reductions.add_reduce)
FUNCTIONS[np.prod] = _reduction(reductions.multiply_reduce)


@_rule(np.max, np.amax, np.nanmax)
def _max(a: Tracked, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Tracked:
    return _reduction(reductions.METHODS[np.maximum, "reduce"])(a, axis, None, out, keepdims, **kwargs)


@_rule(np.min, np.amin, np.nanmin)
def _min(a: Tracked, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any) -> Tracked:
    return _reduction(reductions.METHODS[np.minimum, "reduce"])(a, axis, None, out, keepdims, **kwargs)


@_rule(np.ptp)
def _ptp(a: Tracked, axis: Any = None, out: Any = None, keepdims: Any = False) -> Tracked:
    return _max(a, axis, None, keepdims) - _min(a, axis, None, keepdims)


def _count(a: Tracked, axis: Any, where: Any) -> Any:
    axes = reductions.normalized_axes(axis, a.ndim)
    if where is not True and where is not np._NoValue:
        return np.broadcast_to(where, a.shape).sum(axis=axes)
    return int(np.prod([a.shape[i] for i in axes], dtype=np.int64))


@_rule(np.mean, np.average)
def _mean(
    a: Tracked, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, where: Any = True,
    weights: Any = None,
) -> Tracked:  # fmt: skip
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


@_rule(np.var)
def _var(
    a: Tracked, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False,
    **kwargs: Any,
) -> Tracked:  # fmt: skip
    if kwargs or out is not None:
        raise CannotTrack("np.var is followed with axis, ddof and keepdims only")
    centred = a - np.mean(a, axis=axis, keepdims=True)
    return np.sum(centred * centred, axis=axis, keepdims=keepdims is True) / (_count(a, axis, True) - ddof)


@_rule(np.std)
def _std(a: Tracked, *args: Any, **kwargs: Any) -> Tracked:
    return np.sqrt(_var(a, *args, **kwargs))


@_rule(np.cumsum, getattr(np, "cumulative_sum", None))
def _cumsum(a: Tracked, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tracked:
    return np.add.accumulate(a.ravel() if axis is None else a, axis=0 if axis is None else axis)


@_rule(np.cumprod)
def _cumprod(a: Tracked, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tracked:
    return np.multiply.accumulate(a.ravel() if axis is None else a, axis=0 if axis is None else axis)


@_rule(np.diff)
def _diff(a: Tracked, n: int = 1, axis: int = -1) -> Tracked:
    for _ in range(n):
        moved = np.moveaxis(a, axis, -1)
        a = np.moveaxis(moved[..., 1:] - moved[..., :-1], -1, axis)
    return a


@_rule(np.trace)
def _trace(a: Tracked, offset: int = 0, axis1: int = 0, axis2: int = 1, **_: Any) -> Tracked:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


@_rule(np.linalg.norm)
def _norm(a: Tracked, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tracked:
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


@_rule(np.searchsorted, np.digitize, np.array_equal, np.allclose, np.isclose)
def _comparison(*args: Any, **kwargs: Any) -> Any:
    raise CannotTrack("a choice that depends on several computed values cannot be followed")


@_rule(np.sort)
def _sort(a: Tracked, axis: int | None = -1, **kwargs: Any) -> Tracked:
    if axis is None:
        a, axis = a.ravel(), -1
    return np.take_along_axis(a, np.argsort(a.value, axis=axis, kind="stable"), axis)


@_rule(np.partition)
def _partition(a: Tracked, kth: Any, axis: int = -1, **_: Any) -> Tracked:
    return np.take_along_axis(a, np.argpartition(a.value, kth, axis=axis), axis)


@_rule(np.where)
def _where(condition: Any, *choices: Any) -> Any:
    if isinstance(condition, Tracked):
        condition = condition.value != 0
    if not choices:
        return np.nonzero(condition)
    model = _model(*choices)
    a, b = (as_tracked(x, model) for x in choices)
    value = np.where(condition, a.value, b.value)
    return choose(np.asarray(condition, bool), a, b, value)


@_rule(np.select)
def _select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    result: Any = as_tracked(default, _model(*choices, default))
    for condition, choice in zip(reversed(conditions), reversed(choices)):
        result = np.where(condition, choice, result)
    return result


@_rule(np.clip)
def _clip(a: Any, low: Any = None, high: Any = None, out: Any = None, min: Any = None, max: Any = None) -> Any:
    low, high = (min if low is None else low), (max if high is None else high)
    result = a if low is None else np.maximum(a, low)
    result = result if high is None else np.minimum(result, high)
    if out is None:
        return result
    out[...] = result
    return out


@_rule(np.round, np.around)
def _round(a: Tracked, decimals: int = 0, out: Any = None) -> Tracked:
    scale = 10.0**decimals
    return np.rint(a * scale) / scale if decimals else np.rint(a)


@_rule(np.nan_to_num)
def _nan_to_num(a: Tracked, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tracked:
    largest = a.model.largest
    value = np.nan_to_num(a.value, nan=nan, posinf=posinf or largest, neginf=neginf or -largest)
    constant = Tracked(value, a.model)
    return choose(np.isfinite(a.value), a, constant, value)


# Writing


@_rule(np.copyto)
def _copyto(target: Any, source: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not isinstance(target, Tracked):
        raise CannotTrack("np.copyto into a plain array; allocate it with np.zeros_like(x, shape=...)")
    if where is True:
        target[...] = source
    else:
        target[...] = np.where(where, source, target)


@_rule(np.put_along_axis)
def _put_along_axis(target: Any, indices: Any, items: Any, axis: int | None) -> None:
    if not isinstance(target, Tracked):
        raise CannotTrack("np.put_along_axis into a plain array; allocate it with np.zeros_like(x, shape=...)")
    cells = np.arange(target.size).reshape(target.shape)
    chosen = np.take_along_axis(cells, indices, axis)
    target[np.unravel_index(chosen, target.shape)] = items


@_rule(np.fill_diagonal)
def _fill_diagonal(target: Tracked, item: Any, wrap: bool = False) -> None:
    n = min(target.shape)
    target[(np.arange(n),) * target.ndim] = item


@_rule(np.bincount)
def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tracked:
    x = plain_index(np.asarray(x))
    size = max(minlength, int(x.max(initial=-1)) + 1)
    result = _full_like(weights, 0.0, shape=size)
    np.add.at(result, x, weights)
    return result


# Products

FUNCTIONS[np.dot] = lambda a, b, out=None: contractions.dot(a, b)
FUNCTIONS[np.inner] = contractions.inner
FUNCTIONS[np.outer] = lambda a, b, out=None: contractions.outer(a, b)
FUNCTIONS[np.vdot] = contractions.vdot
FUNCTIONS[np.tensordot] = contractions.tensordot
FUNCTIONS[np.einsum] = lambda *operands, out=None, **kwargs: contractions.einsum(*operands, **kwargs)


@_rule(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    result = arrays[0]
    for array in arrays[1:]:
        result = np.dot(result, array)
    return result


@_rule(np.cross, np.kron, np.convolve, np.correlate, np.interp, np.unique, np.histogram)
def _unknown(*args: Any, **kwargs: Any) -> Any:
    raise CannotTrack("this function has no rule in the error model")


FUNCTIONS.pop(None, None)
