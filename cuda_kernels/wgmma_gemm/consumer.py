"""The multiplying warpgroups: each makes 64 x block_n elements of the block's tile, in registers.

pipelined:  while one slice of K is multiplied, the products of the slice before it are waited for and its stage is
            given back: the tensor cores always have one slice in hand and one in line.
promoting:  for fp8, whose products Hopper adds up with 13 fraction bits: each slice (128 elements of K) is summed apart
            and added to the sums in float32.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32, int32, uint32, uint64

from .. import ptx
from .formats import LINE_BYTES, WgmmaFormat
from .tiles import ATOM, Layout


@functools.cache
def slice_products(kind: WgmmaFormat, n: int, a_along_k: bool, b_along_k: bool, fresh: bool) -> Any:
    """multiply(sums, a, b): starts all products of one slice; a and b are the descriptors of its first step.

    fresh: the first product replaces what is in sums instead of adding to it.
    """
    wgmma = kind.instruction
    steps = LINE_BYTES // 32
    # One step is 32 bytes of a line where K is contiguous, k lines otherwise; descriptors count in 16 bytes.
    a_step = 2 if a_along_k else kind.k * LINE_BYTES // 16
    b_step = 2 if b_along_k else kind.k * LINE_BYTES // 16
    a_major, b_major = int(not a_along_k), int(not b_along_k)

    if kind.transposes:

        @cuda.jit(device=True, forceinline=True)
        def multiply(sums, a, b):
            for step in range(steps):
                add = uint32(step > 0 or not fresh)
                wgmma(sums, a + uint64(step * a_step), b + uint64(step * b_step), n, add, a_major, b_major)

    else:

        @cuda.jit(device=True, forceinline=True)
        def multiply(sums, a, b):
            for step in range(steps):
                add = uint32(step > 0 or not fresh)
                wgmma(sums, a + uint64(step * a_step), b + uint64(step * b_step), n, add)

    return multiply


@functools.cache
def first_descriptors(layout: Layout) -> Any:
    """descriptors(shared, warpgroup) -> those of A and B for the first step of the first stage."""
    # A warpgroup has 64 rows: 64 lines where K is contiguous, else the boxes that hold them.
    a_rows_bytes, a_bytes = 64 * LINE_BYTES, layout.a_bytes
    box_bytes = layout.kind.line * LINE_BYTES
    a_leading = 16 if layout.a_along_k else box_bytes
    b_leading = 16 if layout.b_along_k else box_bytes
    swizzle = ptx.SWIZZLE_128B

    @cuda.jit(device=True)
    def descriptors(shared, warpgroup):
        a = ptx.matrix_descriptor(shared + uint64(warpgroup * a_rows_bytes), a_leading, ATOM, swizzle)
        return a, ptx.matrix_descriptor(shared + uint64(a_bytes), b_leading, ATOM, swizzle)

    return descriptors


def consumer(layout: Layout) -> Any:
    """The device function consume(shared, warpgroup, count, sums), called by the 128 threads of a warpgroup.

    warpgroup: 0 for the first rows of the tile. sums: local array of block_n / 2 float32.
    """
    return promoting_consumer(layout) if layout.kind.promotes else pipelined_consumer(layout)


@functools.cache
def pipelined_consumer(layout: Layout) -> Any:
    """`consumer` with the products of two slices under way."""
    stages, registers = layout.tiles.stages, layout.tiles.block_n // 2
    stage_bytes, barriers_offset = layout.stage_bytes, layout.barriers_offset
    descriptors = first_descriptors(layout)
    multiply = slice_products(layout.kind, layout.tiles.block_n, layout.a_along_k, layout.b_along_k, False)

    @cuda.jit(device=True, forceinline=True)
    def consume(shared, warpgroup, count, sums):
        full = shared + uint64(barriers_offset)
        empty = full + uint64(8 * stages)
        a_first, b_first = descriptors(shared, warpgroup)
        elected = cuda.threadIdx.x % 128 == 0
        for i in range(registers):
            sums[i] = float32(0)
        stage, before, parity = int32(0), int32(0), uint32(0)
        for slice_k in range(count):
            ptx.mbarrier_wait_parity(full + uint64(8 * stage), parity)
            ahead = uint64(stage) * uint64(stage_bytes // 16)
            ptx.wgmma_fence()
            multiply(sums, a_first + ahead, b_first + ahead)
            ptx.wgmma_commit_group()
            ptx.wgmma_wait_group(1)
            if slice_k > 0 and elected:
                ptx.mbarrier_arrive(empty + uint64(8 * before))
            before = stage
            stage = int32(stage + 1)
            if stage == stages:
                stage, parity = int32(0), parity ^ uint32(1)
        ptx.wgmma_wait_group(0)

    return consume


@functools.cache
def promoting_consumer(layout: Layout) -> Any:
    """`consumer` that adds up each slice apart, then in float32."""
    stages, registers = layout.tiles.stages, layout.tiles.block_n // 2
    stage_bytes, barriers_offset = layout.stage_bytes, layout.barriers_offset
    descriptors = first_descriptors(layout)
    multiply = slice_products(layout.kind, layout.tiles.block_n, layout.a_along_k, layout.b_along_k, True)

    @cuda.jit(device=True, forceinline=True)
    def consume(shared, warpgroup, count, sums):
        part = cuda.local.array(registers, float32)
        full = shared + uint64(barriers_offset)
        empty = full + uint64(8 * stages)
        a_first, b_first = descriptors(shared, warpgroup)
        elected = cuda.threadIdx.x % 128 == 0
        for i in range(registers):
            sums[i] = float32(0)
            part[i] = float32(0)
        stage, parity = int32(0), uint32(0)
        for _ in range(count):
            ptx.mbarrier_wait_parity(full + uint64(8 * stage), parity)
            ahead = uint64(stage) * uint64(stage_bytes // 16)
            ptx.wgmma_fence()
            multiply(part, a_first + ahead, b_first + ahead)
            ptx.wgmma_commit_group()
            ptx.wgmma_wait_group(0)
            if elected:
                ptx.mbarrier_arrive(empty + uint64(8 * stage))
            for i in range(registers):
                sums[i] += part[i]
            stage = int32(stage + 1)
            if stage == stages:
                stage, parity = int32(0), parity ^ uint32(1)

    return consume
