"""Scaled dot-product attention with masks and grouped heads, and its vector-Jacobian product.

    s = scale q k^T,    p = softmax of s over the visible keys,    o = p v,    lse = log(sum of exp(s))

q (B, H, Tq, D), k and v (B, Hkv, Tk, D), o like q, lse (B, H, Tq). Hkv divides H: the query heads h with the same
h // (H / Hkv) share one head of k and v (grouped queries, Ainslie et al., arXiv 2305.13245). A query that sees no key
has o = 0, lse = -inf, and no gradient.

Which keys a query i sees: with i' = i (`causal` "none" or "top_left") or i' = i + Tk - Tq ("bottom_right": the last
query is level with the last key), key j is visible where j <= i' (unless `causal` is "none") and i' - j < `window`
(unless `window` is 0).

For a loss L with do = dL/do, delta = sum over D of do o (Dao et al., arXiv 2205.14135, appendix B):

    dp = do v^T,    ds = p (dp - delta),    dq = scale ds k,    dk = scale ds^T q,    dv = p^T do
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class AttentionOutputs(NamedTuple):
    """What `attention` returns: the result, and the statistic from which the backward pass rebuilds p."""

    o: np.ndarray  # (B, H, Tq, D)
    lse: np.ndarray  # (B, H, Tq)


class AttentionGradients(NamedTuple):
    """What `attention_vjp` returns."""

    dq: np.ndarray  # (B, H, Tq, D)
    dk: np.ndarray  # (B, Hkv, Tk, D)
    dv: np.ndarray  # (B, Hkv, Tk, D)


def visible(Tq: int, Tk: int, causal: str = "none", window: int = 0) -> np.ndarray:
    """The mask (Tq, Tk), True where query i sees key j."""
    query, key = np.arange(Tq)[:, None], np.arange(Tk)[None, :]
    if causal == "bottom_right":
        query = query + Tk - Tq
    seen = np.ones((Tq, Tk), bool)
    if causal != "none":
        seen &= key <= query
    if window:
        seen &= query - key < window
    return seen


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float | None = None, causal: str = "none", window: int = 0
) -> AttentionOutputs:
    """o (B, H, Tq, D) and lse (B, H, Tq); `scale` None is 1/sqrt(D)."""
    s = _scores(q, k, scale, causal, window)
    # Rows of -inf alone, those without a visible key among them, are shifted by 0: -inf - -inf is NaN.
    most = s.max(axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(most == -np.inf, 0.0, most)
    p = np.exp(s - shift)
    total = p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = shift + np.log(total)
    o = (p @ v) / np.where(total == 0, 1.0, total)
    return AttentionOutputs(o.reshape(q.shape), lse.reshape(q.shape[:3]))


def attention_delta(do: np.ndarray, o: np.ndarray) -> np.ndarray:
    """delta (B, H, Tq), the sum of do o over D; equal to the sum of dp p over the keys."""
    return (do * o).sum(axis=-1)


def attention_dq(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    lse: np.ndarray,
    delta: np.ndarray,
    scale: float | None = None,
    causal: str = "none",
    window: int = 0,
) -> np.ndarray:
    """dq (B, H, Tq, D) from the saved lse and from delta."""
    _, ds = _p_and_ds(do, q, k, v, lse, delta, scale, causal, window)
    return ((ds @ k) * _scale(scale, q)).reshape(q.shape)


def attention_dk_dv(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    lse: np.ndarray,
    delta: np.ndarray,
    scale: float | None = None,
    causal: str = "none",
    window: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """dk and dv (B, Hkv, Tk, D) from the saved lse and from delta, summed over the query heads of a group."""
    p, ds = _p_and_ds(do, q, k, v, lse, delta, scale, causal, window)
    dk = (ds.swapaxes(-1, -2) @ _grouped(q, k)) * _scale(scale, q)
    return dk, p.swapaxes(-1, -2) @ _grouped(do, k)


def attention_backward(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    o: np.ndarray,
    lse: np.ndarray,
    scale: float | None = None,
    causal: str = "none",
    window: int = 0,
) -> AttentionGradients:
    """dq, dk and dv from what the forward pass returned, o and lse."""
    given = (do, q, k, v, lse, attention_delta(do, o), scale, causal, window)
    return AttentionGradients(attention_dq(*given), *attention_dk_dv(*given))


def attention_vjp(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float | None = None,
    causal: str = "none",
    window: int = 0,
) -> AttentionGradients:
    """The gradients of sum(do * attention(q, k, v, ...).o) with respect to q, k and v."""
    o, lse = attention(q, k, v, scale, causal, window)
    return attention_backward(do, q, k, v, o, lse, scale, causal, window)


def _scale(scale: float | None, q: np.ndarray) -> float:
    return 1 / np.sqrt(q.shape[-1]) if scale is None else scale


def _grouped(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """x (B, H, Tq, ...) with the rows of the query heads that share a head of k one after the other, (B, Hkv, H / Hkv *
    Tq, ...)."""
    B, H, Tq = x.shape[:3]
    Hkv = k.shape[1]
    return x.reshape(B, Hkv, H // Hkv * Tq if Hkv else 0, *x.shape[3:])


def _scores(q: np.ndarray, k: np.ndarray, scale: float | None, causal: str, window: int) -> np.ndarray:
    """s (B, Hkv, H / Hkv * Tq, Tk), -inf where a query does not see the key."""
    s = (_grouped(q, k) @ k.swapaxes(-1, -2)) * _scale(scale, q)
    return np.where(_seen_by_group(q, k, causal, window), s, -np.inf)


def _seen_by_group(q: np.ndarray, k: np.ndarray, causal: str, window: int) -> np.ndarray:
    """The mask (H / Hkv * Tq, Tk), the same for every head of a group."""
    seen = visible(q.shape[2], k.shape[2], causal, window)
    return np.tile(seen, (q.shape[1] // k.shape[1] if k.shape[1] else 0, 1))


def _p_and_ds(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    lse: np.ndarray,
    delta: np.ndarray,
    scale: float | None,
    causal: str,
    window: int,
) -> tuple[np.ndarray, np.ndarray]:
    """p and ds, both (B, Hkv, H / Hkv * Tq, Tk)."""
    lse, delta = (_grouped(x, k)[..., None] for x in (lse, delta))
    p = np.exp(_scores(q, k, scale, causal, window) - np.where(lse == -np.inf, 0.0, lse))
    dp = _grouped(do, k) @ v.swapaxes(-1, -2)
    return p, p * (dp - delta)


class UnfusedOutputs(NamedTuple):
    """What `attention_unfused` returns: the result, and the probabilities that the backward pass reads."""

    o: np.ndarray  # (B, H, Tq, D)
    p: np.ndarray  # (B, H, Tq, Tk)


def masked_softmax(s: np.ndarray, scale: float = 1.0, causal: str = "none", window: int = 0) -> np.ndarray:
    """p (B, H, Tq, Tk), the softmax of scale s over the visible keys, 0 elsewhere."""
    return _softmax(np.where(visible(s.shape[2], s.shape[3], causal, window), s * scale, -np.inf))


def masked_softmax_vjp(
    dp: np.ndarray, p: np.ndarray, scale: float = 1.0, causal: str = "none", window: int = 0
) -> np.ndarray:
    """ds (B, H, Tq, Tk), the gradient of sum(dp * masked_softmax(s)), from p = masked_softmax(s)."""
    return _softmax_vjp(dp, p, visible(p.shape[2], p.shape[3], causal, window)) * scale


def attention_unfused(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float | None = None, causal: str = "none", window: int = 0
) -> UnfusedOutputs:
    """o and p: `attention`, with the probabilities in place of their statistic."""
    p = _softmax(_scores(q, k, scale, causal, window))
    return UnfusedOutputs((p @ v).reshape(q.shape), p.reshape(*q.shape[:3], k.shape[2]))


def attention_unfused_backward(
    do: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    p: np.ndarray,
    scale: float | None = None,
    causal: str = "none",
    window: int = 0,
) -> AttentionGradients:
    """dq, dk and dv from the saved p."""
    rows_q, rows_do, rows_p = (_grouped(x, k) for x in (q, do, p))
    dp = rows_do @ v.swapaxes(-1, -2)
    ds = _softmax_vjp(dp, rows_p, _seen_by_group(q, k, causal, window)) * _scale(scale, q)
    dv = rows_p.swapaxes(-1, -2) @ rows_do
    return AttentionGradients((ds @ k).reshape(q.shape), ds.swapaxes(-1, -2) @ rows_q, dv)


def _softmax(s: np.ndarray) -> np.ndarray:
    """The softmax of each row; 0 in rows of -inf alone."""
    most = s.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(most == -np.inf, 0.0, most))
    total = p.sum(axis=-1, keepdims=True)
    return p / np.where(total == 0, 1.0, total)


def _softmax_vjp(dp: np.ndarray, p: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The gradient by the scores, 0 where a query does not see the key."""
    p = np.where(seen, p, 0.0)
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))
