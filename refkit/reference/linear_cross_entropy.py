"""Cross-entropy of the logits x @ w, and its vector-Jacobian product.

    logits (T, V) = x @ w,    (loss, lse) = cross_entropy(logits, labels)        x (T, K), w (K, V), labels (T,)
    dlogits = (exp(logits - lse) - q) dloss,    dx = dlogits @ w^T,    dw = x^T @ dlogits

q is the target distribution of `cross_entropy.py`, which also says what ignored and wrong labels give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from refkit.reference.cross_entropy import (
    IGNORE_INDEX,
    CrossEntropyOutputs,
    cross_entropy,
    cross_entropy_dlogits,
)


class LinearCrossEntropyGradients(NamedTuple):
    """What `linear_cross_entropy_vjp` returns."""

    dx: np.ndarray  # (T, K)
    dw: np.ndarray  # (K, V)


def linear_cross_entropy(
    x: np.ndarray,
    w: np.ndarray,
    labels: np.ndarray,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> CrossEntropyOutputs:
    """loss (T,) or (1,), and lse (T,), of x (T, K), w (K, V) and labels (T,)."""
    return cross_entropy(x @ w, labels, ignore_index, label_smoothing, reduction)


def linear_cross_entropy_gradients(
    dloss: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    labels: np.ndarray,
    lse: np.ndarray,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> LinearCrossEntropyGradients:
    """dx (T, K) and dw (K, V) from dloss (T,) or (1,), x, w, labels and the saved lse (T,)."""
    dlogits = cross_entropy_dlogits(dloss, x @ w, labels, lse, ignore_index, label_smoothing, reduction)
    return LinearCrossEntropyGradients(dlogits @ w.T, x.T @ dlogits)


def linear_cross_entropy_vjp(
    dloss: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    labels: np.ndarray,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> LinearCrossEntropyGradients:
    """The gradients of sum(dloss * linear_cross_entropy(...).loss) with respect to x (T, K) and w (K, V)."""
    lse = cross_entropy(x @ w, labels, ignore_index).lse
    return linear_cross_entropy_gradients(dloss, x, w, labels, lse, ignore_index, label_smoothing, reduction)
