"""Residual addition y = x + r, and its vector-Jacobian product: dy for both.

Where x went through a branch too (r = f(x)), its gradient is the sum of both paths: what came through f, plus dy.
"""

from __future__ import annotations

import numpy as np


def residual(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """x + r, element by element."""
    return x + r


def residual_vjp(dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of sum(dy * residual(x, r)) with respect to x and r."""
    return dy, dy


def residual_accumulate(dy: np.ndarray, dx: np.ndarray) -> np.ndarray:
    """The gradient of x by both paths, where dx came through the branch."""
    return dx + residual_vjp(dy)[0]
