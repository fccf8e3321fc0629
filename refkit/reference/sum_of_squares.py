"""Sum of squares of all elements, and its vector-Jacobian product: dx = 2 dtotal x."""

from __future__ import annotations

import numpy as np


def sum_of_squares(x: np.ndarray) -> np.ndarray:
    """The sum of x^2 over all elements of x, as an array (1,)."""
    flat = x.reshape(-1)
    return (flat * flat).sum(keepdims=True)


def sum_of_squares_vjp(dtotal: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of dtotal (1,) * sum_of_squares(x) with respect to x."""
    return 2 * dtotal[0] * x
