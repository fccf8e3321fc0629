"""mbarriers, `elect.sync` and `setmaxnreg` on the executor."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, int32, uint32, uint64

from refkit.cpu import SANITIZERS, Deadlock, SanitizerFault, emulate
from refkit.cuda_kernels import ptx

pytestmark = pytest.mark.cpu
SCHEDULES = [None, 0, 5]


@cuda.jit
def rotate(x, y, rounds):
    """Every round, each thread hands its value to its left neighbour through shared memory."""
    tile = cuda.shared.array(64, float32)
    barriers = cuda.shared.array(2, uint64)
    i = cuda.threadIdx.x
    written, read = ptx.shared_address(barriers, 0), ptx.shared_address(barriers, 1)
    if i == 0:
        ptx.mbarrier_init(written, uint32(64))
        ptx.mbarrier_init(read, uint32(64))
    cuda.syncthreads()
    value = x[i]
    for step in range(rounds):
        tile[i] = value
        ptx.mbarrier_arrive(written)
        ptx.mbarrier_wait_parity(written, uint32(step % 2))
        value = tile[(i + 1) % 64]
        ptx.mbarrier_arrive(read)
        ptx.mbarrier_wait_parity(read, uint32(step % 2))
    y[i] = value


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_phases_follow_each_other_and_order_what_threads_do(schedule):
    x = np.arange(64, dtype=np.float32)
    with emulate(sanitize=SANITIZERS, schedule=schedule):
        y = cuda.device_array(64, np.float32)
        rotate[1, 64](x, y, 5)
        np.testing.assert_array_equal(y.copy_to_host(), np.roll(x, -5))


def handing_over(arrivals_of_consumer: int):
    """One warp writes pieces, another adds them up; two mbarriers, arrivals of 32 threads or of one for all."""

    @cuda.jit
    def kernel(x, y):
        tile = cuda.shared.array(32, float32)
        barriers = cuda.shared.array(2, uint64)
        full, empty = ptx.shared_address(barriers, 0), ptx.shared_address(barriers, 1)
        t = cuda.threadIdx.x
        if t == 0:
            ptx.mbarrier_init(full, uint32(32))
            ptx.mbarrier_init(empty, uint32(arrivals_of_consumer))
        cuda.syncthreads()
        if t < 32:
            for piece in range(x.shape[0]):
                ptx.mbarrier_wait_parity(empty, uint32(piece % 2) ^ uint32(1))
                tile[t] = x[piece, t]
                ptx.mbarrier_arrive(full)
        else:
            total = float32(0)
            for piece in range(x.shape[0]):
                ptx.mbarrier_wait_parity(full, uint32(piece % 2))
                for lane in range(32):
                    total += tile[lane]
                if arrivals_of_consumer == 1:
                    cuda.syncwarp()
                    if t == 32:
                        ptx.mbarrier_arrive(empty)
                else:
                    ptx.mbarrier_arrive(empty)
            y[t - 32] = total

    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("arrivals", [32, 1, 64])
def test_a_buffer_is_used_again_after_all_have_read_it(schedule, arrivals):
    """Readers that all arrive, or one after `syncwarp`, give no finding; with too few arrivals nothing goes on."""
    x = np.random.default_rng(1).integers(0, 9, (4, 32)).astype(np.float32)
    kernel = handing_over(arrivals)
    with emulate(sanitize=SANITIZERS, schedule=schedule):
        y = cuda.device_array(32, np.float32)
        if arrivals == 64:
            with pytest.raises(SanitizerFault) as caught:
                kernel[1, 64](x, y)
            assert {finding.problem for finding in caught.value.findings} == {"deadlock"}
            assert any("32 of 64 arrivals are missing" in finding.message for finding in caught.value.findings)
        else:
            kernel[1, 64](x, y)
            np.testing.assert_array_equal(y.copy_to_host(), np.full(32, x.sum(), np.float32))


def test_a_wait_may_return_early_so_that_its_thread_can_do_something_else():
    @cuda.jit
    def kernel(y):
        barriers = cuda.shared.array(1, uint64)
        barrier = ptx.shared_address(barriers, 0)
        ptx.mbarrier_init(barrier, uint32(2))
        tries = int32(0)
        while ptx.mbarrier_try_wait_parity(barrier, uint32(0)) == uint32(0):
            tries += 1
            if tries <= 2:
                ptx.mbarrier_arrive(barrier)
        y[0] = tries

    with emulate():
        y = cuda.device_array(1, np.int32)
        kernel[1, 1](y)
        assert y.copy_to_host()[0] == 2


@pytest.mark.parametrize("ends_first", [False, True])
def test_what_is_no_mbarrier_is_reported_where_it_is_used(ends_first):
    @cuda.jit
    def kernel():
        barriers = cuda.shared.array(1, uint64)
        barrier = ptx.shared_address(barriers, 0)
        if ends_first:
            ptx.mbarrier_init(barrier, uint32(1))
            ptx.mbarrier_inval(barrier)
        ptx.mbarrier_arrive(barrier)

    with emulate(sanitize=("barrier",)), pytest.raises(SanitizerFault) as caught:
        kernel[1, 1]()
    (finding,) = caught.value.findings
    assert (finding.sanitizer, finding.problem) == ("barrier", "no-mbarrier")
    with open(__file__, encoding="utf-8") as source:
        assert "mbarrier_arrive(barrier)" in source.readlines()[finding.line - 1]


def test_an_arrival_too_many_is_reported_and_left_out():
    @cuda.jit
    def kernel(y):
        barriers = cuda.shared.array(1, uint64)
        barrier = ptx.shared_address(barriers, 0)
        ptx.mbarrier_init(barrier, uint32(1))
        ptx.mbarrier_arrive_expect_tx(barrier, uint32(16))
        ptx.mbarrier_arrive(barrier)
        y[0] = ptx.mbarrier_try_wait_parity(barrier, uint32(0))

    with emulate(sanitize=("barrier",)), pytest.raises(SanitizerFault) as caught:
        kernel[1, 1](cuda.device_array(1, np.uint32))
    assert caught.value.findings[0].problem == "too-many-arrivals"


def test_a_wait_that_nobody_ends_is_a_deadlock_at_its_line():
    @cuda.jit
    def kernel(y):
        barriers = cuda.shared.array(1, uint64)
        barrier = ptx.shared_address(barriers, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_init(barrier, uint32(3))
        cuda.syncthreads()
        if cuda.threadIdx.x < 2:
            ptx.mbarrier_arrive(barrier)
        ptx.mbarrier_wait_parity(barrier, uint32(0))
        y[cuda.threadIdx.x] = 1

    with emulate(), pytest.raises(Deadlock) as caught:
        kernel[1, 32](cuda.device_array(32, np.int32))
    assert "parity 0: 1 of 3 arrivals are missing" in caught.value.message
    with open(__file__, encoding="utf-8") as source:
        assert "mbarrier_wait_parity(barrier, uint32(0))" in source.readlines()[caught.value.line - 1]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_lane_of_each_mask_is_elected(schedule):
    @cuda.jit
    def kernel(y):
        lane = cuda.laneid
        mask = uint32(0xFFFF0000) if lane >= 16 else uint32(0x0000FFFF)
        y[cuda.threadIdx.x] = ptx.elect_sync(mask)

    with emulate(schedule=schedule):
        y = cuda.device_array(64, np.uint32)
        kernel[1, 64](y)
        assert list(y.copy_to_host().reshape(4, 16).sum(axis=1)) == [1, 1, 1, 1]


@pytest.mark.parametrize("threads", [128, 96])
def test_registers_move_by_whole_warpgroups(threads):
    @cuda.jit
    def kernel(y):
        if cuda.threadIdx.x < threads:
            ptx.setmaxnreg_dec(40)
        y[cuda.threadIdx.x] = 1

    with emulate():
        y = cuda.to_device(np.zeros(128, np.int32))
        if threads == 128:
            kernel[1, 128](y)
            assert y.copy_to_host().sum() == 128
        else:
            with pytest.raises(Deadlock) as caught:
                kernel[1, 128](y)
            assert "setmaxnreg" in caught.value.message
