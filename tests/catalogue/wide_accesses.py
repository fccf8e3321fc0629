"""Accesses of several elements that begin inside an array and end past it, where no index is out of bounds."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, uint16, uint32

from refkit.cuda_kernels import ptx

from . import Unset, pair

RAMP = np.arange(102, dtype=np.float32)
WORDS = np.arange(64, dtype=np.uint32)
HALVES = np.arange(12 * 8, dtype=np.uint16).reshape(12, 8)


@pair("memory", "out-of-bounds", block=32, inputs=[RAMP], outputs=[Unset(102)], expected=lambda x: x + 1)
def four_wide_load_past_the_end(fixed):
    """The last quarter of 102 elements begins inside the array and has 2 elements beyond it."""

    @cuda.jit
    def add_one(x, y):
        first = 4 * cuda.threadIdx.x
        if first + 4 <= x.size or (first < x.size and not fixed):
            values = ptx.ld_global_v4_f32(x, first)  # fault
            for k in range(min(4, x.size - first)):
                y[first + k] = values[k] + 1
        elif first < x.size:
            for k in range(first, x.size):
                y[k] = x[k] + 1

    return add_one


@pair("memory", "out-of-bounds", block=32, inputs=[RAMP], outputs=[Unset(102)], expected=lambda x: x)
def four_wide_store_past_the_end(fixed):
    """The last store of 4 elements has room for 2."""

    @cuda.jit
    def copy(x, y):
        first = 4 * cuda.threadIdx.x
        if first < x.size:
            if first + 4 <= x.size or not fixed:
                one, two = x[min(first + 2, x.size - 1)], x[min(first + 3, x.size - 1)]
                ptx.st_global_v4_f32(y, first, (x[first], x[first + 1], one, two))  # fault
            else:
                for k in range(first, x.size):
                    y[k] = x[k]

    return copy


@pair("memory", "out-of-bounds", block=64, inputs=[WORDS], outputs=[Unset(64, np.uint32)], expected=lambda x: x[::-1])
def four_wide_load_into_the_next_shared_array(fixed):
    """A tile of 62 elements with another array right behind it, which the last load reaches into."""
    size = 64 if fixed else 62

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(size, uint32)
        behind = cuda.shared.array(64, uint32)
        i = cuda.threadIdx.x
        if i < size:
            tile[i] = x[i]
        behind[i] = x[i]
        cuda.syncthreads()
        if i < 16:
            values = ptx.ld_shared_v4_u32(tile, 4 * i)  # fault
            for k in range(4):
                y[63 - 4 * i - k] = values[k] if 4 * i + k < size else behind[4 * i + k]

    return reverse


@pair("memory", "out-of-bounds", block=32, inputs=[RAMP], outputs=[Unset(102)], expected=lambda x: 2 * x)
def copied_piece_past_the_end(fixed):
    """The last piece of 16 bytes is copied whole, though the source ends after 8 of them."""

    @cuda.jit
    def doubled(x, y):
        tile = cuda.shared.array(128, float32)
        first = 4 * cuda.threadIdx.x
        if first < x.size:
            there, here = ptx.shared_address(tile, first), ptx.global_address(x, first)
            if fixed:
                ptx.cp_async_cg_zfill(there, here, min(16, 4 * (x.size - first)))
            else:
                ptx.cp_async_cg(there, here)  # fault
            ptx.cp_async_commit_group()
            ptx.cp_async_wait_group(0)
            for k in range(first, min(first + 4, x.size)):
                y[k] = tile[k] * float32(2)

    return doubled


@pair("memory", "out-of-bounds", block=16, inputs=[RAMP[:64]], outputs=[Unset(64)], expected=lambda x: 2 * x)
def copied_piece_larger_than_its_place(fixed):
    """The tile has no room for the whole of the last piece that is copied into it."""
    size = 64 if fixed else 62

    @cuda.jit
    def doubled(x, y):
        tile = cuda.shared.array(size, float32)
        first = 4 * cuda.threadIdx.x
        ptx.cp_async_cg(ptx.shared_address(tile, first), ptx.global_address(x, first))  # fault
        ptx.cp_async_wait_all()
        for k in range(first, min(first + 4, size)):
            y[k] = tile[k] * float32(2)

    return doubled


@pair(
    "memory",
    "out-of-bounds",
    block=32,
    inputs=[HALVES],
    outputs=[Unset((16, 4), np.uint32)],
    expected=lambda x: np.concatenate([x.view(np.uint32), np.zeros((4, 4), np.uint32)]),
)
def matrix_rows_below_the_tile(fixed):
    """Two matrices of 8 rows are loaded from a tile of 12: the lanes of the last 4 rows point below it."""
    rows = 16 if fixed else 12

    @cuda.jit
    def moved(x, y):
        tile = cuda.shared.array((rows, 8), uint16)
        lane = cuda.threadIdx.x
        for i in range(lane, 8 * rows, 32):
            row, column = i // 8, i % 8
            tile[row, column] = x[row, column] if row < x.shape[0] else 0
        cuda.syncwarp()
        address = ptx.shared_address(tile, (0, 0)) + 16 * (lane % 16)
        first, second = ptx.ldmatrix_x2(address)  # fault
        y[lane // 4, lane % 4] = first
        y[8 + lane // 4, lane % 4] = second

    return moved
