"""Cross-entropy of softmax(logits) against labels, and its vector-Jacobian product.

logits (T, V), labels (T,), loss (T,) or (1,). With the target distribution q = (1 - s) e_label + s / V, where s is the
label smoothing (Szegedy et al., arXiv 1512.00567) and e_label the one-hot row:

    lse = log sum_v exp(logits_v),    loss = -sum_v q_v log softmax(logits)_v = lse - sum_v q_v logits_v
    dlogits = (softmax(logits) - q) dloss,    softmax(logits) = exp(logits - lse)

A row whose label is `ignore_index` has loss 0 and gradient 0. A label that is neither that nor in [0, V) gives NaN for
both. `reduction` "sum" adds the losses up, "mean" divides that by the number of rows that are not ignored. The mean
over no row is 0, not the 0 / 0 of some libraries: a micro-batch of nothing but padding then adds nothing, where a NaN
would reach every weight. lse of a row of nothing but -inf is -inf, of a row with +inf it is +inf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

IGNORE_INDEX = -100


class CrossEntropyOutputs(NamedTuple):
    """What `cross_entropy` returns: the loss, and the log-sum-exp that the backward pass reads."""

    loss: np.ndarray  # (T,) for reduction "none", (1,) for "mean" and "sum"
    lse: np.ndarray  # (T,)


def cross_entropy(
    logits: np.ndarray,
    labels: np.ndarray,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> CrossEntropyOutputs:
    """loss (T,) or (1,), and lse (T,), of logits (T, V) and labels (T,)."""
    V = logits.shape[1]
    largest = logits.max(axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        log_sum = np.log(np.exp(logits - shift[:, None]).sum(axis=1))  # of a row of -inf: -inf
    # The shift is taken off the logits, not added to the logarithm, which would round it at the size of the logits.
    loss = log_sum + (shift - logits[np.arange(len(labels)), np.where(in_range(labels, V), labels, 0)])
    if label_smoothing:
        uniform = log_sum + (shift[:, None] - logits).mean(axis=1)
        loss = (1.0 - label_smoothing) * loss + label_smoothing * uniform
    loss = np.where(in_range(labels, V), loss, np.nan)
    loss = np.where(labels != ignore_index, loss, 0.0)
    if reduction != "none":
        loss = loss.sum(keepdims=True) * reduction_scale(labels, ignore_index, reduction)
    return CrossEntropyOutputs(loss, shift + log_sum)


def cross_entropy_dlogits(
    dloss: np.ndarray,
    logits: np.ndarray,
    labels: np.ndarray,
    lse: np.ndarray,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> np.ndarray:
    """dlogits (T, V) from dloss (T,) or (1,), logits (T, V), labels (T,) and the saved lse (T,)."""
    V = logits.shape[1]
    one_hot = np.arange(V) == labels[:, None]
    target = one_hot * (1.0 - label_smoothing) + label_smoothing / max(V, 1)
    upstream = dloss * reduction_scale(labels, ignore_index, reduction)
    dlogits = (np.exp(logits - lse[:, None]) - target) * upstream[:, None]
    dlogits = np.where(in_range(labels, V)[:, None], dlogits, np.nan)
    return np.where((labels != ignore_index)[:, None], dlogits, 0.0)


def cross_entropy_vjp(
    dloss: np.ndarray,
    logits: np.ndarray,
    labels: np.ndarray,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> np.ndarray:
    """The gradient (T, V) of sum(dloss * cross_entropy(...).loss) with respect to logits (T, V)."""
    lse = cross_entropy(logits, labels, ignore_index).lse
    return cross_entropy_dlogits(dloss, logits, labels, lse, ignore_index, label_smoothing, reduction)


def in_range(labels: np.ndarray, V: int) -> np.ndarray:
    """Which labels (T,) name one of V classes."""
    return (labels >= 0) & (labels < V)


def reduction_scale(labels: np.ndarray, ignore_index: int, reduction: str) -> float:
    """What the sum of the losses is multiplied by: 1, or for "mean" one over the number of rows not ignored."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction={reduction!r}; expected 'none', 'mean' or 'sum'")
    return 1.0 / max(int(np.sum(labels != ignore_index)), 1) if reduction == "mean" else 1.0
