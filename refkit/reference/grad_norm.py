"""Gradient norm and clipping by it (Pascanu, Mikolov and Bengio, arXiv 1211.5063).

norm = sqrt(sum g^2),    g' = g min(1, max_norm / (norm + 1e-6))

A step of the optimiser, not part of what is differentiated: there is no vector-Jacobian product.
"""

from __future__ import annotations

import numpy as np


def grad_norm(gradient: np.ndarray) -> np.ndarray:
    """The Euclidean norm of all elements, as an array (1,)."""
    flat = gradient.reshape(-1)
    return np.sqrt((flat * flat).sum(keepdims=True))


def clip_by_norm(gradient: np.ndarray, norm: np.ndarray, max_norm: float) -> np.ndarray:
    """The gradient scaled by min(1, max_norm / (norm + 1e-6)), norm (1,)."""
    return gradient * np.minimum(max_norm / (norm + 1e-6), 1.0)


def clip_grad_norm(gradient: np.ndarray, max_norm: float) -> tuple[np.ndarray, np.ndarray]:
    """The scaled gradient, and the norm (1,) that it had."""
    norm = grad_norm(gradient)
    return clip_by_norm(gradient, norm, max_norm), norm
