"""Matrix product c = a b of a (..., M, K) and b (..., K, N), what may follow it, and its vector-Jacobian product.

For a loss L with dc = dL/dc (..., M, N):

    dL/da = dc b^T,    dL/db = a^T dc
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .gelu import gelu_tanh


class MatmulGradients(NamedTuple):
    """What `matmul_vjp` returns."""

    da: np.ndarray  # (..., M, K)
    db: np.ndarray  # (..., K, N)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c (..., M, N) = a (..., M, K) b (..., K, N), the leading axes alike: a batch of products."""
    return a @ b


def matmul_fused(
    a: np.ndarray,
    b: np.ndarray,
    bias: np.ndarray | None = None,
    residual: np.ndarray | None = None,
    activation: str = "identity",
) -> np.ndarray:
    """c (M, N) = activation(a b + bias) + residual, bias (N,), residual (M, N); activation identity or gelu_tanh."""
    h = matmul(a, b)
    if bias is not None:
        h = h + bias
    if activation == "gelu_tanh":
        h = gelu_tanh(h)
    return h if residual is None else h + residual


def matmul_da(dc: np.ndarray, b: np.ndarray) -> np.ndarray:
    """da (..., M, K) from dc (..., M, N) and b (..., K, N)."""
    return dc @ b.swapaxes(-1, -2)


def matmul_db(a: np.ndarray, dc: np.ndarray) -> np.ndarray:
    """db (..., K, N) from a (..., M, K) and dc (..., M, N)."""
    return a.swapaxes(-1, -2) @ dc


def matmul_vjp(dc: np.ndarray, a: np.ndarray, b: np.ndarray) -> MatmulGradients:
    """The gradients of sum(dc * matmul(a, b)) with respect to a and b."""
    return MatmulGradients(matmul_da(dc, b), matmul_db(a, dc))
