"""Matrix product c (M, N) = a (M, K) b (K, N), as a ladder of kernels: each mends what held the one before back.

    matmul_*             c = a b                                     matmul_da    da = dc b^T
    matmul_accumulate    c += a b                                    matmul_db    db = a^T dc
    matmul_fused         c = activation(a b + bias) + residual
    matmul_batched       c[i] = a[i] b[i]

Storage is float32, bfloat16 or float16 (a and b may differ), sums are float32. Operands have any strides: a transposed
one is a view (`launch.transposed`), never a copy. No size has to be a multiple of a tile. The kernels are in `gemm/`, a
file per rung; what each moves per multiplication stands there.

naive:               one thread per element, neighbouring threads on neighbouring rows: uncoalesced.
coalesced:           the same with neighbouring threads on neighbouring columns.
tiled:               tile x tile threads share tiles of a and b in shared memory.
register_tiled_1d:   thread_m elements of a column per thread.
register_tiled:      thread_m x thread_n elements per thread.
vectorized:          the same with 128-bit loads.
warp_tiled:          warp_m x warp_n elements per warp.
double_buffered:     the same with the loads of the next slice of K under way during the products of the current one.
"""

from __future__ import annotations

from typing import Any

from . import gemm
from .gelu import gelu_tanh
from .launch import FLOATS, launcher, read, transposed, update, write

ACTIVATIONS = {"identity": gemm.identity, "gelu_tanh": gelu_tanh}

_product = launcher(a=read("M", "K"), b=read("K", "N"), c=write("M", "N"))
_product_into = launcher(a=read("M", "K"), b=read("K", "N"), c=update("M", "N", dtypes=FLOATS))
_batch = launcher(a=read("B", "M", "K"), b=read("B", "K", "N"), c=write("B", "M", "N"))
_fused = launcher(
    a=read("M", "K"),
    b=read("K", "N"),
    bias=read("N", optional=True),
    residual=read("M", "N", optional=True),
    c=write("M", "N"),
)
_gradient_a = launcher(dc=read("M", "N"), b=read("K", "N"), da=write("M", "K"))
_gradient_b = launcher(a=read("M", "K"), dc=read("M", "N"), db=write("K", "N"))


@_product
def matmul_naive(a: Any, b: Any, c: Any, *, stream: Any = None) -> None:
    """Writes c (M, N) = a (M, K) b (K, N), one thread per element, uncoalesced."""
    gemm.launch_naive_gemm(gemm.fused(), a, b, c, stream=stream)


@_product
def matmul_coalesced(a: Any, b: Any, c: Any, *, stream: Any = None) -> None:
    """Writes c (M, N) = a (M, K) b (K, N), one thread per element, neighbours along a row."""
    gemm.launch_coalesced_gemm(gemm.fused(), a, b, c, stream=stream)


@_product
def matmul_tiled(a: Any, b: Any, c: Any, tile: int = 32, *, stream: Any = None) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) through tile x tile pieces in shared memory; tile is at most 32."""
    gemm.launch_tiled_gemm(gemm.fused(), a, b, c, tile, stream=stream)


@_product
def matmul_register_tiled_1d(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 64,
    block_n: int = 64,
    block_k: int = 8,
    thread_m: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) with thread_m elements of a column per thread."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, 1)
    gemm.launch_register_tiled_1d_gemm(gemm.fused(), a, b, c, tiles, stream=stream)


@_product
def matmul_register_tiled(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) with thread_m x thread_n elements per thread."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_register_tiled_gemm(gemm.fused(), a, b, c, tiles, stream=stream)


@_product
def matmul_vectorized(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 8,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) with thread_m x thread_n elements per thread and 128-bit loads.

    Tile sizes decide at the launch whether an operand is loaded in pieces of 16 bytes at all; the kernel decides, from
    its strides and address, whether it can be; a piece that reaches over the edge is loaded element by element.
    """
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_vectorized_gemm(gemm.fused(), a, b, c, tiles, stream=stream)


@_product
def matmul_warp_tiled(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) with warp_m x warp_n elements per warp, and 128-bit loads."""
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    gemm.launch_warp_tiled_gemm(gemm.fused(), a, b, c, tiles, stream=stream)


@_product
def matmul_double_buffered(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) by warp tiles, the next slice of K loaded meanwhile."""
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    gemm.launch_double_buffered_gemm(gemm.fused(), a, b, c, tiles, stream=stream)


@_product_into
def matmul_accumulate(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Adds a (M, K) b (K, N) to c (M, N); the sum of old value and product is rounded once to the format of c."""
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    gemm.launch_double_buffered_gemm(gemm.fused(accumulate=True), a, b, c, tiles, stream=stream)


@_fused
def matmul_fused(
    a: Any,
    b: Any,
    bias: Any | None,
    residual: Any | None,
    c: Any,
    activation: str = "identity",
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = activation(a (M, K) b (K, N) + bias (N,)) + residual (M, N); bias and residual may be None.

    activation: "identity" or "gelu_tanh". What there is decides which kernel is compiled; a product that never reaches
    memory before its epilogue saves M N elements written and read for each operation that would have followed it.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"matmul_fused: activation={activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    operands = gemm.Operands(bias, residual)
    epilogue = gemm.fused(
        bias=operands.bias.shape[0] > 0,
        activation=ACTIVATIONS[activation],
        residual=operands.residual.shape[0] > 0,
    )
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    gemm.launch_double_buffered_gemm(epilogue, a, b, c, tiles, operands=operands, stream=stream)


@_batch
def matmul_batched(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 64,
    block_n: int = 64,
    block_k: int = 8,
    thread_m: int = 4,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (B, M, N) = a (B, M, K) b (B, K, N), matrix by matrix; a batch stride of 0 repeats an operand."""
    tiles = gemm.Tiles(block_m, block_n, block_k, thread_m, thread_n)
    gemm.launch_batched_gemm(gemm.fused(), a, b, c, tiles, stream=stream)


@_gradient_a
def matmul_da(
    dc: Any,
    b: Any,
    da: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes da (M, K) = dc (M, N) b^T with b (K, N): a row-major product with a transposed second operand (NT)."""
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    gemm.launch_double_buffered_gemm(gemm.fused(), dc, transposed(b), da, tiles, stream=stream)


@_gradient_b
def matmul_db(
    a: Any,
    dc: Any,
    db: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    warp_m: int = 64,
    warp_n: int = 32,
    thread_m: int = 8,
    thread_n: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes db (K, N) = a^T dc with a (M, K), dc (M, N): a row-major product with a transposed first operand (TN)."""
    tiles = gemm.WarpTiles(block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n)
    gemm.launch_double_buffered_gemm(gemm.fused(), transposed(a), dc, db, tiles, stream=stream)
