"""Rows of tokens brought into the order of their experts, and back with the gates as weights; each with its backward.

    permute:    rows[position[t, s]] = x[t]                          dx[t] = sum_s drows[position[t, s]]
    unpermute:  y[t] = sum_s gates[t, s] rows[position[t, s]]
                drows[position[t, s]] = gates[t, s] dy[t],   dgates[t, s] = sum_d dy[t, d] rows[position[t, s], d]

x, dx, y and dy (T, D), rows and drows (R, D) with R = T K are float32, bfloat16 or float16; gates and dgates (T, K)
float32; position (T, K) int32 or int64, every row of 0 to R - 1 once (`routing_order.py` makes it so): hence plain
stores. Sums are float32, over the slots in their order, so that no two runs differ in a bit.

permute naive:            one thread per element of rows.
permute token:            one block per token reads its row of x once and stores it K times.
permute backward:         one thread per element of dx.
unpermute:                one thread per element of y.
unpermute backward naive: one thread per pair.
unpermute backward block: one block per pair, the product dy rows summed by shuffles and shared memory.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float32

from .launch import FLOAT32, INTEGERS, ceil_div, check_block, launcher, read, write
from .primitives.block import block_sum


@cuda.jit
def permute_naive_kernel(x, position, rows):
    slots, columns = position.shape[1], x.shape[1]
    element = cuda.grid(1)
    if element >= rows.shape[0] * columns:
        return
    pair, column = element // columns, element % columns
    token = pair // slots
    rows[position[token, pair % slots], column] = x[token, column]


@cuda.jit
def permute_token_kernel(x, position, rows):
    token = cuda.blockIdx.x
    for column in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        value = x[token, column]
        for slot in range(position.shape[1]):
            rows[position[token, slot], column] = value


@cuda.jit
def permute_backward_kernel(drows, position, dx):
    columns = dx.shape[1]
    element = cuda.grid(1)
    if element >= dx.shape[0] * columns:
        return
    token, column = element // columns, element % columns
    total = float32(0)
    for slot in range(position.shape[1]):
        total += float32(drows[position[token, slot], column])
    dx[token, column] = total


@cuda.jit
def unpermute_kernel(rows, gates, position, y):
    columns = y.shape[1]
    element = cuda.grid(1)
    if element >= y.shape[0] * columns:
        return
    token, column = element // columns, element % columns
    total = float32(0)
    for slot in range(position.shape[1]):
        total += gates[token, slot] * float32(rows[position[token, slot], column])
    y[token, column] = total


@cuda.jit
def unpermute_backward_naive_kernel(dy, rows, gates, position, drows, dgates):
    slots, pair = position.shape[1], cuda.grid(1)
    if pair >= rows.shape[0]:
        return
    token, slot = pair // slots, pair % slots
    row, gate = position[token, slot], gates[token, slot]
    total = float32(0)
    for column in range(rows.shape[1]):
        upstream = float32(dy[token, column])
        drows[row, column] = gate * upstream
        total += upstream * float32(rows[row, column])
    dgates[token, slot] = total


@cuda.jit
def unpermute_backward_block_kernel(dy, rows, gates, position, drows, dgates):
    slots, pair, thread = position.shape[1], cuda.blockIdx.x, cuda.threadIdx.x
    token, slot = pair // slots, pair % slots
    row, gate = position[token, slot], gates[token, slot]
    part = float32(0)
    for column in range(thread, rows.shape[1], cuda.blockDim.x):
        upstream = float32(dy[token, column])
        drows[row, column] = gate * upstream
        part += upstream * float32(rows[row, column])
    total = block_sum(part)
    if thread == 0:
        dgates[token, slot] = total


POSITION = read("T", "K", dtypes=INTEGERS)
GATES = read("T", "K", dtypes=FLOAT32)
_permute = launcher(x=read("T", "D"), position=POSITION, rows=write("T*K", "D"))
_unpermute_backward = launcher(
    dy=read("T", "D"),
    rows=read("T*K", "D"),
    gates=GATES,
    position=POSITION,
    drows=write("T*K", "D"),
    dgates=write("T", "K", dtypes=FLOAT32),
)


@_permute
def permute_naive(x: Any, position: Any, rows: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes rows (T K, D): each row of x (T, D) at the K places that position (T, K) gives it."""
    if rows.size:
        permute_naive_kernel[ceil_div(rows.size, block), block, stream](x, position, rows)


@_permute
def permute_token(x: Any, position: Any, rows: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `permute_naive`; one block per token, which reads x once."""
    if rows.size:
        permute_token_kernel[x.shape[0], block, stream](x, position, rows)


@launcher(drows=read("T*K", "D"), position=POSITION, dx=write("T", "D"))
def permute_backward(drows: Any, position: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx (T, D): the sum of the rows of drows (T K, D) that position (T, K) gives each token."""
    if dx.size:
        permute_backward_kernel[ceil_div(dx.size, block), block, stream](drows, position, dx)


@launcher(rows=read("T*K", "D"), gates=GATES, position=POSITION, y=write("T", "D"))
def unpermute(rows: Any, gates: Any, position: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y (T, D): the rows (T K, D) of each token, weighted by its gates (T, K), added up."""
    if y.size:
        unpermute_kernel[ceil_div(y.size, block), block, stream](rows, gates, position, y)


@_unpermute_backward
def unpermute_backward_naive(
    dy: Any, rows: Any, gates: Any, position: Any, drows: Any, dgates: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes drows (T K, D) and dgates (T, K) from dy (T, D), rows, gates and position; one thread per pair."""
    if dgates.size:
        blocks = ceil_div(dgates.size, block)
        unpermute_backward_naive_kernel[blocks, block, stream](dy, rows, gates, position, drows, dgates)


@_unpermute_backward
def unpermute_backward_block(
    dy: Any, rows: Any, gates: Any, position: Any, drows: Any, dgates: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes drows (T K, D) and dgates (T, K) from dy (T, D), rows, gates and position; one block per pair."""
    check_block(block)
    if dgates.size:
        unpermute_backward_block_kernel[dgates.size, block, stream](dy, rows, gates, position, drows, dgates)
