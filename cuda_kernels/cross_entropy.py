"""Cross-entropy of softmax(logits) against labels, forward, fused: the probabilities are never written.

    lse (T,) = log sum_v exp(logits_v)          logits (T, V), labels (T,)
    loss     = lse - logits_label               with label smoothing s: (1 - s) of that + s (lse - mean_v logits_v)

logits are float32, bfloat16 or float16, labels int32 or int64; loss and lse are float32, and so is all arithmetic. lse
is saved for the backward pass (`cross_entropy_backward.py`). reduction "none" writes loss (T,); "sum" and "mean" write
loss (1,), added up in a fixed order. A row whose label is ignore_index has loss 0 and does not count in the mean; the
mean over no row is 0.

A label that is neither ignore_index nor in [0, V) is an error. Nothing is read out of bounds for it, and the loss of
its row is NaN, which reaches the mean and the sum; with check=True the launcher waits for the stream and raises
IndexError with the row and its label, before anything is written.

naive:    one thread per row: a pass for the maximum, one for the sum.
online:   one block per row, maximum and sum in a single pass (`softmax_statistics.py`); a second pass only for label
          smoothing, once the maximum is known that is taken off the logits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .labels import IGNORE_INDEX, check_labels, check_reduction, is_class
from .launch import FLOAT32, INTEGERS, ceil_div, check_block, launcher, read, write
from .primitives.block import block_sum
from .softmax_statistics import NO_MAXIMUM, block_joined, extended

REDUCTION_BLOCK = 256


@cuda.jit(device=True)
def row_loss(m, log_s, label_logit, deficit, columns, label, ignore_index, label_smoothing):
    """The loss of one row from its maximum m, log s, the label's logit and deficit = sum(m - logits)."""
    if label == ignore_index:
        return float32(0)
    if not is_class(label, columns):
        return float32(math.nan)
    loss = log_s + (m - label_logit)
    if label_smoothing > float32(0):
        uniform = log_s + deficit / float32(columns)
        loss = (float32(1) - label_smoothing) * loss + label_smoothing * uniform
    return loss


@cuda.jit
def cross_entropy_naive_kernel(logits, labels, loss, lse, ignore_index, label_smoothing):
    row = cuda.grid(1)
    if row >= logits.shape[0]:
        return
    columns, label = logits.shape[1], labels[row]
    m, s, deficit = NO_MAXIMUM, float32(0), float32(0)
    for column in range(columns):
        m = max(m, float32(logits[row, column]))
    for column in range(columns):
        value = float32(logits[row, column])
        s += math.exp(value - m) if value != m else float32(1)  # infinities are equal, their difference is NaN
        deficit += m - value
    label_logit = float32(logits[row, label]) if is_class(label, columns) else float32(0)
    log_s = math.log(s)
    loss[row] = row_loss(m, log_s, label_logit, deficit, columns, label, ignore_index, label_smoothing)
    lse[row] = m + log_s


@cuda.jit
def cross_entropy_online_kernel(logits, labels, loss, lse, ignore_index, label_smoothing):
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns, label = logits.shape[1], labels[row]
    m, s, deficit = NO_MAXIMUM, float32(0), float32(0)
    for column in range(thread, columns, threads):
        m, s = extended(m, s, float32(logits[row, column]))
    m, s = block_joined(m, s)
    if label_smoothing > float32(0):
        for column in range(thread, columns, threads):
            deficit += m - float32(logits[row, column])
        deficit = block_sum(deficit)
    if thread == 0:
        label_logit = float32(logits[row, label]) if is_class(label, columns) else float32(0)
        log_s = math.log(s)
        loss[row] = row_loss(m, log_s, label_logit, deficit, columns, label, ignore_index, label_smoothing)
        lse[row] = m + log_s


@cuda.jit
def add_losses_kernel(losses, labels, loss, ignore_index, mean):
    """loss (1,) = the sum of losses (T,), over the number of labels that are not ignored where mean is set."""
    total, count = float32(0), float32(0)
    for row in range(cuda.threadIdx.x, losses.shape[0], cuda.blockDim.x):
        total += losses[row]
        if labels[row] != ignore_index:
            count += float32(1)
    total = block_sum(total)
    if mean:
        total /= max(block_sum(count), float32(1))
    if cuda.threadIdx.x == 0:
        loss[0] = total


_cross_entropy = launcher(
    logits=read("T", "V"),
    labels=read("T", dtypes=INTEGERS),
    loss=write("R", dtypes=FLOAT32),  # R is T for reduction "none", else 1
    lse=write("T", dtypes=FLOAT32),
)


@_cross_entropy
def cross_entropy_naive(
    logits: Any,
    labels: Any,
    loss: Any,
    lse: Any,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
    block: int = 128,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Writes loss (T,) or (1,) and lse (T,) of logits (T, V) and labels (T,), one thread per row."""
    T = logits.shape[0]
    losses = _prepared("cross_entropy_naive", logits, labels, loss, ignore_index, reduction, check, stream)
    if T:
        smoothing = np.float32(label_smoothing)
        cross_entropy_naive_kernel[ceil_div(T, block), block, stream](
            logits, labels, losses, lse, ignore_index, smoothing
        )
    launch_reduction(losses, labels, loss, ignore_index, reduction, stream)


@_cross_entropy
def cross_entropy_online(
    logits: Any,
    labels: Any,
    loss: Any,
    lse: Any,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
    block: int = 256,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Writes loss (T,) or (1,) and lse (T,) of logits (T, V) and labels (T,), one block per row."""
    check_block(block)
    T = logits.shape[0]
    losses = _prepared("cross_entropy_online", logits, labels, loss, ignore_index, reduction, check, stream)
    if T:
        smoothing = np.float32(label_smoothing)
        cross_entropy_online_kernel[T, block, stream](logits, labels, losses, lse, ignore_index, smoothing)
    launch_reduction(losses, labels, loss, ignore_index, reduction, stream)


def _prepared(
    name: str, logits: Any, labels: Any, loss: Any, ignore_index: int, reduction: str, check: bool, stream: Any
) -> Any:
    check_reduction(name, "loss", loss, logits.shape[0], reduction)
    if check:
        check_labels(name, labels, logits.shape[1], ignore_index, stream)
    return losses_for(loss, logits.shape[0], reduction, stream)


def losses_for(loss: Any, T: int, reduction: str, stream: Any) -> Any:
    """Where the losses (T,) of the rows go: `loss` itself, or scratch that is to be reduced into it."""
    return loss if reduction == "none" else cuda.device_array(T, FLOAT32, stream=stream)


def launch_reduction(losses: Any, labels: Any, loss: Any, ignore_index: int, reduction: str, stream: Any) -> None:
    """Writes loss (1,) from losses (T,) for "mean" and "sum", 0 where T is 0; nothing for "none"."""
    if reduction != "none":
        mean = reduction == "mean"
        add_losses_kernel[1, REDUCTION_BLOCK, stream](losses, labels, loss, ignore_index, mean)
