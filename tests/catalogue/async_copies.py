"""`cp.async`: copies that are waited for too late, too few, by too few threads, or never."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from refkit.cuda_kernels import ptx

from . import Unset, pair

RAMP = np.arange(64, dtype=np.float32)
ROWS = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)


@pair("uninitialized", "shared", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x * 2)
def copy_not_waited_for(fixed):
    """A thread reads what its own copy is still bringing."""

    @cuda.jit
    def doubled(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        ptx.cp_async_ca(ptx.shared_address(tile, i), ptx.global_address(x, i), 4)
        ptx.cp_async_commit_group()
        if fixed:
            ptx.cp_async_wait_group(0)
        y[i] = tile[i] * float32(2)  # fault
        ptx.cp_async_wait_group(0)

    return doubled


@pair("uninitialized", "shared", block=64, inputs=[ROWS], outputs=[Unset(64)], expected=lambda x: x.sum(axis=0))
def one_group_too_few_waited_for(fixed):
    """With one copy ahead, the wait must leave one group pending, not two."""

    @cuda.jit
    def sums(x, y):
        tile = cuda.shared.array((2, 64), float32)
        i = cuda.threadIdx.x
        total = float32(0)
        ptx.cp_async_ca(ptx.shared_address(tile, (0, i)), ptx.global_address(x, (0, i)), 4)
        ptx.cp_async_commit_group()
        for row in range(x.shape[0]):
            if row + 1 < x.shape[0]:
                ptx.cp_async_ca(ptx.shared_address(tile, ((row + 1) % 2, i)), ptx.global_address(x, (row + 1, i)), 4)
            ptx.cp_async_commit_group()
            if fixed:
                ptx.cp_async_wait_group(1)
            else:
                ptx.cp_async_wait_group(2)
            total += tile[row % 2, i]  # fault
        y[i] = total
        ptx.cp_async_wait_all()

    return sums


@pair("race", "read-write", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x[::-1])
def waited_for_without_barrier(fixed):
    """A wait is for the thread's own copies; what others copied needs a barrier after it."""

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        ptx.cp_async_ca(ptx.shared_address(tile, i), ptx.global_address(x, i), 4)  # other
        ptx.cp_async_wait_all()
        if fixed:
            cuda.syncthreads()
        y[i] = tile[63 - i]  # fault

    return reverse


@pair("race", "read-write", block=64, inputs=[ROWS], outputs=[Unset(64)], expected=lambda x: x[0, ::-1] * 2)
def tile_reused_while_a_copy_is_under_way(fixed):
    """The last copy of a pipeline is for nobody, but it still lands: among the results that took its place."""

    @cuda.jit
    def reversed_twice(x, y):
        tile = cuda.shared.array((2, 64), float32)
        i = cuda.threadIdx.x
        for stage in range(2):
            ptx.cp_async_ca(ptx.shared_address(tile, (stage, i)), ptx.global_address(x, (stage, i)), 4)  # other
            ptx.cp_async_commit_group()
        ptx.cp_async_wait_group(1)
        value = tile[0, i] * float32(2)
        if fixed:
            ptx.cp_async_wait_all()
        cuda.syncthreads()
        tile[1, i] = value
        cuda.syncthreads()
        y[i] = tile[1, 63 - i]  # fault

    return reversed_twice
