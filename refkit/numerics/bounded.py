"""An output of a reference together with the error that a kernel is allowed, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

BoundKind = Literal["tracked", "estimated", "exact"]


@dataclass(frozen=True, eq=False)
class Bounded:
    """One output.

    `value` is the reference's result (float64, or the exact integers or booleans); `allowed` the absolute error
    allowed per element, same shape, float64. `kind` says where `allowed` comes from: "tracked" (the error model),
    "estimated" (repeated evaluations under random rounding), "exact" (integers: no error at all). `overflow` is the
    magnitude from which the output format may overflow; `has_infinity` and `max_finite` are that format's. `reason`
    says why a bound is only estimated.
    """

    value: np.ndarray
    allowed: np.ndarray
    kind: BoundKind
    overflow: float = np.inf
    has_infinity: bool = True
    max_finite: float = np.inf
    reason: str = ""
