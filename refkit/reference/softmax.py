"""Softmax over the last axis, and its vector-Jacobian product.

    y_i = exp(x_i - max x) / sum_j exp(x_j - max x),    dx = y (dy - sum_j dy_j y_j)

The maximum is taken off so that no exponential overflows; a shift changes nothing in y, so the backward pass knows
nothing of it. The Jacobian diag(y) - y y^T is dense, but its product with dy needs one number per row: sum(dy y).

An entry of -inf has probability 0. A row of nothing but -inf, or with +inf or NaN in it, is NaN, as in NumPy and JAX.
"""

from __future__ import annotations

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """y (T, C) of x (T, C)."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def softmax_dx(dy: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dx (T, C) from dy (T, C) and the saved output y (T, C)."""
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))


def softmax_vjp(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient (T, C) of sum(dy * softmax(x)) with respect to x (T, C)."""
    return softmax_dx(dy, softmax(x))
