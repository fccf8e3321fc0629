"""Sums and matrix products in a given format, in the orders that kernels use: what the bound is measured against.

Each order is a function of float32 terms (..., n) that returns their sum (...), every addition rounded. `MATMULS` has
products of a (M, K) and b (K, N) in the same orders.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refkit.numerics.formats import round_to

Array = np.ndarray
LANES = 32


def sequential(terms: Array) -> Array:
    """One accumulator, from first to last."""
    if terms.shape[-1] == 0:
        return np.zeros(terms.shape[:-1], np.float32)
    return np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]


def backward(terms: Array) -> Array:
    """One accumulator, from last to first."""
    return sequential(terms[..., ::-1])


def lanes(terms: Array) -> Array:
    """Thirty-two lanes, each summing every 32nd term, then a tree over the lanes: a warp's reduction."""
    spare = -terms.shape[-1] % LANES
    padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], spare), np.float32)], axis=-1)
    split = padded.reshape(*terms.shape[:-1], -1, LANES)
    return tree(sequential(np.swapaxes(split, -1, -2)))


def tree(terms: Array) -> Array:
    """Pairs, then pairs of pairs."""
    while terms.shape[-1] > 1:
        half = terms.shape[-1] // 2
        pairs = terms[..., :half] + terms[..., half : 2 * half]
        terms = np.concatenate([pairs, terms[..., 2 * half :]], axis=-1)
    return terms[..., 0] if terms.shape[-1] else np.zeros(terms.shape[:-1], np.float32)


def split(terms: Array) -> Array:
    """Four consecutive parts, each summed in sequence, then added up: split-K."""
    parts = [sequential(part) for part in np.array_split(terms, 4, axis=-1)]
    return sequential(np.stack(parts, axis=-1))


def in_bfloat16(terms: Array) -> Array:
    """One accumulator in bfloat16: a fault wherever float32 was promised."""
    total = np.zeros(terms.shape[:-1])
    for i in range(terms.shape[-1]):
        total = round_to(total + terms[..., i], "bfloat16")
    return total.astype(np.float32)


ORDERS: dict[str, Callable[[Array], Array]] = {
    "sequential": sequential,
    "backward": backward,
    "lanes": lanes,
    "tree": tree,
    "split": split,
}


def matmul(a: Array, b: Array, order: Callable[[Array], Array] = sequential) -> Array:
    """Return a (M, K) @ b (K, N), float32, each element's products summed by `order`; columns go one at a time."""
    columns = [order(a * b[:, j]) for j in range(b.shape[1])]
    return np.stack(columns, axis=-1) if columns else np.zeros((a.shape[0], 0), np.float32)


def tensor_core_matmul(a: Array, b: Array, fraction_bits: int = 24, block: int = 8) -> Array:
    """Return a (M, K) @ b (K, N) as a tensor core does it.

    Blocks of K: exact products and the accumulator are aligned to the largest exponent, each truncated to
    `fraction_bits`, summed exactly, and the result rounded toward zero to float32 (model of arXiv 2511.10909).
    """
    total = np.zeros((a.shape[0], b.shape[1]))
    a, b = a.astype(np.float64), b.astype(np.float64)
    for start in range(0, a.shape[1], block):
        products = a[:, start : start + block, None] * b[None, start : start + block, :]
        addends = np.concatenate([total[:, None, :], products], axis=1)
        largest = np.abs(addends).max(axis=1, keepdims=True)
        unit = np.ldexp(1.0, np.frexp(largest)[1] - 1 - fraction_bits)
        total = round_to((np.trunc(addends / unit) * unit).sum(axis=1), "float32", "toward-zero")
    return total.astype(np.float32)
