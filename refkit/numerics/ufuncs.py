"""How NumPy's ufuncs, and SciPy's special functions among them, carry the rounding error: calls and methods.

A call evaluates the function in float64, propagates the error of the operands through the derivatives, and adds the
rounding of the result. Where an operand's error is too large for the first derivative, the change of the function over
LAMBDA standard deviations is used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.numerics import reductions
from refkit.numerics.binary import BINARY
from refkit.numerics.doubt import with_doubt
from refkit.numerics.rounding import LAMBDA, RoundingModel
from refkit.numerics.tracked import CannotTrack, Tracked, as_tracked, plain_index
from refkit.numerics.unary import UNARY

# What these return depends on the value alone: booleans and integers carry no rounding error.
_PLAIN = {
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.isnan, np.isinf, np.isfinite, np.signbit, np.logical_and, np.logical_or, np.logical_not, np.logical_xor,
}  # fmt: skip

_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict[str, Any], model: RoundingModel) -> Any:
    """Return `ufunc.method(*inputs, **kwargs)` with its error; raises CannotTrack where no rule is known."""
    if method == "at":
        return _at(ufunc, inputs, model)
    out = kwargs.pop("out", None)
    kwargs.pop("dtype", None)
    where = kwargs.pop("where", True)
    if method == "__call__":
        kwargs.pop("casting", None), kwargs.pop("order", None), kwargs.pop("subok", None)
        if where is not True:
            raise CannotTrack(f"np.{ufunc.__name__} with where= has no rule in the error model")
        result = _call(ufunc, inputs, kwargs, model)
    elif method == "outer":
        result = _call(ufunc, _outer_operands(inputs, model), kwargs, model)
    else:
        rule: Callable[..., Any] | None = reductions.METHODS.get((ufunc, method))
        if rule is None:
            if ufunc in _PLAIN and method == "reduce":
                return getattr(ufunc, method)(*(_values(x) for x in inputs), where=where, **kwargs)
            raise CannotTrack(f"np.{ufunc.__name__}.{method} has no rule in the error model")
        if where is not True:
            kwargs["where"] = where
        result = rule(as_tracked(inputs[0], model), *inputs[1:], **kwargs)
    return _store(result, out) if out is not None else result


def _doubt(a: Tracked, b: Tracked) -> Any:
    """Return where the errors of `a` and `b` reach across their difference."""
    if a is b or (a.exact and b.exact):
        return False
    reach = LAMBDA * (a.deviation + b.deviation)
    return (reach > 0) & (np.abs(a.value - b.value) <= reach)


def _values(x: Any) -> Any:
    return x.value if isinstance(x, Tracked) else x


def _call(ufunc: np.ufunc, inputs: tuple, kwargs: dict[str, Any], model: RoundingModel) -> Any:
    if ufunc in _PLAIN:
        decided = ufunc(*(_values(x) for x in inputs))
        return with_doubt(decided, _doubt(*_pair(inputs, model))) if ufunc in _COMPARISONS else decided
    if ufunc is np.matmul:
        from refkit.numerics.contractions import matmul

        return matmul(as_tracked(inputs[0], model), as_tracked(inputs[1], model))
    if kwargs:
        raise CannotTrack(f"np.{ufunc.__name__} with {', '.join(kwargs)}= has no rule in the error model")
    with np.errstate(all="ignore"):
        if ufunc in UNARY:
            return UNARY[ufunc](as_tracked(inputs[0], model))
        if ufunc in BINARY:
            return BINARY[ufunc](*_pair(inputs, model))
        if ufunc is np.clip:
            low, high = np.maximum(inputs[0], inputs[1]), inputs[2]
            return np.minimum(low, high)
    raise CannotTrack(f"{ufunc.__name__} has no rule in the error model")


def _pair(inputs: tuple, model: RoundingModel) -> tuple[Tracked, Tracked]:
    a = as_tracked(inputs[0], model)
    return a, (a if inputs[1] is inputs[0] else as_tracked(inputs[1], model))


def _outer_operands(inputs: tuple, model: RoundingModel) -> tuple[Tracked, Tracked]:
    a, b = _pair(inputs, model)
    return a.reshape(a.shape + (1,) * b.ndim), b


def _store(result: Any, out: tuple) -> Any:
    (target,) = out
    if not isinstance(target, Tracked):
        raise CannotTrack("a tracked result was written into a plain array")
    target[...] = result
    return target


def _at(ufunc: np.ufunc, inputs: tuple, model: RoundingModel) -> None:
    target, index = inputs[0], plain_index(inputs[1])
    if not isinstance(target, Tracked):
        raise CannotTrack(f"np.{ufunc.__name__}.at into a plain array; allocate it with np.zeros_like(x, shape=...)")
    if ufunc is np.negative:
        ufunc.at(target.value, index)
        return
    if ufunc not in (np.add, np.subtract, np.maximum, np.minimum):
        raise CannotTrack(f"np.{ufunc.__name__}.at has no rule in the error model")
    reductions.scatter(ufunc, target, index, as_tracked(inputs[2], model))
