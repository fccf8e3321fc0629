"""Booleans that a kernel may decide the other way: comparisons of computed values that are nearly equal.

The mask `x @ w > 0` of a fused ReLU is plain where the product is clearly positive or negative; where its error reaches
across 0, either decision is right, and whatever the mask then selects or multiplies is allowed to come out either way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert)


class Doubtful(np.ndarray):
    """A boolean array with `doubt`, a plain mask of the elements that may be the other way; None where lost."""

    doubt: np.ndarray | None = None

    def __array_finalize__(self, source: Any) -> None:
        doubt = getattr(source, "doubt", None)
        self.doubt = doubt if doubt is not None and doubt.shape == self.shape else None

    def __getitem__(self, index: Any) -> Any:
        part = np.asarray(self)[index]
        return part if self.doubt is None else with_doubt(part, self.doubt[index])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(hasattr(x, "independent") for x in inputs):
            return NotImplemented  # the tracked operand decides
        plain = [np.asarray(x) if isinstance(x, Doubtful) else x for x in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        if method != "__call__" or ufunc not in (*_LOGICAL, *_BITWISE):
            return result
        return with_doubt(result, np.logical_or.reduce(np.broadcast_arrays(*(doubt_of(x) for x in inputs))))


def doubt_of(x: Any) -> np.ndarray:
    """Return the mask of elements that may be the other way, all False for a plain array."""
    doubt = getattr(x, "doubt", None)
    return np.zeros(np.shape(x), bool) if doubt is None else doubt


def with_doubt(decided: Any, doubt: np.ndarray) -> Any:
    """Return `decided` with its doubt, as a plain array where there is none."""
    if not np.any(doubt):
        return decided
    result = np.asarray(decided).view(Doubtful)
    result.doubt = np.asarray(doubt)
    return result
