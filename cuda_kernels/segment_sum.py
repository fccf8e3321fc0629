"""Sums of the rows of x (T, D) by segment, y (S, D), and backward, a gather.

    by offsets:  y[s] = sum of x[t] over offsets[s] <= t < offsets[s + 1]     offsets (S + 1,)
    by ids:      y[s] = sum of x[t] over all t with ids[t] = s                ids (T,), in any order
    backward:    dx[t] = dy[segment of t]

x, y, dy and dx are float32, bfloat16 or float16, sums float32; offsets and ids int32 or int64. Offsets never descend
and lie in [0, T], which is the caller's promise. Rows outside all offsets, and rows whose id is outside [0, S), belong
to no segment: they add nothing, and their gradient is 0. A segment of no rows is 0.

naive:         one thread per element of y walks the rows of its segment.
block:         one block per segment and 32 columns; its warps share the rows, and a warp reads a row's columns side by
               side; for long segments.
ids atomic:    y is filled with zeros, then one thread per element of x adds by an atomic; float32 y alone, and the
               order of additions is left to the hardware.
ids sorted:    a stable sort of the ids on the device, then one block per segment adds its rows in their order;
               deterministic, bit for bit.
backward:      one thread per element of dx finds its segment by bisection of the offsets.
ids backward:  one thread per element of dx reads its id.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, INTEGERS, ceil_div, check_block, fill_zero, launcher, read, write
from .primitives.warp import WARP
from .stable_argsort import stable_argsort

INT64 = np.dtype(np.int64)


@cuda.jit
def segment_sum_naive_kernel(x, offsets, y):
    element, columns = cuda.grid(1), y.shape[1]
    if element >= y.shape[0] * columns:
        return
    segment, column = element // columns, element % columns
    total = float32(0)
    for row in range(offsets[segment], offsets[segment + 1]):
        total += float32(x[row, column])
    y[segment, column] = total


@cuda.jit
def segment_sum_block_kernel(x, offsets, y):
    parts = cuda.shared.array((WARP, WARP), float32)  # warp, column
    column_blocks = (y.shape[1] + WARP - 1) // WARP
    segment, first = cuda.blockIdx.x // column_blocks, cuda.blockIdx.x % column_blocks * WARP
    lane, warp, warps = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    column = first + lane
    part = float32(0)
    if column < y.shape[1]:
        for row in range(offsets[segment] + warp, offsets[segment + 1], warps):
            part += float32(x[row, column])
    parts[warp, lane] = part
    cuda.syncthreads()
    if warp == 0 and column < y.shape[1]:
        total = float32(0)
        for other in range(warps):
            total += parts[other, lane]
        y[segment, column] = total


@cuda.jit
def segment_sum_by_ids_atomic_kernel(x, ids, y):
    element, columns = cuda.grid(1), x.shape[1]
    if element >= x.shape[0] * columns:
        return
    row, column = element // columns, element % columns
    segment = ids[row]
    if segment >= 0 and segment < y.shape[0]:
        cuda.atomic.add(y, (segment, column), float32(x[row, column]))


@cuda.jit
def sortable_ids_kernel(ids, segments, keys):
    """Ids outside [0, S) become S: behind all segments."""
    row = cuda.grid(1)
    if row < ids.shape[0]:
        segment = ids[row]
        keys[row] = segment if segment >= 0 and segment < segments else segments


@cuda.jit(device=True)
def rows_below(keys, order, segment):
    """How many rows belong to a segment before this one: where it begins in the sorted order."""
    low, high = 0, order.shape[0]
    while low < high:
        middle = (low + high) // 2
        if keys[order[middle]] < segment:
            low = middle + 1
        else:
            high = middle
    return low


@cuda.jit
def segment_sum_by_ids_sorted_kernel(x, keys, order, y):
    segment = cuda.blockIdx.x
    first, last = rows_below(keys, order, segment), rows_below(keys, order, segment + 1)
    for column in range(cuda.threadIdx.x, y.shape[1], cuda.blockDim.x):
        total = float32(0)
        for slot in range(first, last):
            total += float32(x[order[slot], column])
        y[segment, column] = total


@cuda.jit(device=True)
def segment_of(offsets, row):
    """The segment that this row belongs to; -1 or S where it belongs to none."""
    low, high = 0, offsets.shape[0]  # the number of offsets that are at most `row`
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] <= row:
            low = middle + 1
        else:
            high = middle
    return low - 1


@cuda.jit
def segment_sum_backward_kernel(dy, offsets, dx):
    element, columns = cuda.grid(1), dx.shape[1]
    if element >= dx.shape[0] * columns:
        return
    row, column = element // columns, element % columns
    segment = segment_of(offsets, row)
    if segment >= 0 and segment < dy.shape[0]:
        dx[row, column] = dy[segment, column]
    else:
        dx[row, column] = float32(0)


@cuda.jit
def segment_sum_by_ids_backward_kernel(dy, ids, dx):
    element, columns = cuda.grid(1), dx.shape[1]
    if element >= dx.shape[0] * columns:
        return
    row, column = element // columns, element % columns
    segment = ids[row]
    if segment >= 0 and segment < dy.shape[0]:
        dx[row, column] = dy[segment, column]
    else:
        dx[row, column] = float32(0)


X, OFFSETS, IDS = read("T", "D"), read("S+1", dtypes=INTEGERS), read("T", dtypes=INTEGERS)


@launcher(x=X, offsets=OFFSETS, y=write("S", "D"))
def segment_sum_naive(x: Any, offsets: Any, y: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes y (S, D) from x (T, D) and offsets (S + 1,); one thread per element."""
    if y.size:
        segment_sum_naive_kernel[ceil_div(y.size, block), block, stream](x, offsets, y)


@launcher(x=X, offsets=OFFSETS, y=write("S", "D"))
def segment_sum_block(x: Any, offsets: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (S, D) from x (T, D) and offsets (S + 1,); one block per segment and 32 columns."""
    check_block(block)
    if y.size:
        blocks = y.shape[0] * ceil_div(y.shape[1], WARP)
        segment_sum_block_kernel[blocks, block, stream](x, offsets, y)


@launcher(x=X, ids=IDS, y=write("S", "D", dtypes=FLOAT32))
def segment_sum_by_ids_atomic(x: Any, ids: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes float32 y (S, D) from x (T, D) and ids (T,), by atomics in any order."""
    fill_zero(y, block, stream)
    if x.size and y.size:
        segment_sum_by_ids_atomic_kernel[ceil_div(x.size, block), block, stream](x, ids, y)


@launcher(x=X, ids=IDS, y=write("S", "D"))
def segment_sum_by_ids_sorted(x: Any, ids: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (S, D) from x (T, D) and ids (T,), bit for bit repeatable; rows add up in their order.

    The scratch is three int64 for each row, besides 16 for every `block` rows.
    """
    if not y.size:
        return
    T, S = x.shape[0], y.shape[0]
    keys = cuda.device_array(T, INT64, stream=stream)
    if T:
        sortable_ids_kernel[ceil_div(T, block), block, stream](ids, S, keys)
    order = stable_argsort(keys, S + 1, block, stream=stream)
    segment_sum_by_ids_sorted_kernel[S, block, stream](x, keys, order, y)


@launcher(dy=read("S", "D"), offsets=OFFSETS, dx=write("T", "D"))
def segment_sum_backward(dy: Any, offsets: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx (T, D) from dy (S, D) and offsets (S + 1,)."""
    if dx.size:
        segment_sum_backward_kernel[ceil_div(dx.size, block), block, stream](dy, offsets, dx)


@launcher(dy=read("S", "D"), ids=IDS, dx=write("T", "D"))
def segment_sum_by_ids_backward(dy: Any, ids: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx (T, D) from dy (S, D) and ids (T,)."""
    if dx.size:
        segment_sum_by_ids_backward_kernel[ceil_div(dx.size, block), block, stream](dy, ids, dx)
