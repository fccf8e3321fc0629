"""From device arrays to a launch: operands as `wgmma` can take them, tensor maps, tiles, shared memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
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

MAPS_KEPT = 1024  # pairs of operands, 256 bytes each


def along_k(operand: Any) -> bool:
    """Whether an operand (across, K) has K contiguous."""
    return bool(operand.strides[1] == operand.dtype.itemsize)


@dataclass(frozen=True)
class OperandMap:
    """What a tensor map says of an operand (across, K): all of it, so that equal ones have the same map."""

    address: int
    dtype: str
    lines: int
    elements: int
    line_bytes: int
    box: tuple[int, int]

    def encode(self) -> np.ndarray:
        """The 128 bytes, with the swizzle of 128."""
        return encode_tiled(self.address, self.dtype, (self.lines, self.elements), self.line_bytes, self.box, 128)


def operand_map(operand: Any, across: int, kind: WgmmaFormat) -> OperandMap:
    """The map of an operand (across, K) whose tile is `across` rows of A or columns of B, by a line of K."""
    contiguous = 1 if along_k(operand) else 0
    return OperandMap(
        address=operand.__cuda_array_interface__["data"][0],
        dtype=operand.dtype.name,
        lines=operand.shape[1 - contiguous],
        elements=operand.shape[contiguous],
        line_bytes=operand.strides[1 - contiguous],
        box=(across, kind.line) if contiguous == 1 else (kind.line, kind.line),
    )


def device_maps(a: OperandMap, b: OperandMap) -> Any:
    """Both maps in the current context's memory, (2, 16) uint64; encoded and copied once for equal ones.

    A copy from the host in the midst of launches would make the host wait for the stream. The maps are kept with the
    context's modules, which Numba forgets where it resets the context and frees its memory.
    """
    kept = cuda.current_context().modules.setdefault("refkit tensor maps", OrderedDict())
    if (a, b) not in kept:
        kept[a, b] = cuda.to_device(np.stack([a.encode(), b.encode()]).view(np.uint64))
        if len(kept) > MAPS_KEPT:
            kept.popitem(last=False)
    return kept[a, b]


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
    copies: tuple[Any | None, Any | None] = (None, None),
    stream: Any = 0,
) -> None:
    """c = epilogue(a (M, K) @ b (K, N)), a and b given as `kind.bits`, K at least 1; K is cut into split_k parts.

    Operands that `wgmma` cannot take as they lie are copied first, into `copies` (`copy_for`) where they are given.
    """
    tiles.check(kind)
    (M, K), N = a.shape, b.shape[1]
    blocks = ceil_div(M, tiles.block_m) * ceil_div(N, tiles.block_n)
    if not blocks:
        return
    a, b = prepared(a, kind, copies[0], stream), prepared(transposed(b), kind, copies[1], stream)
    layout = Layout(kind, tiles, along_k(a), along_k(b))
    maps = device_maps(operand_map(a, tiles.block_m, kind), operand_map(b, tiles.block_n, kind))
    kernel = wgmma_gemm(epilogue, layout)
    operands = operands_or_bias(operands, bias, FLOAT32)
    sizes = tuple(np.int32(size) for size in (M, N, K))
    configured(kernel, (blocks, split_k), tiles.threads, stream, layout.shared_bytes)(maps, sizes, operands, c)
