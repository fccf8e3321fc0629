"""Dropout with a counter-based mask, and its vector-Jacobian product (Srivastava et al., JMLR 2014).

    y = x / (1 - p) where kept, else 0,    dx = dy / (1 - p) where kept, else 0

Element e, counted in row order, is kept where u >= p. Philox4x32-10 (Salmon et al., SC 2011) at counter (e // 4,
offset) with key `seed`, 64 bits each, gives four words; u is the upper 24 bits of word e % 4 as a fraction.
"""

from __future__ import annotations

import numpy as np

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox4x32(counter: np.ndarray, key: np.ndarray, rounds: int = 10) -> np.ndarray:
    """Random words (n, 4), uint32, from counters (n, 4) and a key (2,) of uint32."""
    x0, x1, x2, x3 = (counter[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = (int(word) for word in key)
    for _ in range(rounds):
        a, b = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (b >> _SHIFT) ^ x1 ^ np.uint64(k0), b & _LOW, (a >> _SHIFT) ^ x3 ^ np.uint64(k1), a & _LOW
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack([x0, x1, x2, x3], axis=1).astype(np.uint32)


def dropout_mask(shape: tuple[int, ...], p: float, seed: int, offset: int) -> np.ndarray:
    """Which elements of an array of this shape are kept: True where u >= p."""
    size = int(np.prod(shape))
    place = np.arange(-(-size // 4), dtype=np.uint64)
    stream = np.full_like(place, int(offset) % 2**64)
    counter = np.stack([place & _LOW, place >> _SHIFT, stream & _LOW, stream >> _SHIFT], axis=1)
    key = np.array([int(seed) % 2**32, int(seed) % 2**64 >> 32])
    fraction = (philox4x32(counter, key).ravel()[:size] >> np.uint32(8)) / 2.0**24
    return (fraction >= p).reshape(shape)


def dropout_with_mask(x: np.ndarray, mask: np.ndarray, p: float) -> np.ndarray:
    """x / (1 - p) where `mask` is not 0, else 0; with p = 1 the mask is 0 everywhere."""
    return np.where(mask != 0, x * (1.0 / (1.0 - float(p)) if p < 1 else 0.0), 0.0)


def dropout(x: np.ndarray, p: float, seed: int, offset: int) -> np.ndarray:
    """x with each element dropped with probability p, the others scaled by 1 / (1 - p)."""
    return dropout_with_mask(x, dropout_mask(x.shape, p, seed, offset), p)


def dropout_vjp(dy: np.ndarray, p: float, seed: int, offset: int) -> np.ndarray:
    """The gradient of sum(dy * dropout(x, p, seed, offset)) with respect to x: dropout is linear and symmetric."""
    return dropout(dy, p, seed, offset)
