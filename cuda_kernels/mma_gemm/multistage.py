"""The pipelined kernel: `cp.async` fills the stages ahead, each warp multiplies warp_m x warp_n x block_k at a time.

With S stages, S - 1 copies are under way while one stage is multiplied, so that the latency of global memory is hidden
without a register; one barrier a step says both that the next stage has arrived and that the oldest may be overwritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, float32, int32, int64, uint8, uint32, uint64

from .. import ptx
from ..gemm import in_groups
from ..gemm.epilogues import operands_or_bias
from ..launch import FLOAT32, ceil_div
from ..launch.dynamic_shared import configured
from ..primitives.unroll import unrolled
from .copies import tile_copy
from .formats import MmaFormat
from .fragments import a_loader, b_loader
from .shared_tiles import SharedTile
from .tiles import WARP, MmaTiles
from .write_out import sums_bytes, write_out

walk = in_groups(8)


def shared_tiles(kind: MmaFormat, tiles: MmaTiles, a_along_k: bool, b_along_k: bool) -> tuple[SharedTile, SharedTile]:
    """The tiles of A and B in shared memory; lines run along the contiguous axis of each operand."""
    size, depth = kind.element_bytes, tiles.block_k * kind.element_bytes
    a = SharedTile(tiles.block_m, depth) if a_along_k else SharedTile(tiles.block_k, tiles.block_m * size, size == 4)
    b = SharedTile(tiles.block_n, depth) if b_along_k else SharedTile(tiles.block_k, tiles.block_n * size, size == 4)
    return a, b


@functools.cache
def multistage_gemm(
    kind: MmaFormat,
    epilogue: Callable[..., None],
    tiles: MmaTiles,
    a_along_k: bool,
    b_along_k: bool,
    ldmatrix: bool,
    exact: bool,
) -> Any:
    """The kernel; grid.x covers the tiles of c, grid.y the splits of K. Shared memory is dynamic, all stages.

    a and b: rows 16-byte aligned, the contiguous axis as the two flags say.
    """
    block_m, block_n, block_k, warp_m, warp_n, stages = tiles
    threads, size = tiles.threads, kind.element_bytes
    a_tile, b_tile = shared_tiles(kind, tiles, a_along_k, b_along_k)
    fragments_m, fragments_n, pairs_n, steps = warp_m // 16, warp_n // 8, warp_n // 16, block_k // kind.k
    a_bytes, stage_bytes = a_tile.bytes, a_tile.bytes + b_tile.bytes
    copy_a, copy_b = tile_copy(a_tile, threads, size, steps, exact), tile_copy(b_tile, threads, size, steps, exact)
    load_a = a_loader(kind, a_tile, a_along_k, ldmatrix)
    load_b = b_loader(kind, b_tile, b_along_k, ldmatrix)
    mma, prepare = kind.instruction, kind.prepare
    warps_n = block_n // warp_n
    ahead, in_flight = stages - 1, stages - 2
    write = write_out(epilogue, tiles)

    @cuda.jit(device=True, forceinline=True)
    def start_part(part, shared, stage, a, b, first_row, first_column, k, k_end):
        place = shared + uint64(stage * stage_bytes)
        rows, columns = int32(a.shape[0] - first_row), int32(b.shape[1] - first_column)
        depth = int32(k_end - k)
        at_a, at_b = ptx.global_address(a, (first_row, k)), ptx.global_address(b, (k, first_column))
        if a_along_k:
            copy_a(part, place, at_a, int64(a.strides[0]), rows, depth)
        else:
            copy_a(part, place, at_a, int64(a.strides[1]), depth, rows)
        if b_along_k:
            copy_b(part, place + uint64(a_bytes), at_b, int64(b.strides[1]), columns, depth)
        else:
            copy_b(part, place + uint64(a_bytes), at_b, int64(b.strides[0]), depth, columns)

    start_stage = unrolled(start_part, steps)

    @cuda.jit(device=True, forceinline=True)
    def multiply_step(step, shared, place, warp_row, warp_column, a_registers, b_registers, sums, copying):
        for i in range(fragments_m):
            r = load_a(shared, place, warp_row + i * 16, step)
            a_registers[i, 0], a_registers[i, 1] = prepare(r[0]), prepare(r[1])
            a_registers[i, 2], a_registers[i, 3] = prepare(r[2]), prepare(r[3])
        for j in range(pairs_n):
            r = load_b(shared, place + a_bytes, warp_column + j * 16, step)
            b_registers[2 * j, 0], b_registers[2 * j, 1] = prepare(r[0]), prepare(r[1])
            b_registers[2 * j + 1, 0], b_registers[2 * j + 1, 1] = prepare(r[2]), prepare(r[3])
        stage, a, b, first_row, first_column, k, k_end = copying
        start_part(step, shared, stage, a, b, first_row, first_column, k, k_end)
        for i in range(fragments_m):
            a_fragment = (a_registers[i, 0], a_registers[i, 1], a_registers[i, 2], a_registers[i, 3])
            for j in range(fragments_n):
                c_fragment = (sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3])
                d = mma(a_fragment, (b_registers[j, 0], b_registers[j, 1]), c_fragment)
                sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3] = d[0], d[1], d[2], d[3]

    multiply_stage = unrolled(multiply_step, steps)

    @cuda.jit(device=True)
    def within(k, k_end):
        # Past the end an exact tile is copied once more, for nobody, instead of a branch; another is filled with zeros.
        return max(min(k, int32(k_end - block_k)), int32(0)) if exact else k

    @cuda.jit(device=True)
    def next_stage(stage):
        return int32(0) if stage == ahead else int32(stage + 1)

    @cuda.jit
    def multistage_gemm_kernel(a, b, operands, c):
        memory = cuda.shared.array(0, uint8)
        sums = cuda.local.array((fragments_m, fragments_n, 4), float32)
        a_registers = cuda.local.array((fragments_m, 4), uint32)
        b_registers = cuda.local.array((fragments_n, 2), uint32)
        shared = ptx.shared_address(memory, 0)
        rows, columns, depth = int32(a.shape[0]), int32(b.shape[1]), int32(a.shape[1])

        tile_m, tile_n = walk(int32(cuda.blockIdx.x), ceil_div_int(rows, block_m), ceil_div_int(columns, block_n))
        first_row, first_column = int32(tile_m * block_m), int32(tile_n * block_n)
        split = int32(cuda.blockIdx.y)
        k_per_split = int32(ceil_div_int(ceil_div_int(depth, int32(cuda.gridDim.y)), block_k) * block_k)
        k_first = int32(split * k_per_split)
        k_end = min(depth, int32(k_first + k_per_split))
        count = ceil_div_int(max(int32(k_end - k_first), int32(0)), block_k)
        warp = int32(cuda.threadIdx.x // WARP)
        warp_row, warp_column = int32(warp // warps_n * warp_m), int32(warp % warps_n * warp_n)

        for i in range(fragments_m):
            for j in range(fragments_n):
                for r in range(4):
                    sums[i, j, r] = float32(0)

        for stage in range(ahead):
            k = within(int32(k_first + stage * block_k), k_end)
            start_stage(shared, stage, a, b, first_row, first_column, k, k_end)
            ptx.cp_async_commit_group()
        read, filled = int32(0), int32(ahead)
        for tile in range(count):
            ptx.cp_async_wait_group(in_flight)
            cuda.syncthreads()  # the stage has arrived for all, and all have left the one that is filled next
            k_later = within(int32(k_first + (tile + ahead) * block_k), k_end)
            copying = (filled, a, b, first_row, first_column, k_later, k_end)
            place = int32(read * stage_bytes)
            multiply_stage(shared, place, warp_row, warp_column, a_registers, b_registers, sums, copying)
            ptx.cp_async_commit_group()
            filled, read = read, next_stage(read)

        ptx.cp_async_wait_all()  # the last copies, for nobody, would land among the sums
        write(sums, warp_row, warp_column, c, operands, split, first_row, first_column, rows, columns)

    return multistage_gemm_kernel


@cuda.jit(device=True)
def ceil_div_int(count, size):
    """count / size rounded up, in int32."""
    return int32((int32(count) + int32(size) - int32(1)) // int32(size))


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
    """c = epilogue(a (M, K) @ b (K, N)); a and b as `multistage_gemm` wants them."""
    tiles.check(kind)
    blocks = ceil_div(a.shape[0], tiles.block_m) * ceil_div(b.shape[1], tiles.block_n)
    if not blocks:
        return
    a_along_k, b_along_k = along_k(a, 1, kind), along_k(b, 0, kind)
    exact = not (a.shape[0] % tiles.block_m or b.shape[1] % tiles.block_n or a.shape[1] % (tiles.block_k * split_k))
    exact = exact and a.shape[1] > 0
    kernel = multistage_gemm(kind, epilogue, tiles, a_along_k, b_along_k, ldmatrix, exact)
    operands = operands_or_bias(operands, bias, FLOAT32)
    shared_bytes = max(tiles.stages * tiles.stage_bytes(kind.element_bytes), sums_bytes(tiles))
    configured(kernel, (blocks, split_k), tiles.threads, stream, shared_bytes)(a, b, operands, c)


def along_k(operand: Any, k_axis: int, kind: MmaFormat) -> bool:
    """Whether the operand's contiguous axis is K."""
    return bool(operand.strides[k_axis] == kind.element_bytes)
