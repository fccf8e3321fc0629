"""`evaluate`: run a reference once, and get for every output element its value and the error a kernel is allowed.

allowed = LAMBDA * std + the rounding of the stored output. The standard deviation comes from the error model
(`tracked`); for references that it cannot follow, from repeated evaluations under random rounding (`estimate`), and
the result then says "estimated". Integer and boolean outputs are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refkit.numerics import estimate
from refkit.numerics.bounded import Bounded, BoundKind
from refkit.numerics.formats import Format, float32, format_of, is_floating, round_to
from refkit.numerics.precision import Precision
from refkit.numerics.rounding import LAMBDA, RoundingModel
from refkit.numerics.tracked import Tracked

__all__ = ["Bounded", "evaluate"]


def evaluate(
    reference: Callable[..., Any],
    arguments: Mapping[str, Any],
    precision: Precision | None = None,
    output_dtypes: Sequence[Any] | None = None,
) -> tuple[Bounded, ...]:
    """Return one `Bounded` per output of `reference(**arguments)`.

    Floating arrays among the arguments are exact as stored, and reach the reference as float64; everything else is
    passed on. `output_dtypes` are the storage dtypes of the outputs, in order (float32 where it is None). An exception
    that the reference raises on plain arrays is the reference's own, and passes through.
    """
    model = RoundingModel(precision or Precision())
    try:
        with np.errstate(all="ignore"):
            outputs = _as_tuple(reference(**_wrapped(arguments, model)))
        if all(_followed(x) for x in outputs):
            return _bounded_all(outputs, output_dtypes, model)
        reason = "an output is a plain array, whose rounding error is not known"
    except Exception as error:  # whatever the tracked array cannot do, the plain one is tried
        reason = f"{type(error).__name__}: {error}"
    return _estimated(reference, arguments, model, output_dtypes, reason)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _wrapped(arguments: Mapping[str, Any], model: RoundingModel) -> dict[str, Any]:
    def wrap(x: Any) -> Any:
        if isinstance(x, np.ndarray) and is_floating(x.dtype):
            return Tracked(x.astype(np.float64), model)
        return x.copy() if isinstance(x, np.ndarray) else x

    return {name: wrap(x) for name, x in arguments.items()}


def _followed(output: Any) -> bool:
    """Tell whether an output is tracked or a plain result that holds no rounding error."""
    return isinstance(output, Tracked) or not is_floating(np.asarray(output).dtype)


def _bounded_all(
    outputs: tuple[Any, ...], output_dtypes: Sequence[Any] | None, model: RoundingModel
) -> tuple[Bounded, ...]:
    dtypes = _dtypes(outputs, output_dtypes)
    return tuple(
        _bounded(x.value, x.deviation, "tracked", dtype) if isinstance(x, Tracked) else _exact(x)
        for x, dtype in zip(outputs, dtypes)
    )


def _dtypes(outputs: Sequence[Any], output_dtypes: Sequence[Any] | None) -> Sequence[Any]:
    if output_dtypes is None:
        return [np.float32] * len(outputs)
    if len(output_dtypes) != len(outputs):
        raise ValueError(f"the reference returned {len(outputs)} outputs, {len(output_dtypes)} were expected")
    return output_dtypes


def _exact(output: Any) -> Bounded:
    value = np.asarray(output)
    return Bounded(value, np.zeros(value.shape), "exact")


def _bounded(value: np.ndarray, std: np.ndarray, kind: BoundKind, dtype: Any, reason: str = "") -> Bounded:
    if not is_floating(dtype):
        # An integer output computed as a float: what is stored is the nearest integer.
        return Bounded(np.rint(value), np.floor(LAMBDA * std + 0.5), kind, reason=reason)
    fmt = format_of(dtype)
    with np.errstate(all="ignore"):
        allowed = LAMBDA * std
        allowed = allowed + _storage_error(value, allowed, fmt)
        # Beyond the format's range a finite result is held to its largest number, however large the error.
        beyond = np.isfinite(value) & (np.abs(value) >= fmt.overflow_threshold)
        allowed = np.where(beyond, np.minimum(allowed, np.abs(value) - fmt.max_finite), allowed)
        allowed = np.where(np.isfinite(value), allowed, 0.0)
    return Bounded(value, allowed, kind, fmt.overflow_threshold, fmt.has_infinity, fmt.max_finite, reason)


def _storage_error(value: np.ndarray, allowed: np.ndarray, fmt: Format) -> np.ndarray:
    """Return half a unit of the storage format at the largest magnitude that the unrounded result may have.

    A value that the format holds and that has no error, such as a copy of an input, is stored exactly.
    """
    if fmt is float32 and allowed.all():
        return np.abs(value) * fmt.unit_roundoff
    half = 0.5 * fmt.spacing(np.minimum(np.abs(value) + allowed, fmt.max_finite))
    return np.where((allowed == 0) & (round_to(value, fmt) == value), 0.0, half)


def _estimated(
    reference: Callable[..., Any],
    arguments: Mapping[str, Any],
    model: RoundingModel,
    output_dtypes: Sequence[Any] | None,
    reason: str,
) -> tuple[Bounded, ...]:
    def plain(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        return x.astype(np.float64) if is_floating(x.dtype) else x.copy()

    with np.errstate(all="ignore"):
        outputs = tuple(np.asarray(x) for x in _as_tuple(reference(**{k: plain(v) for k, v in arguments.items()})))
        dtypes = _dtypes(outputs, output_dtypes)
        if not any(is_floating(x.dtype) for x in outputs):
            return tuple(_exact(x) for x in outputs)
        spreads = estimate.deviations(reference, arguments, model, outputs)
    return tuple(
        _bounded(x, std, "estimated", dtype, reason) if is_floating(x.dtype) else _exact(x)
        for x, std, dtype in zip(outputs, spreads, dtypes)
    )
