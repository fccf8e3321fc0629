"""Sums of rows by segment, and their vector-Jacobian products, which are gathers.

    by offsets:  y[s] = sum of x[t] over offsets[s] <= t < offsets[s + 1]        offsets (S + 1,) never descends
    by ids:      y[s] = sum of x[t] over all t with ids[t] = s                   ids (T,) in any order

x (T, D), y (S, D). A segment of no rows sums to 0. Rows before offsets[0] or from offsets[S] on, and rows whose id is
outside [0, S), belong to no segment: they add nothing and their gradient is 0. Backward, dx[t] = dy[segment of t].
"""

from __future__ import annotations

import numpy as np


def ids_of(offsets: np.ndarray, T: int) -> np.ndarray:
    """The segment (T,) that each of T rows belongs to, -1 for none."""
    S = offsets.shape[0] - 1
    ids = np.full(T, -1)
    ids[offsets[0] : offsets[S]] = np.repeat(np.arange(S), np.diff(offsets))
    return ids


def segment_sum_by_ids(x: np.ndarray, ids: np.ndarray, S: int) -> np.ndarray:
    """y (S, D): the sum of the rows of x (T, D) with each id (T,)."""
    kept = (ids >= 0) & (ids < S)
    y = np.zeros_like(x, shape=(S, x.shape[1]))
    np.add.at(y, ids[kept], x[kept])
    return y


def segment_sum(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """y (S, D): the sum of the rows of x (T, D) in each segment between two of the offsets (S + 1,)."""
    return segment_sum_by_ids(x, ids_of(offsets, x.shape[0]), offsets.shape[0] - 1)


def segment_sum_by_ids_vjp(dy: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """dx (T, D) from dy (S, D) and ids (T,)."""
    kept = (ids >= 0) & (ids < dy.shape[0])
    dx = np.zeros_like(dy, shape=(ids.shape[0], dy.shape[1]))
    dx[kept] = dy[ids[kept]]
    return dx


def segment_sum_vjp(dy: np.ndarray, offsets: np.ndarray, T: int) -> np.ndarray:
    """dx (T, D) from dy (S, D) and offsets (S + 1,)."""
    return segment_sum_by_ids_vjp(dy, ids_of(offsets, T))
