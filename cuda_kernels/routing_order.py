"""The order of (token, slot) pairs by expert: which row each pair takes, and where the rows of each expert begin.

    position (T, K): the row of pair (t, s), pairs sorted by experts (T, K), equal ones in the order of (token, slot)
    token (R,):      the token of each row, R = T K
    offsets (E + 1,): rows offsets[e] to offsets[e + 1] - 1 are those of expert e; the last is R

All are int32 or int64, and no two runs differ in a bit. An expert without tokens has no rows; no tokens at all is an
ordinary case. Experts lie in [0, E): the caller's promise. The rows themselves are moved by `routing_rows.py`.

naive:    each pair counts the pairs before it, R^2 work; each thread of a second launch counts those below an expert.
counted:  a counting sort: pairs by expert and block, a prefix sum over these counts, and the rank within the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, int32, int64

from .launch import INTEGERS, ceil_div, check_block, fill_zero, launcher, read, write
from .primitives.scan import block_exclusive_sum

INT32 = np.dtype(np.int32)
MOST_THREADS = 1024


@cuda.jit(device=True)
def place(position, token, pair, row):
    """Pair (t, s), counted t K + s, goes to this row."""
    slots = position.shape[1]
    position[pair // slots, pair % slots] = row
    token[row] = pair // slots


@cuda.jit
def expert_order_naive_kernel(experts, position, token):
    slots = experts.shape[1]
    pair, pairs = cuda.grid(1), experts.shape[0] * slots
    if pair >= pairs:
        return
    own = experts[pair // slots, pair % slots]
    row = int64(0)
    for other in range(pairs):
        expert = experts[other // slots, other % slots]
        if expert < own or (expert == own and other < pair):
            row += 1
    place(position, token, pair, row)


@cuda.jit
def expert_offsets_naive_kernel(experts, offsets):
    expert = cuda.grid(1)
    if expert >= offsets.shape[0]:
        return
    below = int64(0)
    for token in range(experts.shape[0]):
        for slot in range(experts.shape[1]):
            if experts[token, slot] < expert:
                below += 1
    offsets[expert] = below


@cuda.jit
def count_experts_kernel(experts, counts):
    """counts[e blocks + b] += the pairs of block b that chose expert e."""
    slots, pair = experts.shape[1], cuda.grid(1)
    if pair < experts.shape[0] * slots:
        expert = experts[pair // slots, pair % slots]
        cuda.atomic.add(counts, expert * cuda.gridDim.x + cuda.blockIdx.x, 1)


@cuda.jit
def scan_counts_kernel(counts):
    """counts (n,) become the sums of the counts before them; one block."""
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    carried = int32(0)
    for start in range(0, counts.shape[0], threads):
        i = start + thread
        count = counts[i] if i < counts.shape[0] else int32(0)
        before, total = block_exclusive_sum(int32(count))
        if i < counts.shape[0]:
            counts[i] = carried + before
        carried = int32(carried + total)


@cuda.jit
def place_pairs_kernel(experts, before, position, token):
    """Each pair behind those of its expert in the blocks before and among the threads before."""
    chosen = cuda.shared.array(MOST_THREADS, int32)
    slots, thread, pair = experts.shape[1], cuda.threadIdx.x, cuda.grid(1)
    pairs = experts.shape[0] * slots
    expert = int32(experts[pair // slots, pair % slots]) if pair < pairs else int32(-1)
    chosen[thread] = expert
    cuda.syncthreads()
    if pair < pairs:
        row = before[expert * cuda.gridDim.x + cuda.blockIdx.x]
        for earlier in range(thread):
            if chosen[earlier] == expert:
                row += 1
        place(position, token, pair, row)


@cuda.jit
def expert_offsets_kernel(before, blocks, pairs, offsets):
    expert = cuda.grid(1)
    if expert < offsets.shape[0]:
        offsets[expert] = before[expert * blocks] if expert < offsets.shape[0] - 1 else pairs


_order = launcher(
    experts=read("T", "K", dtypes=INTEGERS),
    position=write("T", "K", dtypes=INTEGERS),
    token=write("T*K", dtypes=INTEGERS),
    offsets=write("E_plus_1", dtypes=INTEGERS),
)


@_order
def expert_order_naive(
    experts: Any, position: Any, token: Any, offsets: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes position (T, K), token (T K,) and offsets (E + 1,) from experts (T, K); work in the square of T K."""
    pairs = token.shape[0]
    if pairs:
        expert_order_naive_kernel[ceil_div(pairs, block), block, stream](experts, position, token)
    expert_offsets_naive_kernel[ceil_div(offsets.shape[0], block), block, stream](experts, offsets)


@_order
def expert_order_counted(
    experts: Any, position: Any, token: Any, offsets: Any, block: int = 256, *, stream: Any = None
) -> None:
    """Writes position (T, K), token (T K,) and offsets (E + 1,) from experts (T, K), by a counting sort.

    No two runs differ in a bit. The scratch is an int32 for each expert and each `block` pairs; T K is below 2^31.
    """
    check_block(block)
    pairs, E = token.shape[0], offsets.shape[0] - 1
    blocks = max(1, ceil_div(pairs, block))
    counts = cuda.device_array(E * blocks, INT32, stream=stream)
    if E:
        fill_zero(counts, block, stream)
        count_experts_kernel[blocks, block, stream](experts, counts)
        scan_counts_kernel[1, block, stream](counts)
        place_pairs_kernel[blocks, block, stream](experts, counts, position, token)
    expert_offsets_kernel[ceil_div(E + 1, block), block, stream](counts, blocks, pairs, offsets)
