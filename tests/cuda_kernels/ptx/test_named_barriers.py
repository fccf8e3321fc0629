"""Named barriers on the executor: who waits for whom, what they order, and reports where they never complete."""

import numpy as np
import pytest
from numba import cuda, types

import refkit.cpu
from refkit.cuda_kernels import ptx


@cuda.jit
def producer_and_consumer(x, y, rounds):
    """Warp 0 fills a slot and arrives at barrier 1; warp 1 waits there, reads, and frees the slot at barrier 2."""
    slot = cuda.shared.array(32, types.float32)
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    for turn in range(rounds):
        if warp == 0:
            if turn > 0:
                ptx.bar_sync(2, 64)
            slot[lane] = x[turn, lane]
            ptx.bar_arrive(1, 64)
        else:
            ptx.bar_sync(1, 64)
            y[cuda.blockIdx.x, turn, lane] = slot[31 - lane]
            if turn + 1 < rounds:
                ptx.bar_arrive(2, 64)


@cuda.jit
def producer_that_does_not_wait(x, y, rounds):
    slot = cuda.shared.array(32, types.float32)
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    for turn in range(rounds):
        if warp == 0:
            slot[lane] = x[turn, lane]
            ptx.bar_arrive(1 + turn, 64)
        else:
            ptx.bar_sync(1 + turn, 64)
            y[turn, lane] = slot[31 - lane]


@pytest.mark.cpu
@pytest.mark.parametrize("schedule", [None, 1, 2, 3])
@pytest.mark.parametrize("sanitize", [(), ("race", "memory", "uninitialized", "barrier")])
def test_a_pipeline_of_two_warps(schedule, sanitize):
    x, y = np.random.default_rng(0).random((6, 32), np.float32), np.zeros((2, 6, 32), np.float32)
    with refkit.cpu.emulate(schedule=schedule, sanitize=sanitize):
        producer_and_consumer[2, 64](x, y, 6)
    assert np.array_equal(y, np.stack([x[:, ::-1]] * 2))


@pytest.mark.cpu
def test_a_barrier_left_out_is_a_race():
    x, y = np.zeros((1, 32), np.float32), np.zeros((1, 32), np.float32)
    with refkit.cpu.emulate(sanitize=("race",)):
        producer_that_does_not_wait[1, 64](x, y, 1)
    x, y = np.zeros((2, 32), np.float32), np.zeros((2, 32), np.float32)
    with refkit.cpu.emulate(sanitize=("race",)), pytest.raises(refkit.cpu.SanitizerFault, match="race on shared slot"):
        producer_that_does_not_wait[1, 64](x, y, 2)


@cuda.jit
def two_halves(y):
    """Each half of the block has a barrier of its own; then all meet at barrier 0."""
    sums = cuda.shared.array(128, types.int32)
    i = cuda.threadIdx.x
    half = i // 64
    sums[i] = i
    ptx.bar_sync(1 + half, 64)
    other = sums[half * 64 + 63 - i % 64]
    ptx.bar_sync(0, 128)
    sums[i] = other
    cuda.syncthreads()
    y[i] = sums[127 - i]


@pytest.mark.cpu
@pytest.mark.parametrize("schedule", [None, 4])
def test_each_half_of_a_block_has_its_own_barrier(schedule):
    y = np.zeros(128, np.int32)
    with refkit.cpu.emulate(schedule=schedule, sanitize=("race",)):
        two_halves[1, 128](y)
    i = np.arange(128)[::-1]
    assert np.array_equal(y, i // 64 * 64 + 63 - i % 64)


@cuda.jit
def one_warp_short(y):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(3, 96)
    y[cuda.threadIdx.x] = 1


@cuda.jit
def counts_that_disagree(y):
    ptx.bar_sync(3, 64 if cuda.threadIdx.x < 32 else 96)


@pytest.mark.cpu
def test_a_barrier_that_never_completes_says_its_number_and_count():
    with (
        refkit.cpu.emulate(),
        pytest.raises(refkit.cpu.Deadlock, match=r"waits? at a named barrier .*number 3, for 96 threads") as caught,
    ):
        one_warp_short[1, 64](np.zeros(64, np.int32))
    assert len(caught.value.threads) == 32
    assert caught.value.line == one_warp_short.py_func.__code__.co_firstlineno + 3
    with refkit.cpu.emulate(), pytest.raises(refkit.cpu.Deadlock, match="for 64 threads"):
        counts_that_disagree[1, 64](np.zeros(64, np.int32))
