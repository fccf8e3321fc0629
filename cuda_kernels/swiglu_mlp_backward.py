"""The SwiGLU MLP, backward, from dy (M, K) and the saved x (M, K), de (M, 2I) and out (M, I):

    grad_de (M, 2I) = swiglu's gradient at de of dout (M, I) = dy w_down^T
    dx (M, K) = grad_de w^T
    dw (K, 2I) += x^T grad_de        one product over the merged layout
    dw_down (I, K) += out^T dy       both into the caller's float32 buffers

Four products and one elementwise group. What differs between the two forms is the way from dy to grad_de:

unfused:  the product writes dout to memory, an elementwise kernel reads it again: 2 M I elements of traffic.
fused:    the product's epilogue turns each element of dout, in a register, into its two of grad_de; dout never reaches
          memory, and nothing is rounded between the two (traffic in numbers: `refkit/planner/swiglu.py`).

grad_de may be de itself: what an epilogue reads is overwritten by the same thread.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from . import gemm
from .launch import add_into, launcher, read, transposed, write
from .swiglu import ROWS_BLOCK, store_gradients, swiglu_backward_rows_kernel


@cuda.jit(device=True)
def store_grad_de(grad_de, de, part, row, column, value):
    """The epilogue of dout = dy w_down^T: `value` is an element of dout, `de` (M, 2I) what the forward pass saved."""
    store_gradients(grad_de, de, row, column, value)


_to_grad_de = launcher(
    in_place=("de", "grad_de"),
    dy=read("M", "K"),
    w_down=read("I", "K"),
    de=read("M", "2*I"),
    grad_de=write("M", "2*I"),
)
_backward = launcher(
    in_place=("de", "grad_de"),
    dy=read("M", "K"),
    x=read("M", "K"),
    w=read("K", "2*I"),
    w_down=read("I", "K"),
    de=read("M", "2*I"),
    out=read("M", "I"),
    grad_de=write("M", "2*I"),
    dx=write("M", "K"),
    dw=add_into("K", "2*I"),
    dw_down=add_into("I", "K"),
)


def _unfused(dy: Any, w_down: Any, de: Any, grad_de: Any, tiles: gemm.Tiles, stream: Any) -> None:
    rows, columns = dy.shape[0], w_down.shape[0]
    if not rows or not columns:
        return
    dout = cuda.device_array((rows, columns), de.dtype, stream=stream)
    gemm.launch_register_tiled_gemm(gemm.store, dy, transposed(w_down), dout, tiles, stream=stream)
    swiglu_backward_rows_kernel[rows, ROWS_BLOCK, stream](dout, de, grad_de)


def _fused(dy: Any, w_down: Any, de: Any, grad_de: Any, tiles: gemm.Tiles, stream: Any) -> None:
    gemm.launch_register_tiled_gemm(store_grad_de, dy, transposed(w_down), grad_de, tiles, stream=stream, operands=de)


@_to_grad_de
def swiglu_mlp_grad_de_unfused(
    dy: Any,
    w_down: Any,
    de: Any,
    grad_de: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes grad_de (M, 2I) from dy (M, K), w_down (I, K) and de (M, 2I) through M I elements of scratch for dout."""
    _unfused(dy, w_down, de, grad_de, gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n), stream)


@_to_grad_de
def swiglu_mlp_grad_de_fused(
    dy: Any,
    w_down: Any,
    de: Any,
    grad_de: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes grad_de (M, 2I) from dy (M, K), w_down (I, K) and de (M, 2I) in one kernel, without dout in memory."""
    _fused(dy, w_down, de, grad_de, gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n), stream)


def _from_grad_de(
    dy: Any, x: Any, w: Any, out: Any, grad_de: Any, dx: Any, dw: Any, dw_down: Any, tiles: gemm.Tiles, stream: Any
) -> None:
    """The three products that both forms share."""
    gemm.launch_register_tiled_gemm(gemm.store, grad_de, transposed(w), dx, tiles, stream=stream)
    gemm.launch_register_tiled_gemm(gemm.accumulate, transposed(x), grad_de, dw, tiles, stream=stream)
    gemm.launch_register_tiled_gemm(gemm.accumulate, transposed(out), dy, dw_down, tiles, stream=stream)


@_backward
def swiglu_mlp_backward_unfused(
    dy: Any,
    x: Any,
    w: Any,
    w_down: Any,
    de: Any,
    out: Any,
    grad_de: Any,
    dx: Any,
    dw: Any,
    dw_down: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes grad_de (M, 2I) and dx (M, K), adds to dw (K, 2I) and dw_down (I, K); five kernels."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    _unfused(dy, w_down, de, grad_de, tiles, stream)
    _from_grad_de(dy, x, w, out, grad_de, dx, dw, dw_down, tiles, stream)


@_backward
def swiglu_mlp_backward_fused(
    dy: Any,
    x: Any,
    w: Any,
    w_down: Any,
    de: Any,
    out: Any,
    grad_de: Any,
    dx: Any,
    dw: Any,
    dw_down: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes grad_de (M, 2I) and dx (M, K), adds to dw (K, 2I) and dw_down (I, K); four kernels."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    _fused(dy, w_down, de, grad_de, tiles, stream)
    _from_grad_de(dy, x, w, out, grad_de, dx, dw, dw_down, tiles, stream)
