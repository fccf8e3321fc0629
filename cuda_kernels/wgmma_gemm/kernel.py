"""The kernel: one warpgroup copies by the async proxy, the others multiply; mbarriers say which stage is whose.

full[stage]: the copies of a stage have landed. empty[stage]: all consumers have left it. Each consumer arrives once,
the producer once with the number of bytes.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32, int32, uint8, uint32, uint64

from .. import ptx
from ..gemm import in_groups
from ..primitives.unroll import unrolled
from .consumer import consumer
from .producer import producer
from .tiles import ATOM, PADDING, WARPGROUP, Layout

walk = in_groups(8)
SUMS_BARRIER = 1  # the named barrier of the consumers
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232


@functools.cache
def write_out(epilogue: Any, layout: Layout) -> Any:
    """write(sums, warpgroup, start, c, operands, part, first_row, first_column, rows, columns), by all consumers.

    start: the first float of the aligned shared memory. Sums go through it, so that a warp writes neighbours in a row.
    """
    tiles = layout.tiles
    block_m, block_n = tiles.block_m, tiles.block_n
    threads, stride, groups = tiles.consumers * WARPGROUP, block_n + PADDING, block_n // 8
    per_part = 8 if groups % 8 == 0 else 2

    @cuda.jit(device=True, forceinline=True)
    def keep(part, sums, at):
        tile = cuda.shared.array(0, float32)
        for group in range(per_part):
            j = part * per_part + group
            upper, lower = uint32(at + j * 8), uint32(at + j * 8 + 8 * stride)
            tile[upper], tile[uint32(upper + 1)] = sums[4 * j], sums[4 * j + 1]
            tile[lower], tile[uint32(lower + 1)] = sums[4 * j + 2], sums[4 * j + 3]

    keep_all = unrolled(keep, groups // per_part)

    @cuda.jit(device=True, forceinline=True)
    def write(sums, warpgroup, start, c, operands, part, first_row, first_column, rows, columns):
        tile = cuda.shared.array(0, float32)
        thread = int32(cuda.threadIdx.x) - int32(WARPGROUP)
        lane = thread & 31
        row = warpgroup * 64 + ((thread >> 5) & 3) * 16 + (lane >> 2)
        ptx.bar_sync(SUMS_BARRIER, threads)  # the stages are read no more
        keep_all(sums, int32(start + row * stride + (lane & 3) * 2))
        ptx.bar_sync(SUMS_BARRIER, threads)
        for j in range(thread % block_n, block_n, threads):
            # Unsigned, since a signed index is tested for being negative at every access.
            column = uint32(first_column + j)
            if column < uint32(columns):
                last = min(int32(rows - first_row), int32(block_m))
                for i in range(thread // block_n, last, max(1, threads // block_n)):
                    epilogue(c, operands, part, uint32(first_row + i), column, tile[uint32(start + i * stride + j)])

    return write


@functools.cache
def wgmma_gemm(epilogue: Any, layout: Layout) -> Any:
    """The kernel; grid.x covers the tiles of c, grid.y the splits of K. maps: tensor maps of a and b, one a row."""
    tiles, stages, block_k = layout.tiles, layout.tiles.stages, layout.block_k
    block_m, block_n, consumers = tiles.block_m, tiles.block_n, tiles.consumers
    barriers_offset, registers = layout.barriers_offset, tiles.block_n // 2
    produce, consume, write = producer(layout), consumer(layout), write_out(epilogue, layout)
    moves_registers = consumers == 2

    @cuda.jit(launch_bounds=(tiles.threads, 1))
    def wgmma_gemm_kernel(maps, sizes, operands, c):
        memory = cuda.shared.array(0, uint8)
        raw = ptx.shared_address(memory, 0)
        shared = (raw + uint64(ATOM - 1)) & ~uint64(ATOM - 1)
        rows, columns, depth = sizes
        tiles_m, tiles_n = (rows + block_m - 1) // block_m, (columns + block_n - 1) // block_n
        tile_m, tile_n = walk(int32(cuda.blockIdx.x), tiles_m, tiles_n)
        first_row, first_column = int32(tile_m * block_m), int32(tile_n * block_n)
        split, splits = int32(cuda.blockIdx.y), int32(cuda.gridDim.y)
        slices = int32((depth + block_k - 1) // block_k)
        per_split = int32((slices + splits - 1) // splits)
        k_first = int32(split * per_split * block_k)
        count = int32(max(min(per_split, int32(slices - split * per_split)), int32(0)))
        if cuda.threadIdx.x == 0:
            for stage in range(stages):
                ptx.mbarrier_init(shared + uint64(barriers_offset + 8 * stage), uint32(1))
                ptx.mbarrier_init(shared + uint64(barriers_offset + 8 * (stages + stage)), uint32(consumers))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x < WARPGROUP:
            if moves_registers:
                ptx.setmaxnreg_dec(PRODUCER_REGISTERS)
            if cuda.threadIdx.x == 0:
                produce(shared, maps, first_row, first_column, k_first, count)
        else:
            if moves_registers:
                ptx.setmaxnreg_inc(CONSUMER_REGISTERS)
            sums = cuda.local.array(registers, float32)
            warpgroup = int32(cuda.threadIdx.x // WARPGROUP - 1)
            consume(shared, warpgroup, count, sums)
            start = int32((shared - raw) >> uint64(2))
            write(sums, warpgroup, start, c, operands, split, first_row, first_column, int32(rows), int32(columns))

    return wgmma_gemm_kernel
