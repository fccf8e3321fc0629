"""Stable argsort of integer keys on the device: radix sort from the least significant digit, 4 bits a pass.

order (I,) int64 lists the positions 0..I-1 by (key, position); keys (I,) lie in [0, below). A pass has three kernels:

digit_counts:   each block counts its keys by digit, counts (16, blocks).
exclusive_scan: counts become the place where each block puts its first key of each digit.
digit_scatter:  each block puts its positions there, in their order: rank within the warp by `match_any`, within the
                block by the counts of the warps before. No two runs differ in a bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, int32, int64

from .launch import INTEGERS, ceil_div, check_block, launcher, read
from .primitives.warp import FULL_MASK, WARP

DIGIT_BITS = 4
DIGITS = 1 << DIGIT_BITS
SCAN_BLOCK = 256


@cuda.jit(device=True)
def position_at(order, slot, shift):
    """The position that stands in this slot before the pass; before the first pass it is the slot itself."""
    return int64(slot) if shift == 0 else order[slot]


@cuda.jit(device=True)
def digit_of(key, shift):
    """The digit of the key that the pass sorts by."""
    return int32((int64(key) >> shift) & (DIGITS - 1))


@cuda.jit
def digit_counts_kernel(keys, order, shift, counts):
    block_counts = cuda.shared.array(DIGITS, int32)
    for digit in range(cuda.threadIdx.x, DIGITS, cuda.blockDim.x):
        block_counts[digit] = 0
    cuda.syncthreads()
    slot = cuda.grid(1)
    if slot < keys.shape[0]:
        cuda.atomic.add(block_counts, digit_of(keys[position_at(order, slot, shift)], shift), 1)
    cuda.syncthreads()
    for digit in range(cuda.threadIdx.x, DIGITS, cuda.blockDim.x):
        counts[digit, cuda.blockIdx.x] = block_counts[digit]


@cuda.jit
def exclusive_scan_kernel(values):
    """values (n,) become the sums of the values before them; one block."""
    sums = cuda.shared.array(SCAN_BLOCK, int64)
    thread = cuda.threadIdx.x
    before = int64(0)
    for start in range(0, values.shape[0], SCAN_BLOCK):
        i = start + thread
        value = values[i] if i < values.shape[0] else int64(0)
        sums[thread] = value
        cuda.syncthreads()
        reach = 1
        while reach < SCAN_BLOCK:
            left = sums[thread - reach] if thread >= reach else int64(0)
            cuda.syncthreads()  # everyone has read before anyone adds
            sums[thread] += left
            cuda.syncthreads()
            reach *= 2
        if i < values.shape[0]:
            values[i] = before + sums[thread] - value
        before += sums[SCAN_BLOCK - 1]
        cuda.syncthreads()  # the next round overwrites sums


@cuda.jit
def digit_scatter_kernel(keys, order, shift, places, new_order):
    warp_counts = cuda.shared.array((WARP, DIGITS), int32)
    thread, warp = cuda.threadIdx.x, cuda.threadIdx.x // WARP
    for entry in range(thread, WARP * DIGITS, cuda.blockDim.x):
        warp_counts[entry // DIGITS, entry % DIGITS] = 0
    cuda.syncthreads()
    slot = cuda.grid(1)
    present = slot < keys.shape[0]
    position = position_at(order, slot, shift) if present else int64(0)
    digit = digit_of(keys[position], shift) if present else int32(DIGITS)
    peers = cuda.match_any_sync(FULL_MASK, digit)  # lanes of this warp with the same digit
    rank = cuda.popc(int32(peers) & ((int32(1) << (thread % WARP)) - int32(1)))
    if present and rank == 0:
        warp_counts[warp, digit] = cuda.popc(int32(peers))
    cuda.syncthreads()
    if present:
        place = places[digit, cuda.blockIdx.x] + rank
        for earlier in range(warp):
            place += warp_counts[earlier, digit]
        new_order[place] = position


@launcher(keys=read("I", dtypes=INTEGERS))
def stable_argsort(keys: Any, below: int, block: int = 256, *, stream: Any = None) -> Any:
    """The positions of keys (I,) sorted by key, equal keys in their order, as a device array (I,) int64.

    Keys lie in [0, below): one outside gives a wrong order, never an access outside an array.
    """
    check_block(block)
    count = keys.shape[0]
    order, new_order = (cuda.device_array(count, np.dtype(np.int64), stream=stream) for _ in range(2))
    if count == 0:
        return order
    blocks = ceil_div(count, block)
    counts = cuda.device_array((DIGITS, blocks), np.dtype(np.int64), stream=stream)
    for shift in range(0, max(1, (below - 1).bit_length()), DIGIT_BITS):
        digit_counts_kernel[blocks, block, stream](keys, order, shift, counts)
        exclusive_scan_kernel[1, SCAN_BLOCK, stream](counts.reshape(DIGITS * blocks))
        digit_scatter_kernel[blocks, block, stream](keys, order, shift, counts, new_order)
        order, new_order = new_order, order
    return order
