"""Embedding of token sequences, with an optional table of positions, and its vector-Jacobian product.

    y[b, l] = table[tokens[b, l]] + positions[l]         table (V, D), tokens (B, L), positions (L, D) or None

Backward, every use of a row adds to its gradient, and a position is used once per sequence:

    dtable[v] = sum of dy[b, l] over all b, l with tokens[b, l] = v,      dpositions[l] = sum_b dy[b, l]

A token equal to padding_idx gives dtable nothing (a negative padding_idx means that there is none).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class EmbeddingGradients(NamedTuple):
    """What `embedding_vjp` returns."""

    dtable: np.ndarray  # (V, D)
    dpositions: np.ndarray  # (L, D)


def embedding(tokens: np.ndarray, table: np.ndarray, positions: np.ndarray | None = None) -> np.ndarray:
    """y (B, L, D) of tokens (B, L), integers in [0, V)."""
    y = table[tokens]
    return y if positions is None else y + positions


def embedding_dtable(dy: np.ndarray, tokens: np.ndarray, V: int, padding_idx: int = -1) -> np.ndarray:
    """dtable (V, D) from dy (B, L, D) and tokens (B, L)."""
    kept = tokens != padding_idx
    dtable = np.zeros_like(dy, shape=(V, dy.shape[2]))
    np.add.at(dtable, tokens[kept], dy[kept])
    return dtable


def embedding_dpositions(dy: np.ndarray) -> np.ndarray:
    """dpositions (L, D) from dy (B, L, D)."""
    return dy.sum(axis=0)


def embedding_vjp(dy: np.ndarray, tokens: np.ndarray, V: int, padding_idx: int = -1) -> EmbeddingGradients:
    """The gradients of sum(dy * embedding(tokens, table, positions)) with respect to both tables."""
    return EmbeddingGradients(embedding_dtable(dy, tokens, V, padding_idx), embedding_dpositions(dy))
