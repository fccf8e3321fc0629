"""Hopper's asynchronous instructions: `wgmma`, mbarriers and bulk copies whose protocol is broken in one place.

One warpgroup makes y (64, 8) = a (64, 16) b (16, 8) in bfloat16, or a sum of several such products. The operands come
as tiles that lie as `wgmma` wants them without a swizzle: core matrices of 8 rows by 16 bytes, one behind the other.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numba import cuda, float32, int32, uint16, uint32, uint64

from refkit.cuda_kernels import ptx

from . import Unset, pair

STEPS = 4
M, N, K = 64, 8, 16
A_SIZE, B_SIZE = M * K, N * K
A_BYTES, B_BYTES = 2 * A_SIZE, 2 * B_SIZE
STAGE, STAGE_BYTES, TWICE_A = A_SIZE + B_SIZE, A_BYTES + B_BYTES, 2 * A_SIZE
A_LEADING, B_LEADING, STRIDE = 16 * M, 16 * N, 128


def tile(rows):
    """The elements of a matrix (rows, K), with K contiguous, in the order of core matrices, as bits."""
    height = rows.shape[0]
    bits = rows.astype(ml_dtypes.bfloat16).view(np.uint16)
    return bits.reshape(height // 8, 8, 2, 8).transpose(2, 0, 1, 3).reshape(-1)


GENERATOR = np.random.default_rng(7)
A = GENERATOR.integers(-4, 5, (STEPS, M, K)).astype(np.float32)
B = GENERATOR.integers(-4, 5, (STEPS, N, K)).astype(np.float32)
A_TILES, B_TILES = np.stack([tile(x) for x in A]), np.stack([tile(x) for x in B])
TILES = np.concatenate([A_TILES, B_TILES], axis=1)
ONE, ALL = np.einsum("mk,nk->mn", A[0], B[0]), np.einsum("smk,snk->mn", A, B)
RAMP = np.arange(256, dtype=np.float32)


@cuda.jit(device=True)
def operands(start):
    """The descriptors of a tile of A and of the tile of B behind it."""
    a = ptx.matrix_descriptor(start, A_LEADING, STRIDE, ptx.NO_SWIZZLE)
    return a, ptx.matrix_descriptor(start + uint64(A_BYTES), B_LEADING, STRIDE, ptx.NO_SWIZZLE)


@cuda.jit(device=True)
def fill(shared, tiles):
    """The threads write the first tiles with ordinary stores."""
    for i in range(cuda.threadIdx.x, STAGE, cuda.blockDim.x):
        shared[i] = tiles[0, i]


def launched(sanitizer, problem, expected=lambda tiles: ONE, **options):
    """One warpgroup on the tiles."""
    return pair(
        sanitizer,
        problem,
        block=128,
        inputs=[TILES],
        outputs=[Unset((M, N))],
        expected=expected,
        cuda=False,
        **options,
    )


@cuda.jit(device=True)
def row_of(i):
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    return 16 * warp + lane // 4 + 8 * (i // 2)


@cuda.jit(device=True)
def column_of(i):
    return 2 * (cuda.threadIdx.x % 4) + i % 2


# --- ordinary stores and products -----------------------------------------------------------------------------------
@launched("race", "async-proxy")
def product_without_proxy_fence(fixed):
    """A barrier orders the stores before the product, but the async proxy reads past them without its fence."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums = cuda.local.array(4, float32)
        for i in range(cuda.threadIdx.x, STAGE, cuda.blockDim.x):
            shared[i] = tiles[0, i]  # other
        if fixed:
            ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "read-write")
def product_without_barrier(fixed):
    """Each thread fences its own stores, and nobody waits for those of the others."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums = cuda.local.array(4, float32)
        for i in range(cuda.threadIdx.x, STAGE, cuda.blockDim.x):
            shared[i] = tiles[0, i]  # other
        ptx.fence_proxy_async()
        if fixed:
            cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "registers-unfenced")
def product_without_register_fence(fixed):
    """The accumulator's zeros may reach its registers after the product has read them."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums = cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        for i in range(4):
            sums[i] = float32(0)
        if fixed:
            ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(1), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "accumulator-in-use")
def sums_read_before_the_wait(fixed):
    """The product is under way while its sums are stored."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums = cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        ptx.wgmma_commit_group()
        if fixed:
            ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]  # fault
        ptx.wgmma_wait_group(0)

    return product


@launched("race", "accumulator-in-use")
def product_never_committed(fixed):
    """A wait is for groups: what no commit has closed is not waited for."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums = cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        if fixed:
            ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]  # fault

    return product


@launched("race", "accumulator-in-use")
def one_group_of_products_too_few(fixed):
    """With one group left pending the newest product is still under way."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums, unused = cuda.local.array(4, float32), cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(unused, a, b, 8, uint32(0), 0, 0)
        ptx.wgmma_commit_group()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        ptx.wgmma_commit_group()
        if fixed:
            ptx.wgmma_wait_group(0)
        else:
            ptx.wgmma_wait_group(1)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]  # fault
        ptx.wgmma_wait_group(0)

    return product


@launched("race", "read-write")
def operands_overwritten_under_way(fixed):
    """The product may still read the tile that the threads clear."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        sums = cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # other
        ptx.wgmma_commit_group()
        if fixed:
            ptx.wgmma_wait_group(0)
            cuda.syncthreads()
        for i in range(cuda.threadIdx.x, STAGE, cuda.blockDim.x):
            shared[i] = uint16(0)  # fault
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


# --- bulk loads and mbarriers ---------------------------------------------------------------------------------------
@launched("race", "read-write")
def wait_for_the_wrong_parity(fixed):
    """A fresh mbarrier counts as past the phase of parity 1: the wait returns before the copy has landed."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        sums = cuda.local.array(4, float32)
        start, full = ptx.shared_address(shared, 0), ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(full, uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(STAGE_BYTES))
            ptx.cp_async_bulk_load(start, ptx.global_address(tiles, (0, 0)), uint32(STAGE_BYTES), full)  # other
        ptx.mbarrier_wait_parity(full, uint32(0 if fixed else 1))
        a, b = operands(start)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "read-write")
def arrival_without_expected_bytes(fixed):
    """Without bytes to wait for, the arrival alone ends the phase."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        sums = cuda.local.array(4, float32)
        start, full = ptx.shared_address(shared, 0), ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(full, uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            if fixed:
                ptx.mbarrier_arrive_expect_tx(full, uint32(STAGE_BYTES))
            else:
                ptx.mbarrier_arrive(full)
            ptx.cp_async_bulk_load(start, ptx.global_address(tiles, (0, 0)), uint32(STAGE_BYTES), full)  # other
        ptx.mbarrier_wait_parity(full, uint32(0))
        a, b = operands(start)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "read-write")
def bytes_of_one_copy_expected(fixed):
    """Two copies, and the bytes of the first alone: the phase ends while the second is under way."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        sums = cuda.local.array(4, float32)
        start, full = ptx.shared_address(shared, 0), ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(full, uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(STAGE_BYTES if fixed else A_BYTES))
            ptx.cp_async_bulk_load(start, ptx.global_address(tiles, (0, 0)), uint32(A_BYTES), full)  # other
            source = ptx.global_address(tiles, (0, A_SIZE))
            ptx.cp_async_bulk_load(start + uint64(A_BYTES), source, uint32(B_BYTES), full)  # other
        ptx.mbarrier_wait_parity(full, uint32(0))  # other
        a, b = operands(start)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("barrier", "deadlock")
def more_bytes_expected_than_come(fixed):
    """The phase waits for bytes that no copy brings."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        sums = cuda.local.array(4, float32)
        start, full = ptx.shared_address(shared, 0), ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(full, uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(STAGE_BYTES if fixed else 2 * A_BYTES))
            ptx.cp_async_bulk_load(start, ptx.global_address(tiles, (0, 0)), uint32(STAGE_BYTES), full)
        ptx.mbarrier_wait_parity(full, uint32(0))  # fault
        a, b = operands(start)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "atomic-plain")
def mbarrier_used_before_others_see_it(fixed):
    """Threads wait at an mbarrier that another may not have made yet."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        sums = cuda.local.array(4, float32)
        start, full = ptx.shared_address(shared, 0), ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(full, uint32(1))  # fault
            ptx.fence_mbarrier_init()
        if fixed:
            cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(STAGE_BYTES))
            ptx.cp_async_bulk_load(start, ptx.global_address(tiles, (0, 0)), uint32(STAGE_BYTES), full)
        ptx.mbarrier_wait_parity(full, uint32(0))  # other
        a, b = operands(start)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("race", "async-proxy")
def mbarrier_that_copies_cannot_see(fixed):
    """The copy counts at the mbarrier through the async proxy, which sees it after a fence only."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        sums = cuda.local.array(4, float32)
        start, full = ptx.shared_address(shared, 0), ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(full, uint32(1))  # other
            if fixed:
                ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(STAGE_BYTES))
            ptx.cp_async_bulk_load(start, ptx.global_address(tiles, (0, 0)), uint32(STAGE_BYTES), full)  # fault
        ptx.mbarrier_wait_parity(full, uint32(0))
        a, b = operands(start)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@pair("race", "read-write", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x[:64], cuda=False)
def bulk_load_read_at_once(fixed):
    """The thread that starts a copy reads its destination without waiting for the mbarrier."""

    @cuda.jit
    def copy(x, y):
        shared = cuda.shared.array(64, float32, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        full = ptx.shared_address(barriers, 0)
        i = cuda.threadIdx.x
        if i == 0:
            ptx.mbarrier_init(full, uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if i == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(256))
            ptx.cp_async_bulk_load(ptx.shared_address(shared, 0), ptx.global_address(x, 0), uint32(256), full)  # other
        cuda.syncthreads()
        if fixed:
            ptx.mbarrier_wait_parity(full, uint32(0))
        y[i] = shared[i]  # fault

    return copy


@pair(
    "barrier", "too-many-arrivals", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x[:64], cuda=False
)
def every_thread_arrives_at_an_mbarrier_for_one(fixed):
    """The phase takes one arrival and the bytes; the other threads' arrivals are too many."""

    @cuda.jit
    def copy(x, y):
        shared = cuda.shared.array(64, float32, alignment=128)
        barriers = cuda.shared.array(1, uint64)
        full = ptx.shared_address(barriers, 0)
        i = cuda.threadIdx.x
        if i == 0:
            ptx.mbarrier_init(full, uint32(64 if fixed else 1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if i == 0:
            ptx.mbarrier_arrive_expect_tx(full, uint32(256))  # fault
            ptx.cp_async_bulk_load(ptx.shared_address(shared, 0), ptx.global_address(x, 0), uint32(256), full)  # other
        else:
            ptx.mbarrier_arrive(full)  # fault
        ptx.mbarrier_wait_parity(full, uint32(0))  # other
        y[i] = shared[i]  # other

    return copy


# --- pipelines ------------------------------------------------------------------------------------------------------
def pipelined(sanitizer, problem):
    """A warp that copies and a warpgroup that multiplies."""
    return pair(
        sanitizer,
        problem,
        block=160,
        inputs=[TILES],
        outputs=[Unset((M, N))],
        expected=lambda tiles: ALL,
        cuda=False,
    )


@pipelined("race", "read-write")
def producer_does_not_wait_for_the_stage(fixed):
    """The next copy into a stage waits for the last one to have landed, and not for the products that read it."""

    @cuda.jit
    def products(tiles, y):
        shared = cuda.shared.array((2, STAGE), uint16, alignment=128)
        barriers = cuda.shared.array(4, uint64)
        start, full = ptx.shared_address(shared, (0, 0)), ptx.shared_address(barriers, 0)
        empty = full + uint64(16)
        if cuda.threadIdx.x == 0:
            for stage in range(2):
                ptx.mbarrier_init(full + uint64(8 * stage), uint32(1))
                ptx.mbarrier_init(empty + uint64(8 * stage), uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x >= 128:
            if cuda.threadIdx.x == 128:
                for step in range(STEPS):
                    stage, parity = step % 2, uint32(step // 2 % 2)
                    barrier = full + uint64(8 * stage)
                    if fixed:
                        ptx.mbarrier_wait_parity(empty + uint64(8 * stage), parity ^ uint32(1))
                    elif step >= 2:
                        ptx.mbarrier_wait_parity(barrier, parity ^ uint32(1))
                    ptx.mbarrier_arrive_expect_tx(barrier, uint32(STAGE_BYTES))
                    place, source = start + uint64(stage * STAGE_BYTES), ptx.global_address(tiles, (step, 0))
                    ptx.cp_async_bulk_load(place, source, uint32(STAGE_BYTES), barrier)  # fault
        else:
            sums = cuda.local.array(4, float32)
            for i in range(4):
                sums[i] = float32(0)
            for step in range(STEPS):
                stage, parity = step % 2, uint32(step // 2 % 2)
                ptx.mbarrier_wait_parity(full + uint64(8 * stage), parity)  # other
                a, b = operands(start + uint64(stage * STAGE_BYTES))
                ptx.wgmma_fence()
                ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(1), 0, 0)  # fault
                ptx.wgmma_commit_group()
                ptx.wgmma_wait_group(0)
                if cuda.threadIdx.x == 0:
                    ptx.mbarrier_arrive(empty + uint64(8 * stage))  # other
            for i in range(4):
                y[row_of(i), column_of(i)] = sums[i]

    return products


@pipelined("race", "read-write")
def stage_given_back_before_the_wait(fixed):
    """The consumer gives the stage back while its newest product, which it has not waited for, reads it."""

    @cuda.jit
    def products(tiles, y):
        shared = cuda.shared.array((2, STAGE), uint16, alignment=128)
        barriers = cuda.shared.array(4, uint64)
        start, full = ptx.shared_address(shared, (0, 0)), ptx.shared_address(barriers, 0)
        empty = full + uint64(16)
        if cuda.threadIdx.x == 0:
            for stage in range(2):
                ptx.mbarrier_init(full + uint64(8 * stage), uint32(1))
                ptx.mbarrier_init(empty + uint64(8 * stage), uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x >= 128:
            if cuda.threadIdx.x == 128:
                for step in range(STEPS):
                    stage, parity = step % 2, uint32(step // 2 % 2)
                    ptx.mbarrier_wait_parity(empty + uint64(8 * stage), parity ^ uint32(1))
                    barrier = full + uint64(8 * stage)
                    ptx.mbarrier_arrive_expect_tx(barrier, uint32(STAGE_BYTES))
                    place, source = start + uint64(stage * STAGE_BYTES), ptx.global_address(tiles, (step, 0))
                    ptx.cp_async_bulk_load(place, source, uint32(STAGE_BYTES), barrier)  # fault
        else:
            sums = cuda.local.array(4, float32)
            for i in range(4):
                sums[i] = float32(0)
            for step in range(STEPS):
                stage, parity = step % 2, uint32(step // 2 % 2)
                ptx.mbarrier_wait_parity(full + uint64(8 * stage), parity)
                a, b = operands(start + uint64(stage * STAGE_BYTES))
                ptx.wgmma_fence()
                ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(1), 0, 0)  # fault
                ptx.wgmma_commit_group()
                if fixed:
                    ptx.wgmma_wait_group(0)
                else:
                    ptx.wgmma_wait_group(1)
                if cuda.threadIdx.x == 0:
                    ptx.mbarrier_arrive(empty + uint64(8 * stage))
            ptx.wgmma_wait_group(0)
            for i in range(4):
                y[row_of(i), column_of(i)] = sums[i]

    return products


@pipelined("barrier", "deadlock")
def consumer_never_gives_a_stage_back(fixed):
    """The producer waits for a stage that no consumer says it has left."""

    @cuda.jit
    def products(tiles, y):
        shared = cuda.shared.array((2, STAGE), uint16, alignment=128)
        barriers = cuda.shared.array(4, uint64)
        start, full = ptx.shared_address(shared, (0, 0)), ptx.shared_address(barriers, 0)
        empty = full + uint64(16)
        if cuda.threadIdx.x == 0:
            for stage in range(2):
                ptx.mbarrier_init(full + uint64(8 * stage), uint32(1))
                ptx.mbarrier_init(empty + uint64(8 * stage), uint32(1))
            ptx.fence_mbarrier_init()
        cuda.syncthreads()
        if cuda.threadIdx.x >= 128:
            if cuda.threadIdx.x == 128:
                for step in range(STEPS):
                    stage, parity = step % 2, uint32(step // 2 % 2)
                    ptx.mbarrier_wait_parity(empty + uint64(8 * stage), parity ^ uint32(1))  # fault
                    barrier = full + uint64(8 * stage)
                    ptx.mbarrier_arrive_expect_tx(barrier, uint32(STAGE_BYTES))
                    place, source = start + uint64(stage * STAGE_BYTES), ptx.global_address(tiles, (step, 0))
                    ptx.cp_async_bulk_load(place, source, uint32(STAGE_BYTES), barrier)
        else:
            sums = cuda.local.array(4, float32)
            for i in range(4):
                sums[i] = float32(0)
            for step in range(STEPS):
                stage, parity = step % 2, uint32(step // 2 % 2)
                ptx.mbarrier_wait_parity(full + uint64(8 * stage), parity)  # other
                a, b = operands(start + uint64(stage * STAGE_BYTES))
                ptx.wgmma_fence()
                ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(1), 0, 0)
                ptx.wgmma_commit_group()
                ptx.wgmma_wait_group(0)
                if fixed and cuda.threadIdx.x == 0:
                    ptx.mbarrier_arrive(empty + uint64(8 * stage))
            for i in range(4):
                y[row_of(i), column_of(i)] = sums[i]

    return products


# --- bulk stores ----------------------------------------------------------------------------------------------------
def stored(sanitizer, problem):
    """One warp stores the array in pieces of 32, each doubled."""
    return pair(sanitizer, problem, block=32, inputs=[RAMP], outputs=[Unset(256)], expected=lambda x: 2 * x, cuda=False)


@stored("race", "read-write")
def bulk_store_source_overwritten(fixed):
    """The next piece takes the place of one that a store may still have to read."""

    @cuda.jit
    def doubled(x, y):
        shared = cuda.shared.array(32, float32, alignment=128)
        i = cuda.threadIdx.x
        for piece in range(8):
            shared[i] = x[32 * piece + i] * float32(2)  # fault
            ptx.fence_proxy_async()
            cuda.syncthreads()
            if i == 0:
                target = ptx.global_address(y, int32(32 * piece))
                ptx.cp_async_bulk_store(target, ptx.shared_address(shared, 0), uint32(128))  # other
                ptx.cp_async_bulk_commit_group()
                if fixed:
                    ptx.cp_async_bulk_wait_group_read(0)
            cuda.syncthreads()
        if i == 0:
            ptx.cp_async_bulk_wait_group(0)

    return doubled


@stored("race", "async-proxy")
def bulk_store_without_proxy_fence(fixed):
    """The store reads shared memory through the async proxy, which has not seen the results."""

    @cuda.jit
    def doubled(x, y):
        shared = cuda.shared.array(256, float32, alignment=128)
        i = cuda.threadIdx.x
        for piece in range(8):
            shared[32 * piece + i] = x[32 * piece + i] * float32(2)  # other
        if fixed:
            ptx.fence_proxy_async()
        cuda.syncthreads()
        if i == 0:
            ptx.cp_async_bulk_store(ptx.global_address(y, 0), ptx.shared_address(shared, 0), uint32(1024))  # fault
            ptx.cp_async_bulk_commit_group()
            ptx.cp_async_bulk_wait_group(0)

    return doubled


# --- wrong numbers --------------------------------------------------------------------------------------------------
# A wrong descriptor breaks no rule of the protocol: the product is one of other elements, and only results show it.
@launched("result", "wrong")
def descriptor_of_a_swizzle_that_is_not_there(fixed):
    """The tile lies without a swizzle, and the descriptor of B names one of 32 bytes."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=1024)
        sums = cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        start = ptx.shared_address(shared, 0)
        a, b = operands(start)
        if not fixed:
            b = ptx.matrix_descriptor(start + uint64(A_BYTES), 16, 256, ptx.SWIZZLE_32B)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("result", "wrong")
def descriptor_with_a_wrong_stride(fixed):
    """Eight rows of A take 128 bytes, and the descriptor steps 256 to the next eight."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(TWICE_A, uint16, alignment=1024)
        sums = cuda.local.array(4, float32)
        for i in range(cuda.threadIdx.x, TWICE_A, cuda.blockDim.x):
            shared[i] = tiles[i // STAGE, i % STAGE]
        ptx.fence_proxy_async()
        cuda.syncthreads()
        start = ptx.shared_address(shared, 0)
        a, b = operands(start)
        if not fixed:
            a = ptx.matrix_descriptor(start, A_LEADING, 2 * STRIDE, ptx.NO_SWIZZLE)
        ptx.wgmma_fence()
        ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product


@launched("result", "wrong")
def product_with_the_wrong_major(fixed):
    """K is contiguous in B, and the instruction says that N is."""

    @cuda.jit
    def product(tiles, y):
        shared = cuda.shared.array(STAGE, uint16, alignment=1024)
        sums = cuda.local.array(4, float32)
        fill(shared, tiles)
        ptx.fence_proxy_async()
        cuda.syncthreads()
        a, b = operands(ptx.shared_address(shared, 0))
        ptx.wgmma_fence()
        if fixed:
            ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 0)
        else:
            ptx.wgmma_m64k16_bf16(sums, a, b, 8, uint32(0), 0, 1)  # fault
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(4):
            y[row_of(i), column_of(i)] = sums[i]

    return product
