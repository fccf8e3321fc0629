"""What the cross-entropies share about labels (T,): which name a class, which are ignored, how losses are reduced."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, ceil_div
from .primitives.block import block_sum

IGNORE_INDEX = -100
REDUCTIONS = ("none", "mean", "sum")
BLOCK = 256


@cuda.jit(device=True)
def is_class(label, classes):
    """Whether a label lies in [0, classes)."""
    return label >= 0 and label < classes


@cuda.jit
def first_wrong_label_kernel(labels, classes, ignore_index, first):
    """first (1,) = the lowest row whose label is neither ignored nor a class; unchanged where there is none."""
    row = cuda.grid(1)
    if row >= labels.shape[0]:
        return
    label = labels[row]
    if label != ignore_index and not is_class(label, classes):
        cuda.atomic.min(first, 0, row)


@cuda.jit
def mean_upstream_kernel(dloss, labels, ignore_index, upstream):
    """upstream (1,) = dloss (1,) over the number of labels that are not ignored; one block."""
    count = float32(0)
    for row in range(cuda.threadIdx.x, labels.shape[0], cuda.blockDim.x):
        if labels[row] != ignore_index:
            count += float32(1)
    count = block_sum(count)
    if cuda.threadIdx.x == 0:
        upstream[0] = dloss[0] / max(count, float32(1))


def check_reduction(name: str, argument: str, array: Any, T: int, reduction: str) -> None:
    """Raises ValueError unless `reduction` is known and the loss, or its gradient, has one element per row, or one."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction={reduction!r}, expected 'none', 'mean' or 'sum'")
    expected = T if reduction == "none" else 1
    if array.shape[0] != expected:
        raise ValueError(
            f"{name}: {argument} has shape ({array.shape[0]},), expected ({expected},) for reduction={reduction!r}"
        )


def check_labels(name: str, labels: Any, classes: int, ignore_index: int, stream: Any = 0) -> None:
    """Raises IndexError that names the first row with a label neither ignored nor in [0, classes); waits for it."""
    T = labels.shape[0]
    if not T:
        return
    first = cuda.to_device(np.full(1, T, np.int64), stream=stream)
    first_wrong_label_kernel[ceil_div(T, BLOCK), BLOCK, stream](labels, classes, ignore_index, first)
    row = _fetched(first, stream)
    if row < T:
        label = _fetched(labels[row : row + 1], stream)
        raise IndexError(
            f"{name}: labels[{row}] is {label}, expected ignore_index={ignore_index} or a class from 0 to {classes - 1}"
        )


def _fetched(array: Any, stream: Any) -> int:
    """The only element of a device array, once the stream has got there."""
    host = array.copy_to_host(stream=stream)
    if stream:
        stream.synchronize()
    return int(host[0])


def mean_upstream(dloss: Any, labels: Any, ignore_index: int, stream: Any) -> Any:
    """The gradient (1,) of each row's loss, from that of their mean; on the device, no copy to the host."""
    upstream = cuda.device_array(1, FLOAT32, stream=stream)
    mean_upstream_kernel[1, BLOCK, stream](dloss, labels, ignore_index, upstream)
    return upstream
