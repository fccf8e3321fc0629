"""Gather of rows and its vector-Jacobian product, scatter-add; embedding lookup with a padding row.

    gather:       y[i] = x[index[i]]            x (V, D), index (I,), y (I, D)
    scatter_add:  dx[index[i]] += dy[i]         duplicates add up

An embedding is a gather whose row `padding_idx` receives no gradient; a negative padding_idx means that there is none.
Indices lie in [0, V).
"""

from __future__ import annotations

import numpy as np


def gather(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """y (I, D): the rows of x (V, D) that index (I,) names."""
    return x[index]


def scatter_add(dx: np.ndarray, index: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dx (V, D) with each row of dy (I, D) added to the row that index (I,) names; a new array."""
    total = dx.copy()
    np.add.at(total, index, dy)
    return total


def embedding_backward(dx: np.ndarray, index: np.ndarray, dy: np.ndarray, padding_idx: int = -1) -> np.ndarray:
    """As `scatter_add`, without the rows of dy whose index is padding_idx."""
    kept = index != padding_idx
    return scatter_add(dx, index[kept], dy[kept])


def gather_vjp(dy: np.ndarray, index: np.ndarray, V: int) -> np.ndarray:
    """The gradient (V, D) of sum(dy * gather(x, index)) with respect to x (V, D)."""
    return scatter_add(np.zeros((V, dy.shape[1])), index, dy)
