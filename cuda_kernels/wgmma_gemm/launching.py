"""From device arrays to a launch: tensor maps of the operands, tiles, shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from ..gemm.epilogues import operands_or_bias
from ..launch import FLOAT32, ceil_div
from ..launch.dynamic_shared import configured
from ..ptx.tensor_maps import encode_tiled
from .formats import WgmmaFormat
from .kernel import wgmma_gemm
from .tiles import Layout, WgmmaTiles


def along_k(array: Any, k_axis: int) -> bool:
    """Whether an operand's contiguous axis is K."""
    return bool(array.strides[k_axis] == array.dtype.itemsize)


def serves(array: Any, k_axis: int, kind: WgmmaFormat) -> bool:
    """Whether a tensor map can describe an operand, and `wgmma` take it as it lies."""
    size = array.dtype.itemsize
    if 0 in array.shape or size not in array.strides:
        return False
    contiguous = k_axis if array.strides[k_axis] == size else 1 - k_axis
    line = array.strides[1 - contiguous]
    address = array.__cuda_array_interface__["data"][0]
    aligned = line >= size * array.shape[contiguous] and line % 16 == 0 and address % 16 == 0
    return aligned and (kind.transposes or contiguous == k_axis)


def tensor_map(array: Any, k_axis: int, across: int, kind: WgmmaFormat) -> np.ndarray:
    """The map of an operand whose tile is `across` rows of A or columns of B, by a line of K."""
    contiguous = k_axis if along_k(array, k_axis) else 1 - k_axis
    lines, elements = array.shape[1 - contiguous], array.shape[contiguous]
    box = (across, kind.line) if contiguous == k_axis else (kind.line, kind.line)
    address = array.__cuda_array_interface__["data"][0]
    return encode_tiled(address, array.dtype.name, (lines, elements), array.strides[1 - contiguous], box, 128)


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
    """c = epilogue(a (M, K) @ b (K, N)), a and b given as `kind.bits`, each as `serves` wants it.

    K is cut into split_k parts.
    """
    tiles.check(kind)
    (M, K), N = a.shape, b.shape[1]
    blocks = ceil_div(M, tiles.block_m) * ceil_div(N, tiles.block_n)
    if not blocks:
        return
    layout = Layout(kind, tiles, along_k(a, 1), along_k(b, 0))
    maps = np.stack([tensor_map(a, 1, tiles.block_m, kind), tensor_map(b, 0, tiles.block_n, kind)]).view(np.uint64)
    device_maps = cuda.to_device(maps, stream=stream)
    kernel = wgmma_gemm(epilogue, layout)
    operands = operands_or_bias(operands, bias, FLOAT32)
    sizes = tuple(np.int32(size) for size in (M, N, K))
    configured(kernel, (blocks, split_k), tiles.threads, stream, layout.shared_bytes)(device_maps, sizes, operands, c)
