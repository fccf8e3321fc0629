"""The second rung: the naive kernel with one index exchanged: neighbouring threads stand on neighbouring columns.

The arithmetic is the same, only the addresses moved. At each k the 32 threads of a warp read one element of a, which is
broadcast, and 32 neighbours of a row of b: four sectors of 32 bytes, all of them used, and c is stored the same way.
Per multiplication: 1 byte of a, 4 bytes of b, an eighth of what the naive kernel moves. That holds for row-major b and
c; with b transposed its reads lie K elements apart, and the tiled rungs, which look at the strides, mend that.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias

BLOCK = 128


@functools.cache
def coalesced_gemm(epilogue: Any) -> Any:
    """The kernel with one thread per element; grid.x covers the M N elements, row by row."""

    @cuda.jit
    def coalesced_gemm_kernel(a, b, operands, c):
        rows, columns = a.shape[0], b.shape[1]
        element = cuda.grid(1)
        if element >= rows * columns:
            return
        row, column = element // columns, element % columns
        value = float32(0)
        for k in range(a.shape[1]):
            value += float32(a[row, k]) * float32(b[k, column])
        epilogue(c, operands, 0, row, column, value)

    return coalesced_gemm_kernel


def launch_coalesced_gemm(
    epilogue: Any, a: Any, b: Any, c: Any, bias: Any | None = None, stream: Any = 0, operands: Any | None = None
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `coalesced_gemm`; nothing to do where c is empty."""
    elements = a.shape[0] * b.shape[1]
    if elements:
        operands = operands_or_bias(operands, bias, b.dtype)
        coalesced_gemm(epilogue)[ceil_div(elements, BLOCK), BLOCK, stream](a, b, operands, c)
