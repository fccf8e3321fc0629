"""Matrix product c (M, N) = a (M, K) b (K, N) on Hopper's tensor cores by `wgmma`, sums in float32.

    matmul_wgmma            c = a b
    matmul_wgmma_fused      c = activation(a b + bias) + residual
    matmul_wgmma_split_k    c += a b, K cut into parts that are added in a fixed order (weight gradients)

The format is that of a and b: bfloat16, float16, float8_e4m3fn (or uint8, its bits; sums promoted to float32 every 128
of K), or float32 multiplied as tf32. c is float32 or a 16-bit format. No size has to be a multiple of a tile. One
warpgroup copies by the async proxy, the others multiply; the kernel is in `wgmma_gemm/`. Compute capability 9.0.

16-bit operands are taken as they lie, transposed ones as views. tf32 operands are first copied rounded, which the unit
would not do; so are those that no tensor map describes and transposed fp8 ones, into scratch of their own size:
allocated at each launch, or once by `room_for_copies` and passed as `copies`.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from . import gemm
from .launch import FLOAT32, FLOATS, launcher, read, transposed, update, write
from .matmul import ACTIVATIONS
from .wgmma_gemm import FORMATS, WgmmaFormat, WgmmaTiles, copy_for, launch_wgmma_gemm

OPERANDS = ("float32", "bfloat16", "float16", "float8_e4m3fn", "uint8")

_product = launcher(a=read("M", "K", dtypes=OPERANDS), b=read("K", "N", dtypes=OPERANDS), c=write("M", "N"))
_product_into = launcher(
    a=read("M", "K", dtypes=OPERANDS), b=read("K", "N", dtypes=OPERANDS), c=update("M", "N", dtypes=FLOAT32)
)
_fused = launcher(
    a=read("M", "K", dtypes=OPERANDS),
    b=read("K", "N", dtypes=OPERANDS),
    bias=read("N", dtypes=FLOATS, optional=True),
    residual=read("M", "N", dtypes=FLOATS, optional=True),
    c=write("M", "N"),
)


def format_of(a: Any, b: Any) -> WgmmaFormat:
    """The format of a product of device arrays a and b; TypeError where they differ or are none of `OPERANDS`."""
    found = [kind for kind in FORMATS.values() if a.dtype.name in kind.storage]
    if not found or b.dtype.name not in found[0].storage:
        raise TypeError(f"a is {a.dtype}, b is {b.dtype}; expected the same, one of {', '.join(OPERANDS)}")
    return found[0]


def room_for_copies(a: Any, b: Any, stream: Any = 0) -> tuple[Any | None, Any | None]:
    """Scratch for the copies that the product of device arrays a (M, K) and b (K, N) needs; None where it needs none.

    Arrays of Numba, or others made such by `numba.cuda.as_cuda_array`.
    """
    kind = format_of(a, b)
    return copy_for(kind.bits(a), kind, stream), copy_for(transposed(kind.bits(b)), kind, stream)


def _launch(a: Any, b: Any, c: Any, tiles: WgmmaTiles, epilogue: Any, stream: Any, **options: Any) -> None:
    kind = format_of(a, b)
    if a.shape[1] == 0:  # there is nothing that a tensor map could describe
        operands = options.get("operands")
        gemm.launch_naive_gemm(epilogue, kind.bits(a), kind.bits(b), c, stream=stream, operands=operands)
        return
    launch_wgmma_gemm(kind, epilogue, kind.bits(a), kind.bits(b), c, tiles, stream=stream, **options)


@_product
def matmul_wgmma(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 4,
    copies: tuple[Any | None, Any | None] = (None, None),
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N); 128 x 256 tiles are faster where there are enough (not for fp8).

    copies: scratch from `room_for_copies`, reused by every launch on the same stream.
    """
    _launch(a, b, c, WgmmaTiles(block_m, block_n, stages), gemm.fused(), stream, copies=copies)


@_fused
def matmul_wgmma_fused(
    a: Any,
    b: Any,
    bias: Any | None,
    residual: Any | None,
    c: Any,
    activation: str = "identity",
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = activation(a (M, K) b (K, N) + bias (N,)) + residual (M, N); bias and residual may be None.

    activation: "identity" or "gelu_tanh".
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"matmul_wgmma_fused: activation={activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    operands = gemm.Operands(bias, residual)
    epilogue = gemm.fused(
        bias=operands.bias.shape[0] > 0,
        activation=ACTIVATIONS[activation],
        residual=operands.residual.shape[0] > 0,
    )
    _launch(a, b, c, WgmmaTiles(block_m, block_n, stages), epilogue, stream, operands=operands)


@_product_into
def matmul_wgmma_split_k(
    a: Any,
    b: Any,
    c: Any,
    split_k: int = 4,
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Adds a (M, K) b (K, N) to the float32 buffer c (M, N), bit for bit repeatable; split_k M N floats of scratch."""
    gemm.split_k.check_split_k(split_k)
    if 0 in c.shape or a.shape[1] == 0:
        return
    partials = cuda.device_array((split_k, *c.shape), FLOAT32, stream=stream)
    tiles = WgmmaTiles(block_m, block_n, stages)
    _launch(a, b, partials, tiles, gemm.store_partial, stream, split_k=split_k)
    gemm.launch_add_partials(partials, c, stream=stream)
