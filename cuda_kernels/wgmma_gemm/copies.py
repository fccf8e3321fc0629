"""A copy of an operand with K contiguous, for what `wgmma` cannot take as it lies.

tf32 operands have to be rounded, since the unit would cut off their low bits, and nothing stands between shared memory
and the unit; so they are copied rounded. The same pass serves operands that no tensor map describes (a stride on the
contiguous axis, lines that do not begin at multiples of 16 bytes) and fp8 operands whose K is not contiguous.

tf32 operands whose lines begin at multiples of 16 bytes and whose sizes are multiples of 4 go by 128-bit loads and
stores; a rounding product of 4096^3 would otherwise spend a third of its time here. Any others go element by element.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float32, int32, uint32
from numba.cuda import libdevice

from .. import ptx
from ..launch import ceil_div, check_shape, transposed
from .formats import WgmmaFormat

TILE, ROWS = 32, 8
"""A block copies TILE x TILE elements with TILE x ROWS threads, element by element."""

PIECE = 4
"""A thread copies PIECE x PIECE elements of 32 bits, 128 bits at a time."""

MAX_GRID_Y = 65535


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


@cuda.jit(device=True)
def rounded_line(words):
    """Four float32, given as bits, rounded to the nearest tf32."""
    a, b, c, d = words
    return rounded_to_tf32(a), rounded_to_tf32(b), rounded_to_tf32(c), rounded_to_tf32(d)


@cuda.jit(device=True)
def columns(a, b, c, d):
    """The columns of four rows of four words each."""
    return (
        (a[0], b[0], c[0], d[0]),
        (a[1], b[1], c[1], d[1]),
        (a[2], b[2], c[2], d[2]),
        (a[3], b[3], c[3], d[3]),
    )


def pieces_of_a_block(along_k: bool) -> tuple[int, int]:
    """How many pieces a block of 256 threads copies (along K, across).

    A warp then reads 512 bytes of a line, or 64 bytes of each of eight lines, which it turns into lines of 128 bytes.
    """
    return (32, 8) if along_k else (8, 32)


@functools.cache
def rounded_copy(along_k: bool) -> Any:
    """The kernel; source by lines of its contiguous axis, target (across, K) with K contiguous, both uint32.

    source is (across, K) where along_k, else (K, across). Each thread loads four neighbouring lines, all before the
    first store, and turns them round in its registers where source has to be transposed.
    """
    pieces_k, pieces_across = pieces_of_a_block(along_k)

    @cuda.jit
    def rounded_copy_kernel(source, target):
        j = (cuda.blockIdx.x * pieces_k + cuda.threadIdx.x) * PIECE
        i = (cuda.blockIdx.y * pieces_across + cuda.threadIdx.y) * PIECE
        if i >= target.shape[0] or j >= target.shape[1]:
            return
        line, first = (i, j) if along_k else (j, i)
        last = source.shape[0] - 1  # a line behind it is replaced by it, and not stored
        a = ptx.ld_global_v4_u32(source, (line, first))
        b = ptx.ld_global_v4_u32(source, (min(line + 1, last), first))
        c = ptx.ld_global_v4_u32(source, (min(line + 2, last), first))
        d = ptx.ld_global_v4_u32(source, (min(line + 3, last), first))
        if not along_k:
            a, b, c, d = columns(a, b, c, d)
        ptx.st_global_v4_u32(target, (i, j), rounded_line(a))
        if i + 1 < target.shape[0]:
            ptx.st_global_v4_u32(target, (i + 1, j), rounded_line(b))
        if i + 2 < target.shape[0]:
            ptx.st_global_v4_u32(target, (i + 2, j), rounded_line(c))
        if i + 3 < target.shape[0]:
            ptx.st_global_v4_u32(target, (i + 3, j), rounded_line(d))

    return rounded_copy_kernel


def in_128_bits(lines: Any) -> bool:
    """Whether a device array (lines, elements) can be read, or written, in pieces of 16 bytes along its lines."""
    address = lines.__cuda_array_interface__["data"][0]
    size = lines.dtype.itemsize
    contiguous = lines.strides[1] == size and lines.shape[1] * size % 16 == 0
    return bool(contiguous and lines.strides[0] % 16 == 0 and address % 16 == 0)


def launch_rounded_copy(operand: Any, target: Any, stream: Any) -> bool:
    """Copies an operand (across, K) of 32 bits to target, rounded; False where 128-bit pieces are not possible."""
    along_k = in_128_bits(operand)
    source = operand if along_k else transposed(operand)
    pieces_k, pieces_across = pieces_of_a_block(along_k)
    grid = ceil_div(target.shape[1], PIECE * pieces_k), ceil_div(target.shape[0], PIECE * pieces_across)
    if not (in_128_bits(source) and in_128_bits(target)) or grid[1] > MAX_GRID_Y:
        return False
    rounded_copy(along_k)[grid, (pieces_k, pieces_across), stream](source, target)
    return True


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
    if kind.name == "tf32" and launch_rounded_copy(operand, target, stream):
        return target
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
