"""The copying warpgroup: one thread keeps bulk tensor copies under way, as far ahead as there are stages.

A tile comes in boxes whose lines are 128 bytes: one box where K is contiguous, several side by side where M or N is.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, int32, uint32, uint64

from .. import ptx
from .tiles import Layout


@functools.cache
def box_copies(lines_across: int, along_k: bool, line: int, line_bytes: int) -> Any:
    """load(place, tensor_map, across, k, barrier): starts the copies of one operand's tile."""
    boxes = 1 if along_k else lines_across // line
    box_bytes = line * line_bytes

    @cuda.jit(device=True)
    def load(place, tensor_map, across, k, barrier):
        if along_k:
            ptx.cp_async_bulk_tensor_2d_load(place, tensor_map, k, across, barrier)
        else:
            for box in range(boxes):
                target = place + uint64(box * box_bytes)
                ptx.cp_async_bulk_tensor_2d_load(target, tensor_map, int32(across + box * line), k, barrier)

    return load


@functools.cache
def producer(layout: Layout) -> Any:
    """The device function produce(shared, maps, first_row, first_column, k_first, count), called by one thread."""
    kind, tiles, stages = layout.kind, layout.tiles, layout.tiles.stages
    block_k, a_bytes, stage_bytes = layout.block_k, layout.a_bytes, layout.stage_bytes
    barriers_offset = layout.barriers_offset
    load_a = box_copies(tiles.block_m, layout.a_along_k, kind.line, 128)
    load_b = box_copies(tiles.block_n, layout.b_along_k, kind.line, 128)

    @cuda.jit(device=True)
    def produce(shared, maps, first_row, first_column, k_first, count):
        map_a, map_b = ptx.global_address(maps, (0, 0)), ptx.global_address(maps, (1, 0))
        full = shared + uint64(barriers_offset)
        empty = full + uint64(8 * stages)
        stage, parity = int32(0), uint32(1)  # a fresh barrier counts as past the phase before the first
        for slice_k in range(count):
            ptx.mbarrier_wait_parity(empty + uint64(8 * stage), parity)
            barrier = full + uint64(8 * stage)
            place = shared + uint64(stage * stage_bytes)
            k = int32(k_first + slice_k * block_k)
            ptx.mbarrier_arrive_expect_tx(barrier, uint32(stage_bytes))
            load_a(place, map_a, first_row, k, barrier)
            load_b(place + uint64(a_bytes), map_b, first_column, k, barrier)
            stage = int32(stage + 1)
            if stage == stages:
                stage, parity = int32(0), parity ^ uint32(1)

    return produce
