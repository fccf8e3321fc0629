"""What becomes of an element of a matrix product: small device functions that a kernel is compiled with.

An epilogue is called as `epilogue(c, operands, part, row, column, value)`, once for each element of c, by the thread
that holds it. `value` is the float32 sum of products, `operands` what the launcher passed for it to read (`Operands`
here; another operator's epilogue may take a named tuple of its own), `part` the split of K or the matrix of a batch
that it belongs to. In a batched product c is that matrix.

The fixed ones:     store (with a bias where there is one), accumulate, accumulate_atomically, store_partial.
Put together:       `fused(bias=..., activation=..., residual=..., accumulate=...)`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from numba import cuda, float32

from ..launch import present_or_empty
from ..launch.absent import empty_array


class Operands(NamedTuple):
    """What the epilogues of this module read; an array of no elements stands for none."""

    bias: Any  # (N,)
    residual: Any  # (M, N)


@cuda.jit(device=True)
def store(c, operands, part, row, column, value):
    """c = a b, + bias where there is one: looked up as the kernel runs, so that one kernel serves both."""
    if operands.bias.shape[0] > 0:
        value += float32(operands.bias[column])
    c[row, column] = value


@cuda.jit(device=True)
def accumulate(c, operands, part, row, column, value):
    """c += a b."""
    c[row, column] = float32(c[row, column]) + value


@cuda.jit(device=True)
def accumulate_atomically(c, operands, part, row, column, value):
    """c (float32) += the partial product of one split; the order of the splits is left to the hardware."""
    cuda.atomic.add(c, (row, column), value)


@cuda.jit(device=True)
def store_partial(c, operands, part, row, column, value):
    """c (split_k, M, N) = the partial product of each split."""
    c[part, row, column] = value


@cuda.jit(device=True)
def identity(value):
    """The activation that changes nothing."""
    return value


@functools.cache
def fused(bias: bool = False, activation: Any = identity, residual: bool = False, accumulate: bool = False) -> Any:
    """The epilogue c = [c +] activation(a b [+ bias]) [+ residual], what is in brackets chosen when it is compiled.

    bias: (N,), added to every row; activation: a device function float32 -> float32; residual: (M, N);
    accumulate: the old value of c is added last. Everything is added in float32 and rounded once, as it is stored.
    """

    @cuda.jit(device=True)
    def fused_epilogue(c, operands, part, row, column, value):
        if bias:
            value += float32(operands.bias[column])
        value = activation(value)
        if residual:
            value += float32(operands.residual[row, column])
        if accumulate:
            value += float32(c[row, column])
        c[row, column] = value

    return fused_epilogue


def operands_or_bias(operands: Any | None, bias: Any | None, dtype: Any) -> Any:
    """`operands` as given, or the `Operands` of a product with this bias (None: none)."""
    if operands is not None:
        return operands
    return Operands(present_or_empty(bias, dtype), empty_array(2, dtype))
