"""`stored`: the place in a reference where a kernel puts an intermediate result into memory of a lower format."""

from __future__ import annotations

from typing import Any

import numpy as np

from refkit.numerics.estimate import Noisy, renoised
from refkit.numerics.formats import Format, format_of, is_floating, round_to
from refkit.numerics.tracked import Tracked


def stored(x: Any, dtype: Any) -> Any:
    """Return `x`, any shape, as a kernel has it after storing it in `dtype` (a format's name, a dtype) and reading it.

    For a float64 array this is `x` itself: the reference stays the exact formula. Under the error model the result has
    the error of one more rounding; an array of a lower precision than float64 is rounded. Raises ValueError for a
    `dtype` that is no floating-point format.

        def mlp(x, w, w_down):
            out = swiglu(stored(x @ w, "bfloat16"))
            return stored(out, "bfloat16") @ w_down
    """
    fmt = format_of(dtype)
    if isinstance(x, Tracked):
        return _tracked(x, fmt)
    if isinstance(x, Noisy):
        noise = x.rng.uniform(-0.5, 0.5, x.shape) * fmt.spacing(np.asarray(x, np.float64))
        return renoised(np.asarray(x, np.float64) + noise, x)
    array = np.asarray(x)
    if array.dtype != np.float64 and is_floating(array.dtype):
        return round_to(array.astype(np.float64), fmt).astype(array.dtype)
    return x


def _tracked(x: Tracked, fmt: Format) -> Tracked:
    if fmt.significand >= x.model.precision.accumulate_format.significand:
        return x
    with np.errstate(all="ignore"):
        if x.exact and np.array_equal(round_to(x.value, fmt), x.value, equal_nan=True):
            return x
        # A rounding error is uniform within half a unit on either side.
        variance = fmt.spacing(x.value) ** 2 / 12
        variance = np.where(np.isfinite(x.value), variance, 0.0)
        # What overflows is infinite, or NaN, for the kernel.
        variance = np.where(np.isfinite(x.value) & (np.abs(x.value) >= fmt.overflow_threshold), np.inf, variance)
        variance = variance if x.independent is None else variance + x.independent
        return Tracked(x.value, x.model, variance, x.drift, shared=x.shared)
