"""The main loop of the pipelined kernel: `cp.async` fills stages of shared memory ahead of the multiplications.

With S stages, S - 1 copies are under way while one stage is multiplied. A stage is multiplied in steps of one
instruction's K. Each step first loads the fragments of the next step, from the next stage in the last one, and starts
its share of the copies, then multiplies: loads and address arithmetic hide behind the tensor cores. One barrier a
stage says both that the next stage has arrived for all and that all have left the one to be filled.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from numba import cuda, float32, int32, int64, uint8, uint32, uint64

from .. import ptx
from ..primitives.unroll import unrolled
from .copies import tile_copy
from .formats import MmaFormat
from .fragments import a_loader, b_loader
from .shared_tiles import SharedTile
from .tiles import WARP, MmaTiles


@dataclass(frozen=True)
class Operands:
    """How a and b lie in memory: which have K as contiguous axis, and whether the tiles divide M, N and K exactly."""

    a_along_k: bool
    b_along_k: bool
    exact: bool


def shared_tiles(kind: MmaFormat, tiles: MmaTiles, operands: Operands) -> tuple[SharedTile, SharedTile]:
    """The tiles of A and B in shared memory; lines run along the contiguous axis of each operand."""
    size, depth = kind.element_bytes, tiles.block_k * kind.element_bytes
    padded = size == 4
    a, b = SharedTile(tiles.block_m, depth), SharedTile(tiles.block_n, depth)
    if not operands.a_along_k:
        a = SharedTile(tiles.block_k, tiles.block_m * size, padded)
    if not operands.b_along_k:
        b = SharedTile(tiles.block_k, tiles.block_n * size, padded)
    return a, b


def bytes_per_stage(kind: MmaFormat, tiles: MmaTiles, operands: Operands) -> int:
    """Shared memory of one stage of A and B."""
    return sum(tile.bytes for tile in shared_tiles(kind, tiles, operands))


@functools.cache
def stage_copy(kind: MmaFormat, tiles: MmaTiles, operands: Operands, parts: int) -> Any:
    """start(part, shared, stage, a, b, first_row, first_column, k, k_end): one part of the copies that fill a stage."""
    a_tile, b_tile = shared_tiles(kind, tiles, operands)
    a_along_k, b_along_k, exact = operands.a_along_k, operands.b_along_k, operands.exact
    a_bytes, stage_bytes = a_tile.bytes, a_tile.bytes + b_tile.bytes
    copy_a = tile_copy(a_tile, tiles.threads, kind.element_bytes, parts, exact)
    copy_b = tile_copy(b_tile, tiles.threads, kind.element_bytes, parts, exact)

    @cuda.jit(device=True, forceinline=True)
    def start(part, shared, stage, a, b, first_row, first_column, k, k_end):
        place = shared + uint64(stage * stage_bytes)
        rows, columns = int32(a.shape[0] - first_row), int32(b.shape[1] - first_column)
        depth = int32(k_end - k)
        # Past the end nothing is read, but an address is taken: of an element that there is.
        inside = k if exact else min(k, int32(a.shape[1] - 1))
        at_a, at_b = ptx.global_address(a, (first_row, inside)), ptx.global_address(b, (inside, first_column))
        if a_along_k:
            copy_a(part, place, at_a, int64(a.strides[0]), rows, depth)
        else:
            copy_a(part, place, at_a, int64(a.strides[1]), depth, rows)
        if b_along_k:
            copy_b(part, place + uint64(a_bytes), at_b, int64(b.strides[1]), columns, depth)
        else:
            copy_b(part, place + uint64(a_bytes), at_b, int64(b.strides[0]), depth, columns)

    return start


@functools.cache
def fragment_step(kind: MmaFormat, tiles: MmaTiles, operands: Operands, ldmatrix: bool) -> tuple[Any, Any]:
    """load(step, buffer, ...) of a warp's fragments into one of two buffers of registers, and multiply(buffer, ...)."""
    a_tile, b_tile = shared_tiles(kind, tiles, operands)
    load_a = a_loader(kind, a_tile, operands.a_along_k, ldmatrix)
    load_b = b_loader(kind, b_tile, operands.b_along_k, ldmatrix)
    mma, prepare, a_bytes = kind.instruction, kind.prepare, a_tile.bytes
    fragments_m, fragments_n, pairs_n = tiles.warp_m // 16, tiles.warp_n // 8, tiles.warp_n // 16

    @cuda.jit(device=True, forceinline=True)
    def load(step, buffer, shared, place, warp_row, warp_column, a_registers, b_registers):
        for i in range(fragments_m):
            r = load_a(shared, place, warp_row + i * 16, step)
            for j in range(4):
                a_registers[buffer, i, j] = r[j]
        for i in range(pairs_n):
            r = load_b(shared, int32(place + a_bytes), warp_column + i * 16, step)
            for j in range(4):
                b_registers[buffer, 2 * i + j // 2, j % 2] = r[j]

    @cuda.jit(device=True, forceinline=True)
    def multiply(buffer, a_registers, b_registers, sums):
        for i in range(fragments_m):
            for j in range(4):
                a_registers[buffer, i, j] = prepare(a_registers[buffer, i, j])
        for j in range(fragments_n):
            b_fragment = prepare(b_registers[buffer, j, 0]), prepare(b_registers[buffer, j, 1])
            for i in range(fragments_m):
                a_fragment = (
                    a_registers[buffer, i, 0],
                    a_registers[buffer, i, 1],
                    a_registers[buffer, i, 2],
                    a_registers[buffer, i, 3],
                )
                d = mma(a_fragment, b_fragment, (sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3]))
                sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3] = d[0], d[1], d[2], d[3]

    return load, multiply


@functools.cache
def main_loop(kind: MmaFormat, tiles: MmaTiles, operands: Operands, ldmatrix: bool) -> Any:
    """The device function accumulate(a, b, first_row, first_column, k_first, k_end, sums), called by the whole block.

    sums: local array (warp_m / 16, warp_n / 8, 4), set to the warp's part of a @ b over K from k_first to k_end. No
    copy is under way on return, and every thread has left the loop.
    """
    block_n, block_k, warp_m, warp_n, stages = tiles.block_n, tiles.block_k, tiles.warp_m, tiles.warp_n, tiles.stages
    fragments_m, fragments_n, warps_n = warp_m // 16, warp_n // 8, block_n // warp_n
    steps = block_k // kind.k
    parts, ahead, in_flight = steps - 1, stages - 1, stages - 2
    stage_bytes = bytes_per_stage(kind, tiles, operands)
    exact = operands.exact
    start_part = stage_copy(kind, tiles, operands, parts)
    start_stage = unrolled(start_part, parts)
    load, multiply = fragment_step(kind, tiles, operands, ldmatrix)

    @cuda.jit(device=True)
    def within(k, k_end):
        # Past the end an exact tile is copied once more, for nobody, instead of a branch; another is filled with zeros.
        return max(min(k, int32(k_end - block_k)), int32(0)) if exact else k

    @cuda.jit(device=True)
    def next_stage(stage):
        return int32(0) if stage == ahead else int32(stage + 1)

    @cuda.jit(device=True, forceinline=True)
    def one_step(step, shared, warp_row, warp_column, a_registers, b_registers, sums, read, following, copying):
        filled, a, b, first_row, first_column, k, k_end = copying
        place = int32(read * stage_bytes)
        if step < parts:
            start_part(step, shared, filled, a, b, first_row, first_column, k, k_end)
        else:
            ptx.cp_async_commit_group()
            ptx.cp_async_wait_group(in_flight)
            cuda.syncthreads()
            place = int32(following * stage_bytes)
        load((step + 1) % steps, (step + 1) % 2, shared, place, warp_row, warp_column, a_registers, b_registers)
        multiply(step % 2, a_registers, b_registers, sums)

    all_steps = unrolled(one_step, steps)

    @cuda.jit(device=True, forceinline=True)
    def accumulate(a, b, first_row, first_column, k_first, k_end, sums):
        memory = cuda.shared.array(0, uint8)
        a_registers = cuda.local.array((2, fragments_m, 4), uint32)
        b_registers = cuda.local.array((2, fragments_n, 2), uint32)
        shared = ptx.shared_address(memory, 0)
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
        ptx.cp_async_wait_group(in_flight)
        cuda.syncthreads()
        load(0, 0, shared, int32(0), warp_row, warp_column, a_registers, b_registers)
        read, filled = int32(0), int32(ahead)
        for k in range(k_first, k_end, block_k):
            k_later = within(int32(k + ahead * block_k), k_end)
            following = next_stage(read)
            copying = (filled, a, b, first_row, first_column, k_later, k_end)
            all_steps(shared, warp_row, warp_column, a_registers, b_registers, sums, read, following, copying)
            filled, read = read, following
        ptx.cp_async_wait_all()  # copies for nobody must not land in what the memory is used for next
        cuda.syncthreads()

    return accumulate
