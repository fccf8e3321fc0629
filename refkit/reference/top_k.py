"""The K largest of each row of x (T, C) in descending order, and the vector-Jacobian product.

    values[t, m] = x[t, indices[t, m]]        values, indices (T, K), 0 <= K <= C

Equal numbers stand in the order of their indices, lower first; -0 equals 0. A NaN counts as larger than every number,
and several NaN stand in the order of their indices. The choice itself has no derivative: with the indices held fixed,

    dx[t, indices[t, m]] = dvalues[t, m],     0 elsewhere

where no two indices of a row are equal, so that nothing is added up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class TopK(NamedTuple):
    """What `top_k` returns."""

    values: np.ndarray  # (T, K)
    indices: np.ndarray  # (T, K), integers


def top_k(x: np.ndarray, K: int) -> TopK:
    """The K largest of each row of x (T, C), in descending order, and where they stand."""
    C = x.shape[1]
    # NumPy sorts upwards, NaN last, equal values in their order: a mirrored row read backwards gives the order wanted.
    indices = C - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1][:, :K]
    return TopK(np.take_along_axis(x, indices, axis=1), indices)


def top_k_vjp(dvalues: np.ndarray, indices: np.ndarray, C: int) -> np.ndarray:
    """dx (T, C): dvalues (T, K) at the chosen indices (T, K), distinct in each row, and 0 elsewhere."""
    T = indices.shape[0]
    dx = np.zeros_like(dvalues, shape=(T, C))
    dx[np.arange(T)[:, None], indices] = dvalues
    return dx
