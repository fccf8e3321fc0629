"""Directional derivatives of forward references that complex numbers do not pass through: maxima, choices."""

from collections.abc import Callable

import numpy as np

STEP = 2.0**-12


def slope(function: Callable[[np.ndarray], float], x: np.ndarray, v: np.ndarray) -> float:
    """d/dt function(x + t v) at 0, by central differences at two steps, extrapolated: near 1e-10 if smooth."""
    coarse, fine = ((function(x + h * v) - function(x - h * v)) / (2 * h) for h in (STEP, STEP / 2))
    return (4 * fine - coarse) / 3
