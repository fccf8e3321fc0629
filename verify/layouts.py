"""Layouts by name: where the elements of an array lie, as byte strides and the offset of the first element.

| name | the array lies |
|---|---|
| contiguous | in C order, its first element on a 256-byte boundary |
| strided | with gaps: every second element (or third) of a row, and spare elements after each row |
| transposed | in C order of the array with its last two axes exchanged |
| offset | in C order, its first element aligned to the item size and to nothing more |
| broadcast | with stride 0 along the axes over which the values do not change (inputs only) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LAYOUTS = ("contiguous", "strided", "transposed", "offset", "broadcast")
ALIGNMENT = 256
"""Bytes; what a GPU allocator guarantees for the start of a buffer."""


@dataclass(frozen=True)
class Placement:
    """Byte `strides`, `shift` (bytes of the first element past an aligned address) and `extent` (bytes spanned)."""

    strides: tuple[int, ...]
    shift: int
    extent: int


def place(
    shape: Sequence[int],
    itemsize: int,
    layout: str,
    *,
    broadcast: Sequence[int] = (),
    rng: np.random.Generator | None = None,
) -> Placement:
    """Where an array of `shape` lies in `layout`; `rng` chooses the gaps of `strided` (without it, the smallest).

    `broadcast` are the axes of stride 0, which the layout `broadcast` needs.
    """
    shape = tuple(shape)
    shift = itemsize if layout == "offset" else 0
    if layout in ("contiguous", "offset"):
        strides = _packed(shape, itemsize)
    elif layout == "strided":
        step, spare = (2, 1) if rng is None else (int(rng.integers(2, 4)), int(rng.integers(1, 6)))
        strides = _strided(shape, itemsize, step, spare)
    elif layout == "transposed":
        strides = _transposed(shape, itemsize)
    elif layout == "broadcast":
        kept = tuple(1 if axis in broadcast else size for axis, size in enumerate(shape))
        strides = tuple(0 if axis in broadcast else stride for axis, stride in enumerate(_packed(kept, itemsize)))
    else:
        raise ValueError(f"layout is {layout!r}; expected one of {', '.join(LAYOUTS)}")
    extent = 0 if 0 in shape else itemsize + sum((size - 1) * stride for size, stride in zip(shape, strides))
    return Placement(strides, shift, extent)


def makes_a_difference(layout: str, ndim: int) -> bool:
    """False where `layout` of an `ndim`-dimensional array is the same as contiguous."""
    return ndim >= {"contiguous": 0, "offset": 0, "strided": 1, "broadcast": 1, "transposed": 2}[layout]


def broadcast_axes(ndim: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Axes over which a broadcast input is constant: the first, the last, or all of them (a scalar's gradient)."""
    if ndim == 0:
        return ()
    return ((0,), (ndim - 1,), tuple(range(ndim)))[int(rng.integers(3))]


def constant_axes(array: np.ndarray) -> tuple[int, ...]:
    """The axes along which every element has the same bits as its neighbours."""
    if array.ndim == 0:
        return ()
    bits = np.ascontiguousarray(array)[..., np.newaxis].view(np.uint8)
    return tuple(
        axis
        for axis in range(array.ndim)
        if array.shape[axis] > 0 and bool(np.all(bits == np.take(bits, [0], axis=axis)))
    )


def _packed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _strided(shape: tuple[int, ...], itemsize: int, step: int, spare: int) -> tuple[int, ...]:
    """Rows of every `step`-th element, `spare` more elements after each row; further axes packed."""
    strides = []
    stride = itemsize * step
    for position, size in enumerate(reversed(shape)):
        strides.append(stride)
        stride *= max(size, 1)
        if position == 0:
            stride += itemsize * spare
    return tuple(reversed(strides))


def _transposed(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if len(shape) < 2:
        return _packed(shape, itemsize)
    swapped = (*shape[:-2], shape[-1], shape[-2])
    *outer, row, column = _packed(swapped, itemsize)
    return (*outer, column, row)
