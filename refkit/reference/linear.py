"""Linear layer, y = x w + b, and its vector-Jacobian product.

x (T, K), w (K, N), b (N,) or None; y, dy (T, N). For a loss L with dy = dL/dy:

    dL/dx = dy w^T,    dL/dw = x^T dy,    dL/db = sum over t of dy
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .gelu import gelu_tanh


class LinearGradients(NamedTuple):
    """What `linear_vjp` returns."""

    dx: np.ndarray  # (T, K)
    dw: np.ndarray  # (K, N)
    db: np.ndarray  # (N,)


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    """y (T, N) = x (T, K) w (K, N) + b (N,)."""
    y = x @ w
    return y if b is None else y + b


def linear_gelu(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """h (T, N) = x (T, K) w (K, N) + b (N,) and y (T, N) = gelu(h) in the tanh form."""
    h = linear(x, w, b)
    return h, gelu_tanh(h)


def linear_dx(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    """dx (T, K) from dy (T, N) and w (K, N)."""
    return dy @ w.T


def linear_dw(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dw (K, N) from x (T, K) and dy (T, N)."""
    return x.T @ dy


def linear_db(dy: np.ndarray) -> np.ndarray:
    """db (N,) from dy (T, N)."""
    return dy.sum(axis=0)


def linear_vjp(dy: np.ndarray, x: np.ndarray, w: np.ndarray) -> LinearGradients:
    """The gradients of sum(dy * linear(x, w, b)) with respect to x, w and b."""
    return LinearGradients(linear_dx(dy, w), linear_dw(x, dy), linear_db(dy))
