"""A copy of an operand with K contiguous, for what `wgmma` cannot take as it lies.

tf32 operands have to be rounded, since the unit would cut off their low bits, and nothing stands between shared memory
and the unit; so they are copied rounded. The same pass serves operands that no tensor map describes (a stride on the
contiguous axis, lines that do not begin at multiples of 16 bytes) and fp8 operands whose K is not contiguous.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float32, int32, uint32
from numba.cuda import libdevice

from .. import ptx
from ..launch import ceil_div, check_shape
from .formats import WgmmaFormat

TILE, ROWS = 32, 8
"""A block copies TILE x TILE elements with TILE x ROWS threads."""


@cuda.jit(device=True)
def as_it_is(bits):
    """The bits unchanged."""
    return bits


@cuda.jit(device=True)
def rounded_to_tf32(bits):
    """float32 bits rounded to the nearest tf32."""
    return ptx.cvt_rna_tf32(float32(libdevice.int_as_float(int32(bits))))


@functools.cache
def k_contiguous_copy(prepare: Any) -> Any:
    """The kernel; source (across, K) of any strides, target (across, K) with K contiguous, both unsigned integers.

    Threads read along the source's contiguous axis and write along K, by way of a tile in shared memory.
    """
    padded = TILE + 1  # a store down a column then touches different banks

    @cuda.jit
    def k_contiguous_copy_kernel(source, target):
        tile = cuda.shared.array((TILE, padded), uint32)  # (across, k)
        tiles_k = (source.shape[1] + TILE - 1) // TILE
        first = (cuda.blockIdx.x // tiles_k) * TILE
        first_k = (cuda.blockIdx.x % tiles_k) * TILE
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        along_k = source.strides[1] <= source.strides[0]
        for step in range(y, TILE, ROWS):
            i, j = (step, x) if along_k else (x, step)
            if first + i < source.shape[0] and first_k + j < source.shape[1]:
                tile[i, j] = uint32(source[first + i, first_k + j])
        cuda.syncthreads()
        for step in range(y, TILE, ROWS):
            if first + step < source.shape[0] and first_k + x < source.shape[1]:
                target[first + step, first_k + x] = prepare(tile[step, x])

    return k_contiguous_copy_kernel


def line_elements(K: int, kind: WgmmaFormat) -> int:
    """Elements of a line of a copy: K, rounded up to a multiple of 16 bytes."""
    return ceil_div(K * kind.element_bytes, 16) * 16 // kind.element_bytes


def copy_for(operand: Any, kind: WgmmaFormat, stream: Any) -> Any | None:
    """Room for the copy of an operand (across, K), given as `kind.bits`: (across, line); None where none is needed."""
    if kind.name != "tf32" and describable(operand, kind):
        return None
    return cuda.device_array((operand.shape[0], line_elements(operand.shape[1], kind)), operand.dtype, stream=stream)


def prepared(operand: Any, kind: WgmmaFormat, room: Any | None, stream: Any) -> Any:
    """The operand (across, K) itself where `wgmma` can take it as it lies, else a copy of it in `room`."""
    if room is None:
        room = copy_for(operand, kind, stream)
        if room is None:
            return operand
    across, K = operand.shape
    check_shape("the room for a copy of an operand", room, (across, line_elements(K, kind)))
    target = room[:, :K]
    blocks = ceil_div(across, TILE) * ceil_div(K, TILE)
    kernel = k_contiguous_copy(rounded_to_tf32 if kind.name == "tf32" else as_it_is)
    kernel[blocks, (TILE, ROWS), stream](operand, target)
    return target


def describable(operand: Any, kind: WgmmaFormat) -> bool:
    """Whether a tensor map can describe an operand (across, K), and `wgmma` take it as it lies."""
    size = operand.dtype.itemsize
    if size not in operand.strides:
        return False
    contiguous = 1 if operand.strides[1] == size else 0
    line = operand.strides[1 - contiguous]
    address = operand.__cuda_array_interface__["data"][0]
    aligned = line >= size * operand.shape[contiguous] and line % 16 == 0 and address % 16 == 0
    return bool(aligned and (kind.transposes or contiguous == 1) and np.min(operand.shape) > 0)
