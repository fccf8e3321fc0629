"""ReLU and its vector-Jacobian product: y = max(x, 0), dx = dy where x > 0, else 0."""

from __future__ import annotations

import numpy as np


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0), element by element; NaN stays NaN."""
    return np.maximum(x, 0.0)


def relu_vjp(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of sum(dy * relu(x)) with respect to x; the derivative at 0 is 0."""
    return np.where(x > 0, dy, 0.0)
