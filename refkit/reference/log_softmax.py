"""The logarithm of softmax over the last axis, and its vector-Jacobian product.

    y_i = (x_i - max x) - log sum_j exp(x_j - max x),    dx = dy - exp(y) sum_j dy_j

An entry of -inf stays -inf. A row of nothing but -inf, or with +inf or NaN in it, is NaN, as in NumPy and JAX.
"""

from __future__ import annotations

import numpy as np


def log_softmax(x: np.ndarray) -> np.ndarray:
    """y (T, C) of x (T, C)."""
    shifted = x - x.max(axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore"):  # a row of no columns
        return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def log_softmax_dx(dy: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dx (T, C) from dy (T, C) and the saved output y (T, C)."""
    return dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)


def log_softmax_vjp(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient (T, C) of sum(dy * log_softmax(x)) with respect to x (T, C)."""
    return log_softmax_dx(dy, log_softmax(x))
