"""Cross-entropy of the logits x w against labels, backward, from the saved lse (T,); the logits are made again.

    dlogits (T, V) = (exp(x w - lse) - q) dloss            q: the target distribution of `cross_entropy_backward.py`
    dx (T, K)      = dlogits w^T                           contracts over V
    dw (K, V)     += x^T dlogits                           contracts over T, into the caller's float32 buffer

chunked:  `chunk` columns of logits are made in a scratch of T chunk floats, give way to their gradient in place, and
          feed both products before the next chunk: dx adds up chunk by chunk, in order, and the columns of dw belong
          to one chunk each, so the result is bit for bit repeatable. The work is three matrix products instead of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from . import gemm
from .cross_entropy_backward import cross_entropy_backward_block_kernel, upstream_for
from .labels import IGNORE_INDEX
from .launch import FLOAT32, INTEGERS, add_into, ceil_div, check_block, launcher, read, transposed, write
from .linear_cross_entropy import chunks


@cuda.jit
def store_rounded_kernel(total, dx):
    element = cuda.grid(1)
    if element < dx.shape[0] * dx.shape[1]:
        row, column = element // dx.shape[1], element % dx.shape[1]
        dx[row, column] = total[row, column]


@launcher(
    dloss=read("R", dtypes=FLOAT32),  # R is T for reduction "none", else 1
    x=read("T", "K"),
    w=read("K", "V"),
    labels=read("T", dtypes=INTEGERS),
    lse=read("T", dtypes=FLOAT32),
    dx=write("T", "K"),
    dw=add_into("K", "V"),
)
def linear_cross_entropy_backward_chunked(
    dloss: Any,
    x: Any,
    w: Any,
    labels: Any,
    lse: Any,
    dx: Any,
    dw: Any,
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
    """Writes dx (T, K) and adds to dw (K, V) from dloss (T,) or (1,), x, w, labels and lse, `chunk` classes at a time.

    The scratch is T chunk floats, and T K more where dx is stored in 16 bits and there are several chunks.
    """
    check_block(block)
    name, (T, V) = "linear_cross_entropy_backward_chunked", (x.shape[0], w.shape[1])
    upstream = upstream_for(name, dloss, labels, V, ignore_index, reduction, check, stream)
    if not T:
        return
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    smoothing = np.float32(label_smoothing)
    # Rounded to 16 bits once, not once for every chunk.
    total = dx if dx.dtype == FLOAT32 or chunk >= V else cuda.device_array(dx.shape, FLOAT32, stream=stream)
    for first, columns, logits in chunks(name, x, w, chunk, tiles, stream):
        if logits.shape[1]:
            cross_entropy_backward_block_kernel[T, block, stream](
                upstream, logits, labels, lse, logits, first, V, ignore_index, smoothing
            )
        epilogue = gemm.accumulate if first else gemm.store
        gemm.launch_register_tiled_gemm(epilogue, logits, transposed(columns), total, tiles, stream=stream)
        own = dw[:, first : first + logits.shape[1]]
        gemm.launch_register_tiled_gemm(gemm.accumulate, transposed(x), logits, own, tiles, stream=stream)
    elements = dx.shape[0] * dx.shape[1]
    if total is not dx and elements:
        store_rounded_kernel[ceil_div(elements, block), block, stream](total, dx)
