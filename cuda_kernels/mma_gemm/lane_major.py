"""The kernel for operands of any strides: shared memory holds fragments, lane after lane, not a matrix.

A lane's registers for one 16 x 32-byte piece of A, or for two neighbouring fragments of B, are 16 bytes side by side:
one 128-bit load per lane and piece, a warp over 512 bytes in a row, free of bank conflicts by construction.
Staging pays for it: neighbours in global memory go to a few banks only. An XOR on the lane, keyed on the number of the
piece along the axis that staging walks, spreads them, and is the same for a whole piece, so that loads do not notice
(`refkit.cuda_kernels.layouts.staging` proves both without a GPU).
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32, int32, uint8, uint16, uint32

from .. import ptx
from ..gemm import in_groups
from ..gemm.epilogues import operands_or_bias
from ..launch import FLOAT32, ceil_div, transposed
from ..launch.dynamic_shared import configured
from ..primitives.unroll import unrolled
from .formats import MmaFormat
from .multistage import ceil_div_int
from .shared_tiles import PIECE
from .tiles import WARP, MmaTiles
from .write_out import sums_bytes, write_out

ELEMENTS = {1: uint8, 2: uint16, 4: uint32}
walk = in_groups(8)


@functools.cache
def slot_factory(units_k: int, along_k: bool, pairs: bool) -> Any:
    """The device function slot(across, k_byte) -> byte offset of an element in a lane-major tile.

    across: row of A or column of B. along_k: staging walks along K, so the key is the piece's number along K. pairs:
    the order of registers in two fragments of B instead of one of A.
    """

    @cuda.jit(device=True)
    def slot(across, k_byte):
        piece, piece_k = across >> 4, k_byte >> 5
        half_across, half_k = (across >> 3) & 1, (k_byte >> 4) & 1
        lane = (across & 7) * 4 + ((k_byte >> 2) & 3)
        register = 2 * half_across + half_k if pairs else half_across + 2 * half_k
        key = (piece_k if along_k else piece) & 7
        return int32(((piece * units_k + piece_k) * 32 + (lane ^ key)) * 16 + register * 4 + (k_byte & 3))

    return slot


@functools.cache
def stage_factory(
    across: int, block_k: int, threads: int, element_bytes: int, along_k: bool, pairs: bool, tile_offset: int
) -> Any:
    """The device function stage(source, first, k, k_end) that fills a lane-major tile at `tile_offset` bytes.

    source (across, K): the operand's bits, any strides, K the second axis. Each thread takes 16 bytes along the walked
    axis at a time and stores them register by register, or element by element where they belong to several registers.
    Past the edge come zeros.
    """
    slot = slot_factory(block_k * element_bytes // 32, along_k, pairs)
    vector, element = PIECE // element_bytes, ELEMENTS[element_bytes]
    per_store = 4 // element_bytes if along_k else 1
    stores = vector // per_store
    inner = (block_k if along_k else across) // vector
    items = across * block_k // vector
    size_bits = element_bytes.bit_length() - 1

    @cuda.jit(device=True)
    def element_at(source, x, k, k_end):
        if x < source.shape[0] and k < k_end:
            return source[x, k]
        return element(0)

    @cuda.jit(device=True)
    def stage(source, first, k, k_end):
        words = cuda.shared.array(0, uint32)
        elements = cuda.shared.array(0, element)
        for item in range(int32(cuda.threadIdx.x), items, threads):
            outer, start = item // inner, item % inner * vector
            for j in range(stores):
                if along_k:
                    register = uint32(0)
                    for e in range(per_store):
                        bits = element_at(source, first + outer, k + start + j * per_store + e, k_end)
                        register |= uint32(bits) << uint32(8 * element_bytes * e)
                    at = tile_offset + slot(int32(outer), int32((start + j * per_store) * element_bytes))
                    words[at >> 2] = register
                else:
                    at = tile_offset + slot(int32(start + j), int32(outer * element_bytes))
                    elements[at >> size_bits] = element_at(source, first + start + j, k + outer, k_end)

    return stage


@functools.cache
def lane_major_gemm(kind: MmaFormat, epilogue: Any, tiles: MmaTiles, a_along_k: bool, b_along_k: bool) -> Any:
    """The kernel; grid.x covers the tiles of c, grid.y the splits of K. Shared memory is dynamic.

    a (M, K) and b (N, K) hold the operands' bits as unsigned integers; the flags say which axis staging walks along.
    """
    block_m, block_n, block_k, warp_m, warp_n = tiles.block_m, tiles.block_n, tiles.block_k, tiles.warp_m, tiles.warp_n
    size, threads = kind.element_bytes, tiles.threads
    units_k, warps_n = block_k * size // 32, block_n // warp_n
    fragments_m, fragments_n, pairs_n = warp_m // 16, warp_n // 8, warp_n // 16
    a_bytes = block_m * block_k * size
    stage_a = stage_factory(block_m, block_k, threads, size, a_along_k, False, 0)
    stage_b = stage_factory(block_n, block_k, threads, size, b_along_k, True, a_bytes)
    mma, prepare = kind.instruction, kind.prepare
    write = write_out(epilogue, tiles)

    @cuda.jit(device=True)
    def load(tile_offset, piece, piece_k, along_k):
        words = cuda.shared.array(0, uint32)
        key = (piece_k if along_k else piece) & 7
        lane = int32(cuda.threadIdx.x) & 31
        at = tile_offset + ((piece * units_k + piece_k) * 32 + (lane ^ key)) * 16
        return ptx.ld_shared_v4_u32(words, uint32(at >> 2))

    @cuda.jit(device=True, forceinline=True)
    def one_step(step, first_piece_a, first_piece_b, sums):
        a_registers = cuda.local.array((fragments_m, 4), uint32)
        for i in range(fragments_m):
            r = load(0, first_piece_a + i, step, a_along_k)
            for j in range(4):
                a_registers[i, j] = prepare(r[j])
        for pair in range(pairs_n):
            r = load(a_bytes, first_piece_b + pair, step, b_along_k)
            for half in range(2):
                j = 2 * pair + half
                b_fragment = prepare(r[2 * half]), prepare(r[2 * half + 1])
                for i in range(fragments_m):
                    a_fragment = (a_registers[i, 0], a_registers[i, 1], a_registers[i, 2], a_registers[i, 3])
                    d = mma(a_fragment, b_fragment, (sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3]))
                    sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3] = d[0], d[1], d[2], d[3]

    all_steps = unrolled(one_step, block_k // kind.k)

    @cuda.jit
    def lane_major_gemm_kernel(a, b, operands, c):
        sums = cuda.local.array((fragments_m, fragments_n, 4), float32)
        rows, columns, depth = int32(a.shape[0]), int32(b.shape[0]), int32(a.shape[1])
        tile_m, tile_n = walk(int32(cuda.blockIdx.x), ceil_div_int(rows, block_m), ceil_div_int(columns, block_n))
        first_row, first_column = int32(tile_m * block_m), int32(tile_n * block_n)
        split = int32(cuda.blockIdx.y)
        k_per_split = int32(ceil_div_int(ceil_div_int(depth, cuda.gridDim.y), block_k) * block_k)
        k_end = min(depth, int32((split + 1) * k_per_split))
        warp = int32(cuda.threadIdx.x // WARP)
        piece_a, piece_b = warp // warps_n * fragments_m, warp % warps_n * pairs_n
        for i in range(fragments_m):
            for j in range(fragments_n):
                for r in range(4):
                    sums[i, j, r] = float32(0)
        for k in range(split * k_per_split, k_end, block_k):
            stage_a(a, first_row, k, k_end)
            stage_b(b, first_column, k, k_end)
            cuda.syncthreads()
            all_steps(piece_a, piece_b, sums)
            cuda.syncthreads()  # the tiles are overwritten next
        write(sums, c, operands, split, first_row, first_column, rows, columns)

    return lane_major_gemm_kernel


def launch_lane_major_gemm(
    kind: MmaFormat,
    epilogue: Any,
    a: Any,
    b: Any,
    c: Any,
    tiles: MmaTiles,
    *,
    bias: Any | None = None,
    operands: Any | None = None,
    split_k: int = 1,
    stream: Any = 0,
) -> None:
    """c = epilogue(a (M, K) @ b (K, N)), given as `kind.bits`, any strides; `tiles.stages` is not used.

    K is cut into split_k parts.
    """
    tiles.check(kind)
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if not blocks:
        return
    a_along_k, b_along_k = a.strides[1] <= a.strides[0], b.strides[0] <= b.strides[1]
    kernel = lane_major_gemm(kind, epilogue, tiles, a_along_k, b_along_k)
    shared_bytes = max((tiles.block_m + tiles.block_n) * tiles.block_k * kind.element_bytes, sums_bytes(tiles))
    operands = operands_or_bias(operands, bias, FLOAT32)
    configured(kernel, (blocks, split_k), tiles.threads, stream, shared_bytes)(a, transposed(b), operands, c)
