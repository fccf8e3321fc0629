"""Embedding of token sequences, with an optional table of positions, forward and the gradient of the positions.

    y[b, l] = table[tokens[b, l]] + positions[l]      tokens (B, L), table (V, D), positions (L, D) or None, y (B, L, D)
    dpositions[l] += sum_b dy[b, l]                   (L, D), the caller's float32 buffer

The gradient of the table is a scatter-add of dy, seen as (B L, D), by the tokens, seen as (B L,):
`embedding_backward_*` of `scatter_add.py`. table, positions, y and dy are float32, bfloat16 or float16, tokens int32 or
int64; the sum of both rows is float32. A token outside [0, V), a negative one included (it does not count from the
end), is an IndexError with `check=True`, before anything is written; without it it is the caller's fault.

naive:                 one thread per element of y.
block:                 one block per token, which reads the token once.
backward positions:    one thread per element of dpositions walks the batch; deterministic.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float32

from .index_check import check_indices
from .launch import INTEGERS, add_into, ceil_div, launcher, read, write


@cuda.jit(device=True)
def embedded(table, token, positions, place, column):
    """One element of the token's row, with that of its position; an empty table of positions means none."""
    value = float32(table[token, column])
    return value + float32(positions[place, column]) if positions.shape[0] > 0 else value


@cuda.jit
def embedding_naive_kernel(tokens, table, positions, y):
    element, length, columns = cuda.grid(1), y.shape[1], y.shape[2]
    if element >= y.shape[0] * length * columns:
        return
    use, column = element // columns, element % columns
    sequence, place = use // length, use % length
    y[sequence, place, column] = embedded(table, tokens[sequence, place], positions, place, column)


@cuda.jit
def embedding_block_kernel(tokens, table, positions, y):
    sequence, place = cuda.blockIdx.x // y.shape[1], cuda.blockIdx.x % y.shape[1]
    token = tokens[sequence, place]
    for column in range(cuda.threadIdx.x, y.shape[2], cuda.blockDim.x):
        y[sequence, place, column] = embedded(table, token, positions, place, column)


@cuda.jit
def embedding_dpositions_kernel(dy, dpositions):
    element, columns = cuda.grid(1), dy.shape[2]
    if element >= dy.shape[1] * columns:
        return
    place, column = element // columns, element % columns
    total = float32(0)
    for sequence in range(dy.shape[0]):
        total += float32(dy[sequence, place, column])
    dpositions[place, column] += total


_embedding = launcher(
    tokens=read("B", "L", dtypes=INTEGERS),
    table=read("V", "D"),
    positions=read("L", "D", optional=True),
    y=write("B", "L", "D"),
)


@_embedding
def embedding_naive(
    tokens: Any, table: Any, positions: Any | None, y: Any, block: int = 256, check: bool = False, *, stream: Any = None
) -> None:
    """Writes y (B, L, D) from tokens (B, L), table (V, D) and positions (L, D); one thread per element."""
    if check:
        check_indices("embedding_naive", "tokens", tokens, table.shape[0], stream)
    if y.size:
        embedding_naive_kernel[ceil_div(y.size, block), block, stream](tokens, table, positions, y)


@_embedding
def embedding_block(
    tokens: Any, table: Any, positions: Any | None, y: Any, block: int = 128, check: bool = False, *, stream: Any = None
) -> None:
    """Writes y (B, L, D) from tokens (B, L), table (V, D) and positions (L, D); one block per token."""
    if check:
        check_indices("embedding_block", "tokens", tokens, table.shape[0], stream)
    if y.size:
        embedding_block_kernel[tokens.size, block, stream](tokens, table, positions, y)


@launcher(dy=read("B", "L", "D"), dpositions=add_into("L", "D"))
def embedding_dpositions(dy: Any, dpositions: Any, block: int = 256, *, stream: Any = None) -> None:
    """Adds dy (B, L, D), summed over the batch, to the float32 buffer dpositions (L, D); bit for bit repeatable."""
    if dy.size:
        embedding_dpositions_kernel[ceil_div(dpositions.size, block), block, stream](dy, dpositions)
