"""Two-dimensional max pooling of x (N, C, H, W), and its vector-Jacobian product.

    y[n, c, i, j] = max of x[n, c, h, w] over  i sh - ph <= h < i sh - ph + kh,   j sw - pw <= w < j sw - pw + kw
    Ho = (H + 2 ph - kh) // sh + 1,   Wo likewise

for a window (kh, kw), a stride (sh, sw) and a padding (ph, pw) smaller than the window. Padding is never chosen. argmax
(N, C, Ho, Wo) is saved: h W + w of the largest, the lowest such number among equals; a NaN counts as largest. Backward,
each dy goes to the element that was chosen, and windows that chose the same one add up:

    dx[n, c, argmax[n, c, i, j]] += dy[n, c, i, j]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Pair = tuple[int, int]


class MaxPoolOutputs(NamedTuple):
    """What `max_pool` returns."""

    y: np.ndarray  # (N, C, Ho, Wo)
    argmax: np.ndarray  # (N, C, Ho, Wo), integers: h W + w


def pooled_size(size: int, window: int, stride: int, padding: int) -> int:
    """How many windows fit along an axis."""
    return (size + 2 * padding - window) // stride + 1


def covered(size: int, window: int, stride: int, padding: int) -> np.ndarray:
    """The indices (windows, window) along an axis that each window looks at.

    Beyond an end stands the index of that end, which the window holds anyway: this is how padding never wins.
    """
    starts = np.arange(pooled_size(size, window, stride, padding)) * stride - padding
    return np.clip(starts[:, None] + np.arange(window), 0, size - 1)


def max_pool(x: np.ndarray, window: Pair, stride: Pair, padding: Pair) -> MaxPoolOutputs:
    """y and argmax (N, C, Ho, Wo) of x (N, C, H, W)."""
    N, C, H, W = x.shape
    rows, columns = (covered(*axis) for axis in zip((H, W), window, stride, padding))
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]  # (Ho, Wo, kh, kw) together
    shape = (rows.shape[0], columns.shape[1], window[0] * window[1])
    candidates = x[:, :, rows, columns].reshape(N, C, *shape)
    places = (rows * W + columns).reshape(shape)
    chosen = np.argmax(candidates, axis=-1)[..., None]  # the first of equals: the lowest place
    argmax = np.take_along_axis(np.broadcast_to(places, (N, C, *shape)), chosen, axis=-1)
    return MaxPoolOutputs(np.take_along_axis(candidates, chosen, axis=-1)[..., 0], argmax[..., 0])


def max_pool_vjp(dy: np.ndarray, argmax: np.ndarray, H: int, W: int) -> np.ndarray:
    """dx (N, C, H, W) from dy and argmax (N, C, Ho, Wo)."""
    N, C = dy.shape[:2]
    dx = np.zeros_like(dy, shape=(N, C, H * W))
    planes = np.arange(N)[:, None, None, None], np.arange(C)[None, :, None, None]
    np.add.at(dx, (*planes, argmax), dy)
    return dx.reshape(N, C, H, W)
