"""Block barriers that not all threads of the block reach, or reach elsewhere."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from . import Unset, pair

RAMP = np.arange(64, dtype=np.float32)
TRIPS = (np.arange(64) // 32 + 1).astype(np.int32)
SIGNS = np.stack([np.ones(64), np.where(np.arange(64) < 20, -1, 1), np.ones(64)]).astype(np.float32)


@pair(
    "barrier",
    "exited-threads",
    block=64,
    inputs=[RAMP],
    outputs=[Unset(64)],
    expected=lambda x: np.append(x[31::-1], x[32:]),
)
def barrier_in_one_branch(fixed):
    """A barrier inside an `if` that half of the threads do not enter."""

    @cuda.jit
    def reverse_first_half(x, y):
        tile = cuda.shared.array(32, float32)
        i = cuda.threadIdx.x
        if i < 32:
            tile[i] = x[i]
            if not fixed:
                cuda.syncthreads()  # fault
        if fixed:
            cuda.syncthreads()
        y[i] = tile[31 - i] if i < 32 else x[i]

    return reverse_first_half


@pair("barrier", "divergent-barrier", block=64, inputs=[RAMP], outputs=[Unset(64)], expected=lambda x: x + 1)
def half_a_warp_takes_an_extra_barrier(fixed):
    """Half of each warp waits in a branch, while the others already wait at the next barrier."""

    @cuda.jit
    def add_one(x, y):
        i = cuda.threadIdx.x
        y[i] = x[i]
        if i % 32 < 16 and not fixed:
            cuda.syncthreads()  # fault
        cuda.syncthreads()  # other
        y[i] += 1

    return add_one


@pair("barrier", "exited-threads", block=64, inputs=[TRIPS], outputs=[Unset(64, np.int32)], expected=lambda x: x)
def loop_of_differing_trip_counts(fixed):
    """A barrier in a loop that some threads leave earlier than others."""

    @cuda.jit
    def count(x, y):
        i = cuda.threadIdx.x
        y[i] = 0
        for k in range(2 if fixed else x[i]):
            if k < x[i]:
                y[i] += 1
            cuda.syncthreads()  # fault

    return count


@pair("barrier", "divergent-barrier", block=64, inputs=[TRIPS], outputs=[Unset(64, np.int32)], expected=lambda x: x)
def threads_that_leave_a_loop_wait_behind_it(fixed):
    """Some threads still wait inside a loop while others wait at the barrier after it."""

    @cuda.jit
    def count(x, y):
        i = cuda.threadIdx.x
        y[i] = 0
        for k in range(2 if fixed else x[i]):
            if k < x[i]:
                y[i] += 1
            cuda.syncthreads()  # fault
        cuda.syncthreads()  # other

    return count


@pair(
    "barrier",
    "divergent-barrier",
    block=64,
    inputs=[RAMP],
    outputs=[Unset(64)],
    expected=lambda x: np.append(x[:32] + 1, x[32:] - 1),
)
def a_barrier_in_each_branch(fixed):
    """Both branches have a barrier of their own, so that the two meet."""

    @cuda.jit
    def up_and_down(x, y):
        i = cuda.threadIdx.x
        if fixed:
            cuda.syncthreads()
        if i < 32:
            if not fixed:
                cuda.syncthreads()  # fault
            y[i] = x[i] + 1
        else:
            if not fixed:
                cuda.syncthreads()  # other
            y[i] = x[i] - 1

    return up_and_down


@pair("barrier", "exited-threads", block=64, inputs=[RAMP[:50]], outputs=[Unset(50)], expected=lambda x: x[::-1])
def early_return_before_a_barrier(fixed):
    """Threads past the end return; the others wait for them at a barrier."""

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        if i >= x.size and not fixed:
            return
        if i < x.size:
            tile[i] = x[i]
        cuda.syncthreads()  # fault
        if i < x.size:
            y[i] = tile[x.size - 1 - i]

    return reverse


@pair(
    "barrier",
    "exited-threads",
    block=64,
    inputs=[TRIPS],
    outputs=[Unset(64, np.int32)],
    expected=lambda x: np.full(64, 2),
)
def one_thread_leaves_the_polling_loop(fixed):
    """c29: a thread that has finished leaves a loop in which the block votes at a barrier."""

    @cuda.jit
    def turns(x, y):
        i = cuda.threadIdx.x
        turn = 0
        while True:
            turn += 1
            y[i] = turn
            if not fixed and turn == x[i]:
                break
            if cuda.syncthreads_and(1 if turn >= x[i] else 0):  # fault
                break

    return turns


@pair("barrier", "exited-threads", block=64, inputs=[RAMP], outputs=[Unset(1)], expected=lambda x: x.sum(keepdims=True))
def barrier_inside_the_reduction_test(fixed):
    """The barrier of a tree reduction stands inside the test that ever fewer threads pass."""

    @cuda.jit
    def block_sum(x, y):
        tile = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        tile[i] = x[i]
        cuda.syncthreads()
        step = 32
        while step > 0:
            if i < step:
                tile[i] += tile[i + step]
                if not fixed:
                    cuda.syncthreads()  # fault
            if fixed:
                cuda.syncthreads()
            step //= 2
        if i == 0:
            y[0] = tile[0]

    return block_sum


@pair(
    "barrier",
    "exited-threads",
    block=64,
    inputs=[SIGNS],
    outputs=[Unset(64)],
    expected=lambda x: np.maximum(x, 0).sum(axis=0),
)
def continue_skips_the_barrier(fixed):
    """`continue` takes some threads past the barrier of a turn."""

    @cuda.jit
    def positive_sums(x, y):
        i = cuda.threadIdx.x
        total = float32(0)
        for row in range(x.shape[0]):
            if x[row, i] < 0 and not fixed:
                continue
            if x[row, i] > 0:
                total += x[row, i]
            cuda.syncthreads()  # fault
        y[i] = total

    return positive_sums


@pair(
    "barrier",
    "divergent-barrier",
    block=64,
    inputs=[TRIPS],
    outputs=[Unset(64, np.int32)],
    expected=lambda x: np.full(64, np.count_nonzero(x > 1)),
    cuda=False,
)
def counting_barrier_meets_a_plain_one(fixed):
    """One branch counts at its barrier, the other only waits."""

    @cuda.jit
    def count(x, y):
        total = cuda.shared.array(1, int32)
        i = cuda.threadIdx.x
        if i < 32 and not fixed:
            cuda.syncthreads()  # fault
        else:
            counted = cuda.syncthreads_count(1 if x[i] > 1 else 0)  # other
            if i == 63:
                total[0] = counted
        cuda.syncthreads()
        y[i] = total[0]

    return count


@pair(
    "barrier",
    "exited-threads",
    grid=2,
    block=96,
    inputs=[RAMP],
    outputs=[Unset(64)],
    expected=lambda x: x.reshape(2, 32)[:, ::-1].ravel(),
)
def idle_warps_return(fixed):
    """Two of three warps have no work and return before the barrier of the third."""

    @cuda.jit
    def reverse(x, y):
        tile = cuda.shared.array(32, float32)
        i = cuda.threadIdx.x
        first = 32 * cuda.blockIdx.x
        if i >= 32 and not fixed:
            return
        if i < 32:
            tile[i] = x[first + i]
        cuda.syncthreads()  # fault
        if i < 32:
            y[first + i] = tile[31 - i]

    return reverse
