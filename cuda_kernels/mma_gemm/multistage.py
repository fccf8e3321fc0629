"""The pipelined kernel, one tile of c a block: main loop, then the epilogue on sums that went through shared memory."""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32, int32

from ..gemm import in_groups
from ..gemm.epilogues import operands_or_bias
from ..launch import FLOAT32, ceil_div
from ..launch.dynamic_shared import configured
from .formats import MmaFormat
from .mainloop import Operands, bytes_per_stage, main_loop
from .tiles import MmaTiles
from .write_out import sums_bytes, write_out

walk = in_groups(8)


@cuda.jit(device=True)
def ceil_div_int(count, size):
    """count / size rounded up, in int32."""
    return int32((int32(count) + int32(size) - int32(1)) // int32(size))


@functools.cache
def multistage_gemm(kind: MmaFormat, epilogue: Any, tiles: MmaTiles, operands: Operands, ldmatrix: bool) -> Any:
    """The kernel; grid.x covers the tiles of c, grid.y the splits of K. Shared memory is dynamic.

    a and b: lines 16-byte aligned, their contiguous axes as `operands` says.
    """
    block_m, block_n, block_k = tiles.block_m, tiles.block_n, tiles.block_k
    fragments_m, fragments_n = tiles.warp_m // 16, tiles.warp_n // 8
    accumulate = main_loop(kind, tiles, operands, ldmatrix)
    write = write_out(epilogue, tiles)

    @cuda.jit
    def multistage_gemm_kernel(a, b, operands, c):
        sums = cuda.local.array((fragments_m, fragments_n, 4), float32)
        rows, columns, depth = int32(a.shape[0]), int32(b.shape[1]), int32(a.shape[1])
        tile_m, tile_n = walk(int32(cuda.blockIdx.x), ceil_div_int(rows, block_m), ceil_div_int(columns, block_n))
        first_row, first_column = int32(tile_m * block_m), int32(tile_n * block_n)
        split = int32(cuda.blockIdx.y)
        k_per_split = int32(ceil_div_int(ceil_div_int(depth, cuda.gridDim.y), block_k) * block_k)
        k_first = int32(split * k_per_split)
        k_end = min(depth, int32(k_first + k_per_split))
        accumulate(a, b, first_row, first_column, k_first, k_end, sums)
        write(sums, c, operands, split, first_row, first_column, rows, columns)

    return multistage_gemm_kernel


def launch_multistage_gemm(
    kind: MmaFormat,
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: MmaTiles,
    *,
    ldmatrix: bool = True,
    bias: Any | None = None,
    operands: Any | None = None,
    split_k: int = 1,
    stream: Any = 0,
) -> None:
    """c = epilogue(a (M, K) @ b (K, N)), given as `kind.bits`, as `multistage_gemm` wants them; split_k parts of K."""
    tiles.check(kind)
    (M, K), N = a.shape, b.shape[1]
    blocks = ceil_div(M, tiles.block_m) * ceil_div(N, tiles.block_n)
    if not blocks:
        return
    exact = K > 0 and not (M % tiles.block_m or N % tiles.block_n or K % (tiles.block_k * split_k))
    layout = Operands(a.strides[1] == kind.element_bytes, b.strides[0] == kind.element_bytes, exact)
    kernel = multistage_gemm(kind, epilogue, tiles, layout, ldmatrix)
    operands = operands_or_bias(operands, bias, FLOAT32)
    shared_bytes = max(tiles.stages * bytes_per_stage(kind, tiles, layout), sums_bytes(tiles))
    configured(kernel, (blocks, split_k), tiles.threads, stream, shared_bytes)(a, b, operands, c)
