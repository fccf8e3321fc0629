"""SwiGLU: out = left silu(gate), with de (M, 2I) = [left | gate] the merged projection and out (M, I).

Backward from dout (M, I) and the same de; sigma and silu are computed anew, which costs less than reading them would:

    grad_de (M, 2I) = [dout silu(gate) | dout left silu'(gate)]

All arrays are float32, bfloat16 or float16; arithmetic is float32. Both passes move memory and little else: forward
3 M I elements, backward 5 M I.

naive:  one thread per element of out.
rows:   one block per row, whose threads walk along it: no division per element, and the addresses of a row once.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float32

from .launch import ceil_div, check_block, launcher, read, write
from .silu import sigmoid_and_slope, silu

ROWS_BLOCK = 256
"""Threads of a block of the kernels with one block per row, unless a launcher is told otherwise."""


@cuda.jit(device=True)
def gated(de, row, column):
    """out[row, column] from de (M, 2I), a float32."""
    return float32(de[row, column]) * silu(float32(de[row, de.shape[1] // 2 + column]))


@cuda.jit(device=True)
def store_gradients(grad_de, de, row, column, dout):
    """Both gradients of one element of out, into the two halves of grad_de (M, 2I); reads de before it writes.

    One exponential gives sigma and its slope, and with them silu and silu'.
    """
    gate_column = de.shape[1] // 2 + column
    left, gate = float32(de[row, column]), float32(de[row, gate_column])
    sigma, slope = sigmoid_and_slope(gate)
    grad_de[row, column] = dout * (gate * sigma)
    grad_de[row, gate_column] = dout * left * (sigma + gate * slope)


@cuda.jit
def swiglu_naive_kernel(de, out):
    element = cuda.grid(1)
    if element < out.shape[0] * out.shape[1]:
        row, column = element // out.shape[1], element % out.shape[1]
        out[row, column] = gated(de, row, column)


@cuda.jit
def swiglu_rows_kernel(de, out):
    row = cuda.blockIdx.x
    for column in range(cuda.threadIdx.x, out.shape[1], cuda.blockDim.x):
        out[row, column] = gated(de, row, column)


@cuda.jit
def swiglu_backward_naive_kernel(dout, de, grad_de):
    element = cuda.grid(1)
    if element < dout.shape[0] * dout.shape[1]:
        row, column = element // dout.shape[1], element % dout.shape[1]
        store_gradients(grad_de, de, row, column, float32(dout[row, column]))


@cuda.jit
def swiglu_backward_rows_kernel(dout, de, grad_de):
    row = cuda.blockIdx.x
    for column in range(cuda.threadIdx.x, dout.shape[1], cuda.blockDim.x):
        store_gradients(grad_de, de, row, column, float32(dout[row, column]))


@launcher(de=read("M", "2*I"), out=write("M", "I"))
def swiglu_naive(de: Any, out: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes out (M, I) = left silu(gate) from de (M, 2I), one thread per element."""
    check_block(block)
    if 0 not in out.shape:
        swiglu_naive_kernel[ceil_div(out.shape[0] * out.shape[1], block), block, stream](de, out)


@launcher(de=read("M", "2*I"), out=write("M", "I"))
def swiglu_rows(de: Any, out: Any, block: int = ROWS_BLOCK, *, stream: Any = None) -> None:
    """Writes out (M, I) = left silu(gate) from de (M, 2I), one block per row."""
    check_block(block)
    if 0 not in out.shape:
        swiglu_rows_kernel[out.shape[0], block, stream](de, out)


@launcher(in_place=("de", "grad_de"), dout=read("M", "I"), de=read("M", "2*I"), grad_de=write("M", "2*I"))
def swiglu_backward_naive(dout: Any, de: Any, grad_de: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes grad_de (M, 2I) from dout (M, I) and de (M, 2I), which it may replace; one thread per element of dout."""
    check_block(block)
    if 0 not in dout.shape:
        blocks = ceil_div(dout.shape[0] * dout.shape[1], block)
        swiglu_backward_naive_kernel[blocks, block, stream](dout, de, grad_de)


@launcher(in_place=("de", "grad_de"), dout=read("M", "I"), de=read("M", "2*I"), grad_de=write("M", "2*I"))
def swiglu_backward_rows(dout: Any, de: Any, grad_de: Any, block: int = ROWS_BLOCK, *, stream: Any = None) -> None:
    """Writes grad_de (M, 2I) from dout (M, I) and de (M, 2I), which it may replace; one block per row."""
    check_block(block)
    if 0 not in dout.shape:
        swiglu_backward_rows_kernel[dout.shape[0], block, stream](dout, de, grad_de)
