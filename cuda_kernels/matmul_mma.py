"""Matrix product c (M, N) = a (M, K) b (K, N) on tensor cores by `mma.sync`, sums in float32.

    matmul_mma_*             c = a b
    matmul_mma_fused         c = activation(a b + bias) + residual
    matmul_mma_split_k       c += a b, K cut into parts that are added in a fixed order (weight gradients)

The format is that of a and b: float32 is multiplied as tf32, bfloat16 and float16 as they are, float8_e4m3fn (or uint8,
its bits) as e4m3. c is float32 or a 16-bit format. Transposed operands are views; no size has to be a multiple of a
tile, but tiles are powers of two (`MmaTiles`). The kernels are in `mma_gemm/`; compute capability 8.0, fp8 8.9.

lane_major:  any strides; shared memory holds fragments lane after lane, each loaded by one 128-bit access.
cp_async:    stages filled by `cp.async` ahead of the products, fragments by ordinary loads from swizzled tiles.
ldmatrix:    the same with fragments by `ldmatrix`.

cp_async and ldmatrix copy 16 aligned bytes at a time: a and b need a contiguous axis, and lines that begin at multiples
of 16 bytes. Where they do not, the lane-major kernel runs with the same tiles.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from . import gemm
from .launch import FLOAT32, FLOATS, launcher, read, update, write
from .matmul import ACTIVATIONS
from .mma_gemm import FORMATS, MmaFormat, MmaTiles, launch_lane_major_gemm, launch_multistage_gemm

OPERANDS = ("float32", "bfloat16", "float16", "float8_e4m3fn", "uint8")
PIECE = 16  # bytes of one cp.async

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


def format_of(a: Any, b: Any) -> MmaFormat:
    """The format of a product of device arrays a and b; TypeError where they differ or are none of `OPERANDS`."""
    found = [kind for kind in FORMATS.values() if a.dtype.name in kind.storage]
    if not found or b.dtype.name not in found[0].storage:
        raise TypeError(f"a is {a.dtype}, b is {b.dtype}; expected the same, one of {', '.join(OPERANDS)}")
    return found[0]


def copies_in_pieces(array: Any) -> bool:
    """Whether a matrix can be copied in aligned pieces of 16 bytes along one of its axes."""
    if 0 in array.shape:
        return False
    size = array.dtype.itemsize
    contiguous = array.strides.index(size) if size in array.strides else None
    if contiguous is None:
        return False
    line = array.strides[1 - contiguous]
    address = array.__cuda_array_interface__["data"][0]
    return line >= size and line % PIECE == 0 and address % PIECE == 0


def _launch(
    a: Any, b: Any, c: Any, tiles: MmaTiles, epilogue: Any, stream: Any, ldmatrix: bool | None, **options: Any
) -> None:
    kind = format_of(a, b)
    a, b = kind.bits(a), kind.bits(b)
    if ldmatrix is not None and copies_in_pieces(a) and copies_in_pieces(b):
        launch_multistage_gemm(kind, epilogue, a, b, c, tiles, ldmatrix=ldmatrix, stream=stream, **options)
    else:
        launch_lane_major_gemm(kind, epilogue, a, b, c, tiles, stream=stream, **options)


@_product
def matmul_mma_lane_major(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 32,
    warp_m: int = 64,
    warp_n: int = 32,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) through shared memory in the order of fragments; any strides."""
    tiles = MmaTiles(block_m, block_n, block_k, warp_m, warp_n, 2)
    _launch(a, b, c, tiles, gemm.fused(), stream, None)


@_product
def matmul_mma_cp_async(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 32,
    warp_m: int = 64,
    warp_n: int = 32,
    stages: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) by a pipeline of `stages` stages, fragments by ordinary shared loads."""
    tiles = MmaTiles(block_m, block_n, block_k, warp_m, warp_n, stages)
    _launch(a, b, c, tiles, gemm.fused(), stream, False)


@_product
def matmul_mma_ldmatrix(
    a: Any,
    b: Any,
    c: Any,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 32,
    warp_m: int = 64,
    warp_n: int = 64,
    stages: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = a (M, K) b (K, N) by a pipeline of `stages` stages, fragments by `ldmatrix` where it can."""
    tiles = MmaTiles(block_m, block_n, block_k, warp_m, warp_n, stages)
    _launch(a, b, c, tiles, gemm.fused(), stream, True)


@_fused
def matmul_mma_fused(
    a: Any,
    b: Any,
    bias: Any | None,
    residual: Any | None,
    c: Any,
    activation: str = "identity",
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 32,
    warp_m: int = 64,
    warp_n: int = 64,
    stages: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Writes c (M, N) = activation(a (M, K) b (K, N) + bias (N,)) + residual (M, N); bias and residual may be None.

    activation: "identity" or "gelu_tanh".
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"matmul_mma_fused: activation={activation!r}, expected one of {', '.join(ACTIVATIONS)}")
    operands = gemm.Operands(bias, residual)
    epilogue = gemm.fused(
        bias=operands.bias.shape[0] > 0,
        activation=ACTIVATIONS[activation],
        residual=operands.residual.shape[0] > 0,
    )
    tiles = MmaTiles(block_m, block_n, block_k, warp_m, warp_n, stages)
    _launch(a, b, c, tiles, epilogue, stream, True, operands=operands)


@_product_into
def matmul_mma_split_k(
    a: Any,
    b: Any,
    c: Any,
    split_k: int = 4,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 32,
    warp_m: int = 64,
    warp_n: int = 64,
    stages: int = 4,
    *,
    stream: Any = None,
) -> None:
    """Adds a (M, K) b (K, N) to the float32 buffer c (M, N), bit for bit repeatable; split_k M N floats of scratch."""
    gemm.split_k.check_split_k(split_k)
    if 0 in c.shape:
        return
    partials = cuda.device_array((split_k, *c.shape), FLOAT32, stream=stream)
    tiles = MmaTiles(block_m, block_n, block_k, warp_m, warp_n, stages)
    _launch(a, b, partials, tiles, gemm.store_partial, stream, True, split_k=split_k)
    gemm.launch_add_partials(partials, c, stream=stream)
