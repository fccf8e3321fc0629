"""Bounds by repeated evaluation, for references that the error model cannot follow.

The reference runs several times in the kernel's precision on `Noisy` arrays: an ndarray subclass whose ufuncs and
sums are computed in float64, disturbed by a random error of the size the model gives them, and rounded to the kernel's
format. Where the reference leaves the subclass (LAPACK, `np.asarray`), NumPy's own float32 arithmetic takes over, whose
sums are better than a kernel's may be. For these, half of the runs also disturb the inputs, each element and each array
as a whole, by the relative error sqrt(n / 3) U that a sum in sequence along their longest axis would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refkit.numerics.accumulation import matmul_error, sum_error
from refkit.numerics.formats import is_floating, round_to
from refkit.numerics.rounding import RoundingModel

RUNS = 8
_DTYPES = {"float64": np.float64}


class Noisy(np.ndarray):
    """A floating array whose every operation commits a random rounding error; `model` and `rng` say how."""

    model: RoundingModel
    rng: np.random.Generator

    def __array_finalize__(self, source: Any) -> None:
        if source is not None:
            self.model = getattr(source, "model", RoundingModel())
            self.rng = getattr(source, "rng", np.random.default_rng(0))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        wide = tuple(_wide(x) for x in inputs)
        if method == "at":
            return ufunc.at(np.asarray(inputs[0]), *(np.asarray(x) for x in inputs[1:]))
        kwargs.pop("dtype", None)
        result = getattr(ufunc, method)(*wide, **kwargs)
        source = next(x for x in (*inputs, *(out or ())) if isinstance(x, Noisy))
        results = result if isinstance(result, tuple) else (result,)
        noisy = tuple(_disturbed(r, ufunc, method, wide, kwargs, source) for r in results)
        if out is not None:
            for target, item in zip(out, noisy):
                np.asarray(target)[...] = item
            return out if len(out) > 1 else out[0]
        return noisy if isinstance(result, tuple) else noisy[0]


def _wide(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)) and is_floating(x.dtype):
        return np.asarray(x, np.float64)
    return np.asarray(x) if isinstance(x, np.ndarray) else x


def _disturbed(result: Any, ufunc: np.ufunc, method: str, wide: tuple, kwargs: dict, source: Noisy) -> Any:
    array = np.asarray(result)
    if not is_floating(array.dtype):
        return result
    model = source.model
    with np.errstate(all="ignore"):
        variance = model.rounding(array)
        if ufunc is np.add and method == "reduce" and kwargs.get("where", True) is True:
            variance = variance + _reduction_variance(wide[0], array, kwargs, model)
        elif ufunc is np.matmul and all(np.ndim(x) >= 2 for x in wide):
            variance = variance + matmul_error(wide[0], wide[1], model)[1]
        deviation = np.sqrt(np.where(np.isfinite(variance), variance, 0.0))
        noise = deviation * source.rng.standard_normal(array.shape)
        return _noisy(np.where(np.isfinite(array), array + noise, array), model, source.rng)


def _reduction_variance(x: np.ndarray, total: np.ndarray, kwargs: dict, model: RoundingModel) -> np.ndarray:
    axis = kwargs.get("axis", 0)
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis))
    kept = [i for i in range(x.ndim) if i not in axes]
    lines = x.transpose(kept + list(axes)).reshape(*(x.shape[i] for i in kept), -1) if x.size else None
    if lines is None:
        return np.zeros_like(total)
    variance, drift = sum_error(lines, lines.sum(axis=-1), model)
    if drift is not None:
        variance = variance + drift * drift
    return variance.reshape(total.shape)


def _noisy(x: np.ndarray, model: RoundingModel, rng: np.random.Generator) -> Noisy:
    dtype = _DTYPES.get(model.precision.accumulate, np.float32)
    with np.errstate(over="ignore"):
        array = np.asarray(round_to(x, model.precision.accumulate_format)).astype(dtype).view(Noisy)
    array.model, array.rng = model, rng
    return array


def renoised(x: np.ndarray, like: Noisy) -> Noisy:
    """Return float64 values as an array of the kind of `like`."""
    return _noisy(x, like.model, like.rng)


def deviations(
    reference: Callable[..., Any],
    arguments: Mapping[str, Any],
    model: RoundingModel,
    values: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, ...]:
    """Return, for each output of `reference`, an estimate of the standard deviation of a kernel's rounding error.

    `values` are the exact outputs. Per element it is the root mean square over the runs, but no less than half of what
    is usual over the whole output for a value of that size, nor than one rounding of the value.
    """
    runs = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        result = reference(**{name: _input(x, model, rng, seed % 2 == 1) for name, x in arguments.items()})
        runs.append(result if isinstance(result, tuple) else (result,))
    return tuple(_spread(value, [run[i] for run in runs], model) for i, value in enumerate(values))


def _input(x: Any, model: RoundingModel, rng: np.random.Generator, disturb: bool) -> Any:
    if not (isinstance(x, np.ndarray) and is_floating(x.dtype)):
        return x.copy() if isinstance(x, np.ndarray) else x
    value = x.astype(np.float64)
    if disturb:
        relative = np.sqrt(model.unit_variance * max((*x.shape, 3)) / 3)
        value = value * (1 + relative * (rng.standard_normal(x.shape) + rng.standard_normal()))
    return _noisy(value, model, rng)


def _spread(value: np.ndarray, outputs: list[Any], model: RoundingModel) -> np.ndarray:
    with np.errstate(all="ignore"):
        errors = np.stack([np.asarray(x, np.float64) - value for x in outputs])
        squared = np.where(np.isfinite(errors), errors * errors, 0.0)
        rms = np.sqrt(squared.mean(axis=0))
        magnitude = np.where(np.isfinite(value), np.abs(value), 0.0)
        typical = np.sqrt((magnitude * magnitude).mean()) if value.size else 0.0
        relative = rms / (magnitude + typical)
        relative = relative[np.isfinite(relative)]
        usual = np.sqrt((relative * relative).mean()) if relative.size else 0.0
        floor = np.sqrt(model.rounding(magnitude)) + np.sqrt(model.flush)
        return np.maximum(np.maximum(rms, 0.5 * usual * (magnitude + typical)), floor)
