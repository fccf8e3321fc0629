"""Cross-entropy of softmax(logits) against labels, backward, from the saved lse (T,).

    dlogits (T, V) = (exp(logits - lse) - q) dloss,    q = (1 - s) e_label + s / V        s: the label smoothing

softmax's dense Jacobian and the logarithm's -1 / p_label cancel: what is left is a subtraction. dloss (T,) or (1,) is
float32; logits and dlogits are float32, bfloat16 or float16, and may be the same array: the logits are then replaced by
their gradient, and a training step keeps one array of T V instead of two.

For reduction "mean" dloss is divided by the number of rows that are not ignored, counted on the device. Ignored rows
get 0, rows with a wrong label NaN; check=True raises for those as in `cross_entropy.py`.

naive:    one thread per element.
block:    one block per row, which reads the row's label, lse and dloss once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .labels import IGNORE_INDEX, check_labels, check_reduction, is_class, mean_upstream
from .launch import FLOAT32, INTEGERS, ceil_div, check_block, launcher, read, write


@cuda.jit(device=True)
def logit_gradient(logit, lse, column, label, classes, ignore_index, label_smoothing, upstream):
    """The gradient of one logit, float32; column counts from the first of all classes."""
    if label == ignore_index:
        return float32(0)
    if not is_class(label, classes):
        return float32(math.nan)
    target = label_smoothing / float32(classes)
    if column == label:
        target += float32(1) - label_smoothing
    return (math.exp(logit - lse) - target) * upstream


@cuda.jit
def cross_entropy_backward_naive_kernel(dloss, logits, labels, lse, dlogits, ignore_index, label_smoothing):
    element = cuda.grid(1)
    classes = logits.shape[1]
    if element >= logits.shape[0] * classes:
        return
    row, column = element // classes, element % classes
    upstream = dloss[min(row, dloss.shape[0] - 1)]  # one for every row, or one for all
    dlogits[row, column] = logit_gradient(
        float32(logits[row, column]), lse[row], column, labels[row], classes, ignore_index, label_smoothing, upstream
    )


@cuda.jit
def cross_entropy_backward_block_kernel(
    dloss, logits, labels, lse, dlogits, first_column, classes, ignore_index, label_smoothing
):
    """logits and dlogits may be a chunk of the classes that begins at first_column."""
    row = cuda.blockIdx.x
    upstream, row_lse, label = dloss[min(row, dloss.shape[0] - 1)], lse[row], labels[row]
    for column in range(cuda.threadIdx.x, logits.shape[1], cuda.blockDim.x):
        dlogits[row, column] = logit_gradient(
            float32(logits[row, column]),
            row_lse,
            first_column + column,
            label,
            classes,
            ignore_index,
            label_smoothing,
            upstream,
        )


_cross_entropy_backward = launcher(
    dloss=read("R", dtypes=FLOAT32),  # R is T for reduction "none", else 1
    logits=read("T", "V"),
    labels=read("T", dtypes=INTEGERS),
    lse=read("T", dtypes=FLOAT32),
    dlogits=write("T", "V"),
    in_place=("logits", "dlogits"),
)


@_cross_entropy_backward
def cross_entropy_backward_naive(
    dloss: Any,
    logits: Any,
    labels: Any,
    lse: Any,
    dlogits: Any,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
    block: int = 256,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Writes dlogits (T, V) from dloss (T,) or (1,), logits (T, V), labels and lse (T,), one thread per element."""
    name = "cross_entropy_backward_naive"
    upstream = upstream_for(name, dloss, labels, logits.shape[1], ignore_index, reduction, check, stream)
    elements = logits.shape[0] * logits.shape[1]
    if elements:
        cross_entropy_backward_naive_kernel[ceil_div(elements, block), block, stream](
            upstream, logits, labels, lse, dlogits, ignore_index, np.float32(label_smoothing)
        )


@_cross_entropy_backward
def cross_entropy_backward_block(
    dloss: Any,
    logits: Any,
    labels: Any,
    lse: Any,
    dlogits: Any,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
    block: int = 256,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Writes dlogits (T, V) from dloss (T,) or (1,), logits (T, V), labels and lse (T,), one block per row."""
    check_block(block)
    name = "cross_entropy_backward_block"
    upstream = upstream_for(name, dloss, labels, logits.shape[1], ignore_index, reduction, check, stream)
    if 0 not in logits.shape:
        cross_entropy_backward_block_kernel[logits.shape[0], block, stream](
            upstream, logits, labels, lse, dlogits, 0, logits.shape[1], ignore_index, np.float32(label_smoothing)
        )


def upstream_for(
    name: str, dloss: Any, labels: Any, classes: int, ignore_index: int, reduction: str, check: bool, stream: Any
) -> Any:
    """The gradient of each row's loss, (T,) or (1,) for all rows, after the checks of a backward launcher."""
    check_reduction(name, "dloss", dloss, labels.shape[0], reduction)
    if check:
        check_labels(name, labels, classes, ignore_index, stream)
    return mean_upstream(dloss, labels, ignore_index, stream) if reduction == "mean" else dloss
