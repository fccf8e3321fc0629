"""Rules of NumPy's functions that move, join or make arrays: every part of the error moves with the value.

`FUNCTIONS` maps a function to its rule; `functions` adds those that compute. Arrays are typed `Any` here: NumPy's stubs
do not know that its functions return what `__array_function__` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.numerics.formats import format_of, is_floating, round_to
from refkit.numerics.propagation import finish
from refkit.numerics.rounding import RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked, as_tracked

Array = np.ndarray
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def rule(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(follow: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = follow
        return follow

    return register


def model_of(*operands: Any) -> RoundingModel:
    return next(x.model for x in operands if isinstance(x, Tracked))


# Functions that only move elements: the first argument is the array

_REPEATING = (np.broadcast_to, np.repeat, np.tile, np.take, np.take_along_axis, np.resize)

_function: Any
for _function in (
    np.reshape, np.ravel, np.moveaxis, np.rollaxis, np.broadcast_to, np.expand_dims,
    np.squeeze, np.flip, np.fliplr, np.flipud, np.roll, np.rot90, np.repeat, np.tile, np.tril, np.triu, np.diag,
    np.diagonal, np.take, np.take_along_axis, np.delete, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.copy,
    np.resize,
):  # fmt: skip

    def _move(a: Any, *args: Any, _function: Any = _function, **kwargs: Any) -> Any:
        if not isinstance(a, Tracked) or any(isinstance(x, Tracked) for x in (*args, *kwargs.values())):
            raise CannotTrack(f"np.{_function.__name__} with a tracked array as a parameter cannot be followed")
        kwargs.pop("out", None)
        repeats = _function in _REPEATING
        return a.rearranged(lambda part: np.asarray(_function(part, *args, **kwargs)), repeats)

    FUNCTIONS[_function] = _move
FUNCTIONS[np.transpose] = lambda a, axes=None: a.transpose() if axes is None else a.transpose(axes)
FUNCTIONS[np.swapaxes] = lambda a, axis1, axis2: a.swapaxes(axis1, axis2)
if hasattr(np, "matrix_transpose"):
    FUNCTIONS[np.matrix_transpose] = lambda a: a.mT


def _joined(function: Any) -> Callable[..., Tracked]:
    def join_all(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        model = model_of(*arrays)
        parts = [as_tracked(x, model) for x in arrays]

        def join(name: str) -> Array | None:
            pieces = [getattr(p, name) for p in parts]
            if all(piece is None for piece in pieces):
                return None
            pieces = [np.zeros(p.shape) if piece is None else piece for p, piece in zip(parts, pieces)]
            return function(pieces, *args, **kwargs)

        return Tracked(function([p.value for p in parts], *args, **kwargs), model, join("variance"), join("drift"))

    return join_all


for _function in (np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.block):
    FUNCTIONS[_function] = _joined(_function)


@rule(np.split, np.array_split)
def _split(a: Tracked, sections: Any, axis: int = 0) -> Any:
    pieces = np.array_split(np.arange(a.shape[axis]), sections)
    along = (slice(None),) * (axis % a.ndim)
    return [a[(*along, slice(p[0], p[-1] + 1) if p.size else slice(0, 0))] for p in pieces]


@rule(np.append)
def _append(a: Any, items: Any, axis: int | None = None) -> Any:
    if axis is None:
        return np.concatenate([np.ravel(a), np.ravel(items)])
    return np.concatenate([a, items], axis=axis)


@rule(np.pad)
def _pad(a: Tracked, width: Any, mode: str = "constant", **kwargs: Any) -> Any:
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


@rule(np.zeros_like)
def _zeros_like(
    a: Tracked, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    return full_like(a, 0.0, dtype, shape=shape)


@rule(np.empty_like)
def _empty_like(
    a: Tracked, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    return full_like(a, np.nan, dtype, shape=shape)


@rule(np.ones_like)
def _ones_like(a: Tracked, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any) -> Any:
    return full_like(a, 1.0, dtype, shape=shape)


@rule(np.full_like)
def full_like(
    a: Any, fill: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    """Return a filled array; tracked, unless its dtype is integral or boolean."""
    model = model_of(a, fill)
    shape = _shaped(as_tracked(a, model), shape)
    if dtype is not None and not is_floating(dtype):
        return np.full(shape, np.nan_to_num(fill) if isinstance(fill, float) else fill, dtype)
    result = Tracked(np.empty(shape), model, np.zeros(shape))
    result[...] = fill
    return result


@rule(np.shape)
def _shape(a: Tracked) -> tuple[int, ...]:
    return a.shape


@rule(np.ndim)
def _ndim(a: Tracked) -> int:
    return a.ndim


@rule(np.size)
def _size(a: Tracked, axis: int | None = None) -> int:
    return a.size if axis is None else a.shape[axis]


@rule(np.broadcast_arrays)
def _broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    model = model_of(*arrays)
    shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
    return tuple(np.broadcast_to(as_tracked(x, model), shape) for x in arrays)


@rule(np.result_type, np.iscomplexobj, np.isrealobj, np.can_cast, np.common_type)
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


@rule(getattr(np, "astype", None))
def _astype(a: Tracked, dtype: Any, *_: Any, **__: Any) -> Any:
    return astype(a, dtype)
