"""Dropout: y = x / (1 - p) where an element is kept, else 0; each is dropped with probability p, by itself.

Element e (its place in row order, whatever the strides) is kept where u >= p, with u in [0, 1) made of word e % 4 of
Philox4x32-10 at counter e // 4, stream `offset`, key `seed` (`primitives/philox.py`). The mask is a function of (seed,
offset, place) alone: the same on every machine, in every launch, and again in the backward pass. Another call of one
training run takes another offset.

x, y, dy and dx (M, N) or (N,), float32, bfloat16 or float16; arithmetic is float32, with 1 / (1 - p) rounded once on
the host. y may be x, and dx may be dy. With p = 1 all is 0.

forward:               one thread per element; three of the four words it makes are not used.
forward_vectorised:    128 bits per thread, each word used, where x and y are contiguous and of one dtype; same bits.
forward_with_mask:     as forward, and writes the mask (uint8, 1 where kept).
backward_from_mask:    dx from dy and a mask that was kept: reads a byte for each element.
backward_regenerated:  dx from dy, seed and offset, 128 bits per thread: the mask is made again, nothing was kept.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import cuda, float32, uint8, uint64

from .launch import ceil_div, read, write
from .pointwise import VECTOR_BYTES, as_flat, as_rows, in_vectors, pointwise_launcher
from .primitives.philox import philox4x32_at, uniform01
from .primitives.vector import load4, load8, store4, store8

MASK = np.dtype(np.uint8)


@cuda.jit(device=True)
def is_kept(element, p, seed, offset):
    """Whether dropout keeps the element at a place in row order."""
    words = philox4x32_at(uint64(element) // uint64(4), offset, seed)
    return uniform01(words[element % 4]) >= p


@cuda.jit(device=True)
def dropped(x, bits, p, scale):
    """x scale where the random bits keep it, else 0."""
    return x * scale if uniform01(bits) >= p else float32(0)


@cuda.jit
def dropout_kernel(x, p, scale, seed, offset, y):
    element = cuda.grid(1)
    if element < y.shape[0] * y.shape[1]:
        row, column = element // y.shape[1], element % y.shape[1]
        kept = is_kept(element, p, seed, offset)
        y[row, column] = float32(x[row, column]) * scale if kept else float32(0)


@cuda.jit
def dropout_with_mask_kernel(x, p, scale, seed, offset, y, mask):
    element = cuda.grid(1)
    if element < y.shape[0] * y.shape[1]:
        row, column = element // y.shape[1], element % y.shape[1]
        kept = is_kept(element, p, seed, offset)
        y[row, column] = float32(x[row, column]) * scale if kept else float32(0)
        mask[row, column] = uint8(1) if kept else uint8(0)


@cuda.jit
def dropout_from_mask_kernel(dy, mask, scale, dx):
    element = cuda.grid(1)
    if element < dx.shape[0] * dx.shape[1]:
        row, column = element // dx.shape[1], element % dx.shape[1]
        dx[row, column] = float32(dy[row, column]) * scale if mask[row, column] else float32(0)


@cuda.jit(device=True)
def dropped_four(values, words, p, scale):
    """`dropped` of four values with the four words of one place."""
    return (
        dropped(values[0], words[0], p, scale),
        dropped(values[1], words[1], p, scale),
        dropped(values[2], words[2], p, scale),
        dropped(values[3], words[3], p, scale),
    )


@cuda.jit(device=True)
def dropout_rest(x, p, scale, seed, offset, y, first):
    """The elements from `first` on, one by one."""
    for i in range(first, y.shape[0]):
        y[i] = float32(x[i]) * scale if is_kept(i, p, seed, offset) else float32(0)


@cuda.jit
def dropout_four_kernel(x, p, scale, seed, offset, y):
    first = 4 * cuda.grid(1)
    if first + 4 <= y.shape[0]:
        words = philox4x32_at(uint64(first // 4), offset, seed)
        store4(y, first, dropped_four(load4(x, first), words, p, scale))
    else:
        dropout_rest(x, p, scale, seed, offset, y, first)


@cuda.jit
def dropout_eight_kernel(x, p, scale, seed, offset, y):
    first = 8 * cuda.grid(1)
    if first + 8 <= y.shape[0]:
        a, b, c, d, e, f, g, h = load8(x, first)
        low = dropped_four((a, b, c, d), philox4x32_at(uint64(first // 4), offset, seed), p, scale)
        high = dropped_four((e, f, g, h), philox4x32_at(uint64(first // 4 + 1), offset, seed), p, scale)
        store8(y, first, low + high)
    else:
        dropout_rest(x, p, scale, seed, offset, y, first)


def _scale(p: float) -> np.float32:
    """1 / (1 - p) as a float32; ValueError unless p lies between 0 and 1. With p = 1 no element is scaled."""
    if not 0 <= p <= 1:
        raise ValueError(f"p={p} must lie between 0 and 1: it is the probability of being dropped")
    return np.float32(1 / (1 - float(p)) if p < 1 else 0)


def _word(value: int, name: str) -> np.uint64:
    """A seed or an offset as 64 bits; negative numbers stand for their two's complement."""
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{name}={value} does not fit into 64 bits")
    return np.uint64(int(value) % 2**64)


def _launch(x: Any, p: float, seed: int, offset: int, y: Any, block: int, stream: Any, vectorised: bool) -> None:
    scale = _scale(p)
    rule = (np.float32(p), scale, _word(seed, "seed"), _word(offset, "offset"))
    if not y.size:
        return
    if vectorised and x.dtype == y.dtype and in_vectors(x, y):
        width = VECTOR_BYTES // y.dtype.itemsize
        kernel = dropout_four_kernel if width == 4 else dropout_eight_kernel
        kernel[ceil_div(ceil_div(y.size, width), block), block, stream](as_flat(x), *rule, as_flat(y))
    else:
        dropout_kernel[ceil_div(y.size, block), block, stream](as_rows(x), *rule, as_rows(y))


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def dropout_forward(x: Any, p: float, seed: int, offset: int, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = x / (1 - p) where kept, else 0; x and y (M, N) or (N,), one thread per element."""
    _launch(x, p, seed, offset, y, block, stream, vectorised=False)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def dropout_forward_vectorised(
    x: Any, p: float, seed: int, offset: int, y: Any, block: int = 256, *, stream: Any = None
) -> None:
    """As `dropout_forward`, 128 bits per thread where both are contiguous and of one dtype."""
    _launch(x, p, seed, offset, y, block, stream, vectorised=True)


@pointwise_launcher(x=read, y=write, mask=partial(write, dtypes=MASK), in_place=("x", "y"))
def dropout_forward_with_mask(
    x: Any, p: float, seed: int, offset: int, y: Any, mask: Any, block: int = 256, *, stream: Any = None
) -> None:
    """As `dropout_forward`, and writes mask (uint8, shape of x): 1 where kept, else 0."""
    scale = _scale(p)
    if y.size:
        dropout_with_mask_kernel[ceil_div(y.size, block), block, stream](
            as_rows(x), np.float32(p), scale, _word(seed, "seed"), _word(offset, "offset"), as_rows(y), as_rows(mask)
        )


@pointwise_launcher(dy=read, mask=partial(read, dtypes=MASK), dx=write, in_place=("dy", "dx"))
def dropout_backward_from_mask(dy: Any, mask: Any, p: float, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx = dy / (1 - p) where mask (uint8) is not 0, else 0; all (M, N) or (N,)."""
    scale = _scale(p)
    if dx.size:
        kernel = dropout_from_mask_kernel[ceil_div(dx.size, block), block, stream]
        kernel(as_rows(dy), as_rows(mask), scale, as_rows(dx))


@pointwise_launcher(dy=read, dx=write, in_place=("dy", "dx"))
def dropout_backward_regenerated(
    dy: Any, p: float, seed: int, offset: int, dx: Any, block: int = 256, *, stream: Any = None
) -> None:
    """Writes dx = dy / (1 - p) where the forward pass with this seed and offset kept x, else 0; (M, N) or (N,)."""
    _launch(dy, p, seed, offset, dx, block, stream, vectorised=True)
