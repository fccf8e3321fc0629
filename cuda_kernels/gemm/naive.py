"""The first rung: one thread per element of c, and neighbouring threads on neighbouring rows.

Each multiplication reads two elements from global memory. The 32 threads of a warp stand below one another: at each k
they read 32 elements of a that lie K elements apart, 32 sectors of 32 bytes for 128 bytes of use (and store c the same
way), while all of them read the same element of b. Per multiplication: 32 bytes of a, 1 byte of b.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from ..launch import ceil_div
from .epilogues import operands_or_bias

BLOCK = 128


@functools.cache
def naive_gemm(epilogue: Any) -> Any:
    """The kernel with one thread per element; grid.x covers the M N elements, column by column."""

    @cuda.jit
    def naive_gemm_kernel(a, b, operands, c):
        rows, columns = a.shape[0], b.shape[1]
        element = cuda.grid(1)
        if element >= rows * columns:
            return
        row, column = element % rows, element // rows
        value = float32(0)
        for k in range(a.shape[1]):
            value += float32(a[row, k]) * float32(b[k, column])
        epilogue(c, operands, 0, row, column, value)

    return naive_gemm_kernel


def launch_naive_gemm(
    epilogue: Any, a: Any, b: Any, c: Any, bias: Any | None = None, stream: Any = 0, operands: Any | None = None
) -> None:
    """c = epilogue(a (M, K) b (K, N)) by `naive_gemm`; nothing to do where c is empty."""
    elements = a.shape[0] * b.shape[1]
    if elements:
        operands = operands_or_bias(operands, bias, b.dtype)
        naive_gemm(epilogue)[ceil_div(elements, BLOCK), BLOCK, stream](a, b, operands, c)
