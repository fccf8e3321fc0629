"""Mixture-of-experts routing: the gate, the order of tokens by expert, and the way there and back, each with its VJP.

T tokens, E experts, K of them for each token, R = T K (token, slot) pairs, rows of D numbers.

    gate:       experts[t] = the K largest of logits[t] (T, E), as `top_k` orders them;  v = the logits there
                gates[t]   = softmax over these K: exp(v) / sum exp(v)
    order:      the pairs sorted by expert, equal experts in the order of (token, slot): pair (t, s) goes to row
                position[t, s]; the rows of expert e are offsets[e] to offsets[e + 1] - 1
    permute:    rows[position[t, s]] = x[t]
    unpermute:  y[t] = sum_s gates[t, s] rows[position[t, s]]

Softmax after the choice is the softmax over all experts, chosen from and divided by its sum: the others cancel. The
choice has no derivative, the gates do:

    dv = gates (dgates - sum_s dgates gates),  dlogits[t, experts[t, s]] = dv[t, s],  0 for experts not chosen
    permute:    dx[t] = sum_s drows[position[t, s]]
    unpermute:  drows[position[t, s]] = gates[t, s] dy[t],   dgates[t, s] = sum_d dy[t, d] rows[position[t, s], d]

An expert without tokens has no rows. (Shazeer et al., arXiv 1701.06538; the renormalised gate: Jiang et al., arXiv
2401.04088.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from refkit.reference.top_k import top_k, top_k_vjp


class Gate(NamedTuple):
    """What `gate` returns."""

    experts: np.ndarray  # (T, K), integers
    gates: np.ndarray  # (T, K), each row sums to 1


class ExpertOrder(NamedTuple):
    """What `expert_order` returns, all integers."""

    position: np.ndarray  # (T, K): the row of each pair
    token: np.ndarray  # (R,): the token of each row
    offsets: np.ndarray  # (E + 1,): where the rows of each expert begin; the last is R


class UnpermuteGradients(NamedTuple):
    """What `unpermute_vjp` returns."""

    drows: np.ndarray  # (R, D)
    dgates: np.ndarray  # (T, K)


def gate(logits: np.ndarray, K: int) -> Gate:
    """The K experts of each token and their gates, from the router's logits (T, E)."""
    chosen = top_k(logits, K)
    # The first is the largest; without it exp would overflow.
    weights = np.exp(chosen.values - chosen.values[:, :1])
    return Gate(chosen.indices, weights / weights.sum(axis=1, keepdims=True))


def gate_vjp(dgates: np.ndarray, gates: np.ndarray, experts: np.ndarray, E: int) -> np.ndarray:
    """dlogits (T, E) from dgates, gates and experts (T, K)."""
    dv = gates * (dgates - (dgates * gates).sum(axis=1, keepdims=True))
    return top_k_vjp(dv, experts, E)


def expert_order(experts: np.ndarray, E: int) -> ExpertOrder:
    """The pairs (t, s) of experts (T, K) sorted by expert, stably."""
    T, K = experts.shape
    flat = experts.reshape(T * K)
    pairs = np.argsort(flat, kind="stable")
    position = np.empty(T * K, np.int64)
    position[pairs] = np.arange(T * K)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=E))])
    return ExpertOrder(position.reshape(T, K), pairs // max(K, 1), offsets)


def permute(x: np.ndarray, position: np.ndarray) -> np.ndarray:
    """rows (R, D): each row of x (T, D) at the K places that position (T, K) gives it."""
    T, K = position.shape
    rows = np.zeros_like(x, shape=(T * K, x.shape[1]))
    rows[position] = x[:, None, :]
    return rows


def permute_vjp(drows: np.ndarray, position: np.ndarray) -> np.ndarray:
    """dx (T, D): the sum of the K rows of drows (R, D) that came from each token."""
    return drows[position].sum(axis=1)


def unpermute(rows: np.ndarray, gates: np.ndarray, position: np.ndarray) -> np.ndarray:
    """y (T, D): the rows (R, D) of each token, weighted by its gates (T, K), added up."""
    return (gates[:, :, None] * rows[position]).sum(axis=1)


def unpermute_vjp(dy: np.ndarray, rows: np.ndarray, gates: np.ndarray, position: np.ndarray) -> UnpermuteGradients:
    """The gradients of sum(dy * unpermute(rows, gates, position)) with respect to rows and gates."""
    drows = np.zeros_like(dy, shape=rows.shape)
    drows[position] = gates[:, :, None] * dy[:, None, :]
    return UnpermuteGradients(drows, (dy[:, None, :] * rows[position]).sum(axis=2))
