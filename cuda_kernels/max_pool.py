"""Two-dimensional max pooling of x (N, C, H, W), forward with saved argmax, and backward.

    y[n, c, i, j] = max of x[n, c, h, w] over  i sh - ph <= h < i sh - ph + kh,   j sw - pw <= w < j sw - pw + kw
    Ho = (H + 2 ph - kh) // sh + 1,  Wo likewise          argmax (N, C, Ho, Wo): h W + w of the largest
    dx[n, c, argmax[n, c, i, j]] += dy[n, c, i, j]        windows that chose the same element add up

Padding, smaller than the window, is never chosen. Among equals the lowest h W + w is chosen (-0 equals 0); NaN counts
as largest. x, y, dy and dx are float32, bfloat16 or float16; argmax int32 or int64. Backward, each argmax lies in the
window it was saved for: the caller's promise.

naive:            one thread per element of y walks its window.
backward gather:  one thread per element of dx looks at the windows that reach it; sums in their order, no atomics.
backward atomic:  dx is filled with zeros, then one thread per element of dy adds by an atomic; float32 dx alone, and
                  the order in which overlapping windows add up is left to the hardware.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32, int64

from .launch import FLOAT32, INTEGERS, ceil_div, fill_zero, launcher, read, write
from .primitives.warp import comes_first

Pair = tuple[int, int]


@cuda.jit(device=True)
def unravel(element, shape):
    """The four indices of the element of this number in an array of this shape, the last axis fastest."""
    rest, last = element // shape[3], element % shape[3]
    rest, third = rest // shape[2], rest % shape[2]
    return rest // shape[1], rest % shape[1], third, last


@cuda.jit
def max_pool_kernel(x, y, argmax, kh, kw, sh, sw, ph, pw):
    element = cuda.grid(1)
    if element >= y.size:
        return
    n, c, i, j = unravel(element, y.shape)
    H, W = x.shape[2], x.shape[3]
    top, left = i * sh - ph, j * sw - pw
    largest, place = float32(-math.inf), int64(H) * W
    for h in range(max(top, 0), min(top + kh, H)):
        for w in range(max(left, 0), min(left + kw, W)):
            value = float32(x[n, c, h, w])
            if comes_first(value, int64(h) * W + w, largest, place):
                largest, place = value, int64(h) * W + w
    y[n, c, i, j] = x[n, c, place // W, place % W]
    argmax[n, c, i, j] = place


@cuda.jit(device=True)
def first_window(place, window, stride, padding):
    """The first window along an axis that reaches this place: the least i with i stride - padding + window > place."""
    return max(0, (place + padding - window) // stride + 1)


@cuda.jit
def max_pool_backward_gather_kernel(dy, argmax, dx, kh, kw, sh, sw, ph, pw):
    element = cuda.grid(1)
    if element >= dx.size:
        return
    n, c, h, w = unravel(element, dx.shape)
    own = int64(h) * dx.shape[3] + w
    total = float32(0)
    for i in range(first_window(h, kh, sh, ph), min((h + ph) // sh + 1, dy.shape[2])):
        for j in range(first_window(w, kw, sw, pw), min((w + pw) // sw + 1, dy.shape[3])):
            if argmax[n, c, i, j] == own:
                total += float32(dy[n, c, i, j])
    dx[n, c, h, w] = total


@cuda.jit
def max_pool_backward_atomic_kernel(dy, argmax, dx):
    element = cuda.grid(1)
    if element >= dy.size:
        return
    n, c, i, j = unravel(element, dy.shape)
    place = argmax[n, c, i, j]
    W = dx.shape[3]
    cuda.atomic.add(dx, (n, c, place // W, place % W), float32(dy[n, c, i, j]))


def pooled_size(size: int, window: int, stride: int, padding: int) -> int:
    """How many windows fit along an axis; ValueError where the window, stride or padding makes no sense for it."""
    if window < 1 or stride < 1 or not 0 <= padding < window:
        raise ValueError(
            f"max_pool: window={window}, stride={stride}, padding={padding} along one axis; expected window and stride "
            "of at least 1, and 0 <= padding < window"
        )
    if size + 2 * padding < window:
        raise ValueError(f"max_pool: the window of {window} exceeds the {size} + 2 * {padding} elements along its axis")
    return (size + 2 * padding - window) // stride + 1


def _check_windows(large: Any, small: Any, window: Pair, stride: Pair, padding: Pair) -> None:
    expected = tuple(pooled_size(*axis) for axis in zip(large.shape[2:], window, stride, padding))
    if tuple(small.shape[2:]) != expected:
        raise ValueError(
            f"max_pool: the pooled planes are {tuple(small.shape[2:])}, expected {expected} for planes of "
            f"{tuple(large.shape[2:])}, window={window}, stride={stride}, padding={padding}"
        )


POOLED = read("N", "C", "Ho", "Wo")
PLACES = read("N", "C", "Ho", "Wo", dtypes=INTEGERS)


@launcher(
    x=read("N", "C", "H", "W"), y=write("N", "C", "Ho", "Wo"), argmax=write("N", "C", "Ho", "Wo", dtypes=INTEGERS)
)
def max_pool(
    x: Any, y: Any, argmax: Any, window: Pair, stride: Pair, padding: Pair = (0, 0), block: int = 256, *,
    stream: Any = None,
) -> None:  # fmt: skip
    """Writes y and argmax (N, C, Ho, Wo) of x (N, C, H, W); window, stride and padding are pairs (rows, columns)."""
    _check_windows(x, y, window, stride, padding)
    if y.size:
        max_pool_kernel[ceil_div(y.size, block), block, stream](x, y, argmax, *window, *stride, *padding)


@launcher(dy=POOLED, argmax=PLACES, dx=write("N", "C", "H", "W"))
def max_pool_backward_gather(
    dy: Any, argmax: Any, dx: Any, window: Pair, stride: Pair, padding: Pair = (0, 0), block: int = 256, *,
    stream: Any = None,
) -> None:  # fmt: skip
    """Writes dx (N, C, H, W) from dy and argmax (N, C, Ho, Wo), bit for bit repeatable."""
    _check_windows(dx, dy, window, stride, padding)
    if dx.size:
        kernel = max_pool_backward_gather_kernel[ceil_div(dx.size, block), block, stream]
        kernel(dy, argmax, dx, *window, *stride, *padding)


@launcher(dy=POOLED, argmax=PLACES, dx=write("N", "C", "H", "W", dtypes=FLOAT32))
def max_pool_backward_atomic(
    dy: Any, argmax: Any, dx: Any, window: Pair, stride: Pair, padding: Pair = (0, 0), block: int = 256, *,
    stream: Any = None,
) -> None:  # fmt: skip
    """Writes float32 dx (N, C, H, W) from dy and argmax (N, C, Ho, Wo), by atomics in any order."""
    _check_windows(dx, dy, window, stride, padding)
    fill_zero(dx, block, stream)
    if dy.size:
        max_pool_backward_atomic_kernel[ceil_div(dy.size, block), block, stream](dy, argmax, dx)
