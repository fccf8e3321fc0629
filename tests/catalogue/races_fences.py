"""Flags, locks and last-block patterns: what a fence, an atomic or both must order between blocks."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from . import Unset, pair

ROWS = np.arange(4 * 32, dtype=np.float32).reshape(4, 32)
ZERO = np.zeros(1, np.int32)


@pair(
    "race",
    "read-write",
    grid=2,
    block=32,
    inputs=[ROWS[0]],
    scratch=[Unset(32), ZERO],
    outputs=[Unset(32)],
    expected=lambda x: x[::-1],
    cuda=False,
)
def flag_without_fence(fixed):
    """The producer's stores may become visible after the flag that announces them."""

    @cuda.jit
    def produce_and_consume(x, data, flag, y):
        i = cuda.threadIdx.x
        if cuda.blockIdx.x == 0:
            data[i] = x[i]  # other
            cuda.syncthreads()
            if i == 0:
                if fixed:
                    cuda.threadfence()
                cuda.atomic.exch(flag, 0, 1)
        else:
            if i == 0:
                while cuda.atomic.add(flag, 0, 0) == 0:
                    pass
                cuda.threadfence()
            cuda.syncthreads()
            y[i] = data[31 - i]  # fault

    return produce_and_consume


@pair(
    "race",
    "atomic-plain",
    grid=2,
    block=1,
    inputs=[ROWS[0]],
    scratch=[Unset(1), ZERO],
    outputs=[Unset(1)],
    expected=lambda x: x[:1],
    cuda=False,
)
def flag_stored_plainly(fixed):
    """The flag is stored by a plain assignment and awaited by an atomic."""

    @cuda.jit
    def produce_and_consume(x, data, flag, y):
        if cuda.blockIdx.x == 0:
            data[0] = x[0]
            cuda.threadfence()
            if fixed:
                cuda.atomic.exch(flag, 0, 1)
            else:
                flag[0] = 1  # fault
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:  # other
                pass
            cuda.threadfence()
            y[0] = data[0] if fixed else x[0]

    return produce_and_consume


@pair(
    "race",
    "atomic-plain",
    grid=2,
    block=1,
    inputs=[ROWS[0]],
    scratch=[Unset(1), ZERO],
    outputs=[Unset(1)],
    expected=lambda x: x[:1],
    cuda=False,
)
def flag_polled_plainly(fixed):
    """The flag is stored by an atomic and awaited by plain reads, which the compiler may take out of the loop."""

    @cuda.jit
    def produce_and_consume(x, data, flag, y):
        if cuda.blockIdx.x == 0:
            data[0] = x[0]
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)  # other
        else:
            if fixed:
                while cuda.atomic.add(flag, 0, 0) == 0:
                    pass
            else:
                while flag[0] == 0:  # fault
                    cuda.threadfence()
            cuda.threadfence()
            y[0] = data[0] if fixed else x[0]

    return produce_and_consume


@pair(
    "race",
    "read-write",
    grid=2,
    block=1,
    inputs=[ROWS[0]],
    scratch=[Unset(1), ZERO],
    outputs=[Unset(1)],
    expected=lambda x: x[:1],
    cuda=False,
)
def fence_of_block_scope_between_blocks(fixed):
    """`threadfence_block` orders for the own block alone; the reader is in another."""

    @cuda.jit
    def produce_and_consume(x, data, flag, y):
        if cuda.blockIdx.x == 0:
            data[0] = x[0]  # other
            if fixed:
                cuda.threadfence()
            else:
                cuda.threadfence_block()
            cuda.atomic.exch(flag, 0, 1)
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
            y[0] = data[0]  # fault

    return produce_and_consume


@pair(
    "race",
    "read-write",
    grid=2,
    block=1,
    inputs=[ROWS[0]],
    scratch=[Unset(1), ZERO],
    outputs=[Unset(1)],
    expected=lambda x: x[:1],
    cuda=False,
)
def flag_before_data(fixed):
    """The flag is raised first and the data stored after it."""

    @cuda.jit
    def produce_and_consume(x, data, flag, y):
        if cuda.blockIdx.x == 0:
            if fixed:
                data[0] = x[0]
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
            if not fixed:
                data[0] = x[0]  # other
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
            y[0] = data[0]  # fault

    return produce_and_consume


@pair(
    "race",
    "read-write",
    grid=4,
    block=32,
    inputs=[ROWS],
    scratch=[Unset(4), ZERO],
    outputs=[Unset(1)],
    expected=lambda x: x[:, 0].sum(keepdims=True),
)
def last_block_without_fence(fixed):
    """The block that draws the last ticket adds up shares that may not be visible to it yet."""

    @cuda.jit
    def total(x, shares, tickets, y):
        if cuda.threadIdx.x == 0:
            shares[cuda.blockIdx.x] = x[cuda.blockIdx.x, 0]  # other
            if fixed:
                cuda.threadfence()
            if cuda.atomic.add(tickets, 0, 1) == cuda.gridDim.x - 1:
                if fixed:
                    cuda.threadfence()
                result = float32(0)
                for k in range(cuda.gridDim.x):
                    result += shares[k]  # fault
                y[0] = result

    return total


@pair(
    "race",
    "read-write",
    grid=4,
    block=32,
    inputs=[ROWS],
    scratch=[Unset((4, 32)), ZERO],
    outputs=[Unset(32)],
    expected=lambda x: x.sum(axis=0),
)
def ticket_drawn_before_the_block_has_stored(fixed):
    """Thread 0 fences and draws the block's ticket while the block's other threads may not have stored their shares."""

    @cuda.jit
    def column_sums(x, shares, tickets, y):
        last = cuda.shared.array(1, int32)
        i = cuda.threadIdx.x
        shares[cuda.blockIdx.x, i] = x[cuda.blockIdx.x, i]  # other
        if fixed:
            cuda.syncthreads()
        if i == 0:
            cuda.threadfence()
            last[0] = cuda.atomic.add(tickets, 0, 1) == cuda.gridDim.x - 1
            cuda.threadfence()
        cuda.syncthreads()
        if last[0]:
            result = float32(0)
            for k in range(cuda.gridDim.x):
                result += shares[k, (i + 1) % 32]  # fault
            y[(i + 1) % 32] = result

    return column_sums


@pair(
    "race",
    "atomic-plain",
    grid=4,
    block=1,
    inputs=[ROWS],
    scratch=[ZERO],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: x[:, 0].sum(keepdims=True),
    cuda=False,
)
def lock_released_by_plain_store(fixed):
    """The lock is taken by compare-and-swap and given back by a plain assignment."""

    @cuda.jit
    def locked_sum(x, lock, y):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # other
            pass
        cuda.threadfence()
        y[0] += x[cuda.blockIdx.x, 0]  # other
        cuda.threadfence()
        if fixed:
            cuda.atomic.exch(lock, 0, 0)
        else:
            lock[0] = 0  # fault

    return locked_sum


@pair(
    "race",
    "read-write",
    grid=4,
    block=1,
    inputs=[ROWS],
    scratch=[ZERO],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: x[:, 0].sum(keepdims=True),
    cuda=False,
)
def lock_without_fences(fixed):
    """A lock of atomics alone: the protected sum is not ordered with the lock."""

    @cuda.jit
    def locked_sum(x, lock, y):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        if fixed:
            cuda.threadfence()
        y[0] += x[cuda.blockIdx.x, 0]  # fault
        if fixed:
            cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)

    return locked_sum


@pair(
    "race",
    "read-write",
    grid=4,
    block=1,
    inputs=[ROWS],
    scratch=[np.zeros(2, np.int32)],
    outputs=[np.zeros(1, np.float32)],
    expected=lambda x: x[:, 0].sum(keepdims=True),
    cuda=False,
)
def two_locks_for_one_sum(fixed):
    """Even and odd blocks take different locks and add to the same sum."""
    locks = 1 if fixed else 2

    @cuda.jit
    def locked_sum(x, lock, y):
        mine = cuda.blockIdx.x % locks
        while cuda.atomic.cas(lock, mine, 0, 1) != 0:
            pass
        cuda.threadfence()
        y[0] += x[cuda.blockIdx.x, 0]  # fault
        cuda.threadfence()
        cuda.atomic.exch(lock, mine, 0)

    return locked_sum
