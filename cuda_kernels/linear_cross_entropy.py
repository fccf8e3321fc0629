"""Cross-entropy of the logits x w against labels, forward: the logits (T, V) are never in memory as a whole.

    logits = x w,    lse (T,) = log sum_v exp(logits_v),    loss (T,) = lse - logits_label
                                                             x (T, K), w (K, V), labels (T,)

x and w are float32, bfloat16 or float16, labels int32 or int64; loss and lse are float32, and so is all arithmetic.
Reductions, label smoothing, ignored and wrong labels are those of `cross_entropy.py`; the backward pass is in
`linear_cross_entropy_backward.py`. w may be the transpose of an embedding (a view).

Between the pieces of a row four numbers stay: its maximum m so far, s = sum exp(logits - m), the deficit
sum(m - logits), which label smoothing needs, and the label's logit.

chunked:  a matrix product makes `chunk` columns of logits in a scratch of T chunk floats, a second kernel takes them
          into the four numbers of each row, and so on along the vocabulary.
fused:    one kernel, tile x tile threads per `tile` rows: the tile of logits that a block has just made stays in
          registers, each thread keeps the four numbers of its own columns, and they are joined once, at the end. No
          scratch; ceil(T / tile) blocks, so it wants many rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import cuda, float32

from . import gemm
from .cross_entropy import launch_reduction, losses_for, row_loss
from .labels import IGNORE_INDEX, check_labels, check_reduction, is_class
from .launch import FLOAT32, INTEGERS, ceil_div, check_block, launcher, read, write
from .launch.views import part_of
from .primitives.block import block_sum
from .softmax_statistics import NO_MAXIMUM, block_joined, extended, joined

MAXIMUM, SUM, DEFICIT, LABEL_LOGIT = range(4)  # the rows of `state` (4, T)
FINISH_BLOCK = 128


@cuda.jit(device=True)
def joined_with_deficit(m_a, s_a, deficit_a, count_a, m_b, s_b, deficit_b, count_b):
    """(m, s, deficit, count) of two parts of a row, either of which may be empty (-inf, 0, 0, 0)."""
    m, s = joined(m_a, s_a, m_b, s_b)
    if count_a > 0:
        deficit_a += float32(count_a) * (m - m_a)
    if count_b > 0:
        deficit_b += float32(count_b) * (m - m_b)
    return m, s, deficit_a + deficit_b, count_a + count_b


@cuda.jit
def take_chunk_kernel(logits, labels, first_column, state):
    """Takes a chunk of the logits (T, n), columns first_column and on, into state (4, T); one block per row."""
    row, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    columns = logits.shape[1]
    m, s, deficit = NO_MAXIMUM, float32(0), float32(0)
    for column in range(thread, columns, threads):
        m, s = extended(m, s, logits[row, column])
    m, s = block_joined(m, s)
    for column in range(thread, columns, threads):
        deficit += m - logits[row, column]
    deficit = block_sum(deficit)
    if thread == 0:
        label = labels[row] - first_column
        if is_class(label, columns):
            state[LABEL_LOGIT, row] = logits[row, label]
        if first_column > 0:
            old_m, old_s, old_deficit = state[MAXIMUM, row], state[SUM, row], state[DEFICIT, row]
            m, s, deficit, _ = joined_with_deficit(old_m, old_s, old_deficit, first_column, m, s, deficit, columns)
        state[MAXIMUM, row], state[SUM, row], state[DEFICIT, row] = m, s, deficit


@cuda.jit
def finish_kernel(state, labels, classes, loss, lse, ignore_index, label_smoothing):
    """loss and lse (T,) from state (4, T), one thread per row."""
    row = cuda.grid(1)
    if row >= labels.shape[0]:
        return
    label, m, log_s = labels[row], state[MAXIMUM, row], math.log(state[SUM, row])
    label_logit = state[LABEL_LOGIT, row] if is_class(label, classes) else float32(0)
    loss[row] = row_loss(m, log_s, label_logit, state[DEFICIT, row], classes, label, ignore_index, label_smoothing)
    lse[row] = m + log_s


@functools.cache
def linear_cross_entropy_fused_factory(tile: int) -> Any:
    """The kernel with tile x tile threads per `tile` rows, which walks along the whole vocabulary."""
    padded = tile + 1  # a store down a column then touches different banks

    @cuda.jit
    def linear_cross_entropy_fused_kernel(x, w, labels, loss, lse, ignore_index, label_smoothing):
        x_tile = cuda.shared.array((tile, padded), float32)  # (row, k)
        w_tile = cuda.shared.array((tile, padded), float32)  # (k, column)
        parts = cuda.shared.array((3, tile, padded), float32)  # m, s and deficit of each thread's columns
        label_logits = cuda.shared.array(tile, float32)
        i, j = cuda.threadIdx.y, cuda.threadIdx.x
        rows, depth, classes = x.shape[0], x.shape[1], w.shape[1]
        first_row = cuda.blockIdx.x * tile
        row = first_row + i
        # The x axis of the block follows the contiguous axis of each operand.
        x_row, x_k = (i, j) if x.strides[1] <= x.strides[0] else (j, i)
        w_k, w_column = (i, j) if w.strides[1] <= w.strides[0] else (j, i)
        label = labels[row] if row < rows else -1
        m, s, deficit, count = NO_MAXIMUM, float32(0), float32(0), 0
        if j == 0:
            label_logits[i] = float32(0)
        cuda.syncthreads()
        for first_column in range(0, classes, tile):
            logit = float32(0)
            for first_k in range(0, depth, tile):
                a, k = first_row + x_row, first_k + x_k
                x_tile[x_row, x_k] = float32(x[a, k]) if a < rows and k < depth else float32(0)
                k, b = first_k + w_k, first_column + w_column
                w_tile[w_k, w_column] = float32(w[k, b]) if k < depth and b < classes else float32(0)
                cuda.syncthreads()
                for k in range(tile):
                    logit += x_tile[i, k] * w_tile[k, j]
                cuda.syncthreads()  # the tiles are overwritten next
            column = first_column + j
            if column < classes:
                m, s, deficit, count = joined_with_deficit(m, s, deficit, count, logit, float32(1), float32(0), 1)
                if column == label:
                    label_logits[i] = logit

        parts[MAXIMUM, i, j], parts[SUM, i, j], parts[DEFICIT, i, j] = m, s, deficit
        cuda.syncthreads()
        if j == 0 and row < rows:
            for other in range(1, tile):
                other_count = (classes - other + tile - 1) // tile
                other_m, other_s, other_deficit = (
                    parts[MAXIMUM, i, other],
                    parts[SUM, i, other],
                    parts[DEFICIT, i, other],
                )
                m, s, deficit, count = joined_with_deficit(
                    m, s, deficit, count, other_m, other_s, other_deficit, other_count
                )
            log_s = math.log(s)
            loss[row] = row_loss(m, log_s, label_logits[i], deficit, classes, label, ignore_index, label_smoothing)
            lse[row] = m + log_s

    return linear_cross_entropy_fused_kernel


_linear_cross_entropy = launcher(
    x=read("T", "K"),
    w=read("K", "V"),
    labels=read("T", dtypes=INTEGERS),
    loss=write("R", dtypes=FLOAT32),  # R is T for reduction "none", else 1
    lse=write("T", dtypes=FLOAT32),
)


@_linear_cross_entropy
def linear_cross_entropy_chunked(
    x: Any,
    w: Any,
    labels: Any,
    loss: Any,
    lse: Any,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
    chunk: int = 8192,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    block: int = 256,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Writes loss (T,) or (1,) and lse (T,) of x (T, K), w (K, V) and labels (T,), `chunk` classes at a time.

    The scratch is T chunk + 4 T floats. The products are those of `gemm.register_tiled_gemm`.
    """
    check_block(block)
    name, (T, V) = "linear_cross_entropy_chunked", (x.shape[0], w.shape[1])
    losses = _prepared(name, labels, loss, V, ignore_index, reduction, check, stream)
    if T:
        tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
        state = cuda.device_array((4, T), FLOAT32, stream=stream)
        for first, _, logits in chunks(name, x, w, chunk, tiles, stream):
            take_chunk_kernel[T, block, stream](logits, labels, first, state)
        smoothing = np.float32(label_smoothing)
        finish_kernel[ceil_div(T, FINISH_BLOCK), FINISH_BLOCK, stream](
            state, labels, V, losses, lse, ignore_index, smoothing
        )
    launch_reduction(losses, labels, loss, ignore_index, reduction, stream)


@_linear_cross_entropy
def linear_cross_entropy_fused(
    x: Any,
    w: Any,
    labels: Any,
    loss: Any,
    lse: Any,
    ignore_index: int = IGNORE_INDEX,
    label_smoothing: float = 0.0,
    reduction: str = "none",
    tile: int = 16,
    check: bool = False,
    *,
    stream: Any = None,
) -> None:
    """Writes loss (T,) or (1,) and lse (T,) of x (T, K), w (K, V) and labels (T,) in one kernel; tile <= 32."""
    name, (T, V) = "linear_cross_entropy_fused", (x.shape[0], w.shape[1])
    if not 1 <= tile <= 32:
        raise ValueError(f"{name}: tile={tile}, expected 1 to 32: a block has tile * tile threads, at most 1024")
    losses = _prepared(name, labels, loss, V, ignore_index, reduction, check, stream)
    if T:
        kernel = linear_cross_entropy_fused_factory(tile)
        kernel[ceil_div(T, tile), (tile, tile), stream](
            x, w, labels, losses, lse, ignore_index, np.float32(label_smoothing)
        )
    launch_reduction(losses, labels, loss, ignore_index, reduction, stream)


def _prepared(
    name: str, labels: Any, loss: Any, V: int, ignore_index: int, reduction: str, check: bool, stream: Any
) -> Any:
    check_reduction(name, "loss", loss, labels.shape[0], reduction)
    if check:
        check_labels(name, labels, V, ignore_index, stream)
    return losses_for(loss, labels.shape[0], reduction, stream)


def chunks(name: str, x: Any, w: Any, chunk: int, tiles: gemm.Tiles, stream: Any) -> Iterator[tuple[int, Any, Any]]:
    """(first column, w's columns (K, n), their logits (T, n) float32) of each chunk, in scratch that each reuses.

    Without any class there is one empty chunk, so that the results are those of a sum over nothing.
    """
    if chunk < 1:
        raise ValueError(f"{name}: chunk={chunk}, expected at least 1")
    T, V = x.shape[0], w.shape[1]
    chunk = min(chunk, V)
    scratch = cuda.device_array(T * chunk, FLOAT32, stream=stream)
    for first in range(0, max(V, 1), max(chunk, 1)):
        n = min(chunk, V - first)
        columns, logits = part_of(w, 1, first, n), scratch[: T * n].reshape(T, n)
        gemm.launch_register_tiled_gemm(gemm.store, x, columns, logits, tiles, stream=stream)
        yield first, columns, logits
