"""Bias y = x + b over the rows of x (T, N), and its vector-Jacobian product: dx = dy, db = sum_t dy."""

from __future__ import annotations

import numpy as np


def bias(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x (T, N) + b (N,)."""
    return x + b


def bias_vjp(dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of sum(dy * bias(x, b)) with respect to x (T, N) and b (N,)."""
    return dy, dy.sum(axis=0)
