"""The SwiGLU MLP: x (M, K), w (K, 2I), w_down (I, K); de and out are saved for the backward pass.

    de (M, 2I) = x w = [left | gate],    out (M, I) = left silu(gate),    y (M, K) = out w_down

Every array is float32, bfloat16 or float16, sums are float32. de and out are rounded as they are stored, and the next
step reads what is stored: forward and backward see the same numbers.

register_tiled:  two products with a patch of elements per thread, the elementwise step between them.
"""

from __future__ import annotations

from typing import Any

from . import gemm
from .launch import launcher, read, write
from .swiglu import ROWS_BLOCK, swiglu_rows_kernel


@launcher(
    x=read("M", "K"),
    w=read("K", "2*I"),
    w_down=read("I", "K"),
    de=write("M", "2*I"),
    out=write("M", "I"),
    y=write("M", "K"),
)
def swiglu_mlp(
    x: Any,
    w: Any,
    w_down: Any,
    de: Any,
    out: Any,
    y: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes de (M, 2I) = x w, out (M, I) = left silu(gate) and y (M, K) = out w_down."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_register_tiled_gemm(gemm.store, x, w, de, tiles, stream=stream)
    if 0 not in out.shape:
        swiglu_rows_kernel[out.shape[0], ROWS_BLOCK, stream](de, out)
    gemm.launch_register_tiled_gemm(gemm.store, out, w_down, y, tiles, stream=stream)
