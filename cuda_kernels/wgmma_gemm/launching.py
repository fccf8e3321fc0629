"""From device arrays to a launch: operands as `wgmma` can take them, tensor maps, tiles, shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from ..gemm.epilogues import operands_or_bias
from ..launch import FLOAT32, ceil_div, transposed
from ..launch.dynamic_shared import configured
from ..ptx.tensor_maps import encode_tiled
from .copies import prepared
from .formats import WgmmaFormat
from .kernel import wgmma_gemm
from .tiles import Layout, WgmmaTiles


def along_k(operand: Any) -> bool:
    """Whether an operand (across, K) has K contiguous."""
    return bool(operand.strides[1] == operand.dtype.itemsize)


def tensor_map(operand: Any, across: int, kind: WgmmaFormat) -> np.ndarray:
    """The map of an operand (across, K) whose tile is `across` rows of A or columns of B, by a line of K."""
    contiguous = 1 if along_k(operand) else 0
    lines, elements = operand.shape[1 - contiguous], operand.shape[contiguous]
    box = (across, kind.line) if contiguous == 1 else (kind.line, kind.line)
    address = operand.__cuda_array_interface__["data"][0]
    return encode_tiled(address, operand.dtype.name, (lines, elements), operand.strides[1 - contiguous], box, 128)


def launch_wgmma_gemm(
    kind: WgmmaFormat,
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: WgmmaTiles,
    *,
    bias: Any | None = None,
    operands: Any | None = None,
    split_k: int = 1,
    stream: Any = 0,
) -> None:
    """c = epilogue(a (M, K) @ b (K, N)), a and b given as `kind.bits`, K at least 1; K is cut into split_k parts.

    Operands that `wgmma` cannot take as they lie are copied first (`copies.py`).
    """
    tiles.check(kind)
    (M, K), N = a.shape, b.shape[1]
    blocks = ceil_div(M, tiles.block_m) * ceil_div(N, tiles.block_n)
    if not blocks:
        return
    a, b = prepared(a, kind, stream), prepared(transposed(b), kind, stream)
    layout = Layout(kind, tiles, along_k(a), along_k(b))
    maps = np.stack([tensor_map(a, tiles.block_m, kind), tensor_map(b, tiles.block_n, kind)]).view(np.uint64)
    device_maps = cuda.to_device(maps, stream=stream)
    kernel = wgmma_gemm(epilogue, layout)
    operands = operands_or_bias(operands, bias, FLOAT32)
    sizes = tuple(np.int32(size) for size in (M, N, K))
    configured(kernel, (blocks, split_k), tiles.threads, stream, layout.shared_bytes)(device_maps, sizes, operands, c)
