"""Seeded schedules: repeatable bit for bit, hard on kernels that rely on an order, without effect on correct ones."""

import numpy as np
import pytest
from numba import cuda, float32, int32

from refkit.cpu import emulate

pytestmark = pytest.mark.cpu

SEEDS = range(8)


def neighbour_kernel(synchronised: bool, warp: bool = False):
    @cuda.jit
    def kernel(x, out):
        buffer = cuda.shared.array(128, float32)
        i = cuda.threadIdx.x
        buffer[i] = x[cuda.grid(1)]
        if synchronised:
            if warp:
                cuda.syncwarp(0xFFFFFFFF)
            else:
                cuda.syncthreads()
        out[cuda.grid(1)] = buffer[i ^ 31 if warp else 127 - i]

    return kernel


@pytest.mark.parametrize("warp", [False, True], ids=["syncthreads", "syncwarp"])
def test_a_missing_barrier_shows_and_a_present_one_never_does(warp):
    x = np.arange(256, dtype=np.float32)
    blocks = x.reshape(-1, 32 if warp else 128)[:, ::-1].ravel()
    right, wrong = neighbour_kernel(True, warp), neighbour_kernel(False, warp)
    for seed in SEEDS:
        with emulate(schedule=seed):
            out = np.zeros_like(x)
            right[2, 128](x, out)
            np.testing.assert_array_equal(out, blocks)
            wrong[2, 128](x, out)
            assert (out != blocks).any()


@cuda.jit
def running_sum(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])


@cuda.jit
def order_of_threads(counter, out):
    out[cuda.atomic.add(counter, 0, 1)] = cuda.grid(1)


@cuda.jit
def order_with_barriers(counter, out):
    out[cuda.atomic.add(counter, 0, 1)] = cuda.grid(1)
    cuda.syncthreads()
    out[cuda.atomic.add(counter, 0, 1)] = cuda.grid(1)


def order(kernel, seed, visits, grid=5, block=70):
    counter, out = np.zeros(1, np.int32), np.full(grid * block * visits, -1, np.int32)
    with emulate(schedule=seed):
        kernel[grid, block](counter, out)
    return out


@pytest.mark.parametrize(
    ("kernel", "visits"), [(order_of_threads, 1), (order_with_barriers, 2)], ids=["plain", "fibers"]
)
def test_a_seed_gives_one_order_and_other_seeds_others(kernel, visits):
    orders = [order(kernel, seed, visits) for seed in SEEDS]
    for seed, first in zip(SEEDS, orders):
        np.testing.assert_array_equal(order(kernel, seed, visits), first)
        np.testing.assert_array_equal(np.sort(first), np.repeat(np.arange(350), visits))
    assert len({first.tobytes() for first in orders}) == len(orders)


def test_blocks_warps_and_lanes_all_change_place():
    orders = np.array([order(order_of_threads, seed, 1) for seed in SEEDS])
    first_of_block = np.array([[np.flatnonzero(row // 70 == b)[0] for b in range(5)] for row in orders])
    assert len({tuple(np.argsort(row)) for row in first_of_block}) > 3
    place = np.argsort(orders, axis=1).reshape(len(orders), 5, 70)
    for a, b in ((0, 32), (32, 64), (0, 1), (62, 63)):  # warp 0 and 1, 1 and 2; neighbouring lanes
        before = place[:, :, a] < place[:, :, b]
        assert before.any()
        assert not before.all()


def test_without_a_seed_threads_run_in_order():
    np.testing.assert_array_equal(order(order_of_threads, None, 1), np.arange(350))


def test_float_atomics_depend_on_the_schedule_and_repeat_bit_for_bit():
    x = (np.random.default_rng(0).standard_normal(1024) * 10.0 ** np.arange(-4, 4).repeat(128)).astype(np.float32)
    np.random.default_rng(1).shuffle(x)
    sums = []
    for seed in SEEDS:
        pair = []
        for _ in range(2):
            out = np.zeros(1, np.float32)
            with emulate(schedule=seed):
                running_sum[8, 128](x, out)
            pair.append(out.tobytes())
        assert pair[0] == pair[1]
        sums.append(pair[0])
    assert len(set(sums)) > 2
    exact = x.astype(np.float64).sum()
    assert all(abs(np.frombuffer(total, np.float32)[0] - exact) < 1e-2 * abs(x).max() for total in sums)


@cuda.jit
def correct(x, out, total):
    buffer = cuda.shared.array(256, int32)
    i, row = cuda.threadIdx.x, cuda.blockIdx.x
    buffer[i] = x[row, i]
    step = 128
    while step > 0:
        cuda.syncthreads()
        if i < step:
            buffer[i] += buffer[i + step]
        step //= 2
    value = x[row, i]
    for k in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, k)
    out[row, i] = value
    if i == 0:
        cuda.atomic.add(total, row % 3, buffer[0])


def test_no_effect_on_a_correct_kernel():
    x = np.random.default_rng(2).integers(-50, 50, (7, 256)).astype(np.int32)
    warps = np.repeat(x.reshape(7, 8, 32).sum(2), 32, axis=1)
    for seed in (None, *SEEDS):
        out, total = np.zeros_like(x), np.zeros(3, np.int32)
        with emulate(schedule=seed):
            correct[7, 256](x, out, total)
        np.testing.assert_array_equal(out, warps)
        np.testing.assert_array_equal(total, [x[r::3].sum() for r in range(3)])


@cuda.jit
def shuffle_without_order(x, out):
    """Wrong: takes the shuffle for a memory fence between lanes."""
    buffer = cuda.shared.array(32, int32)
    lane = cuda.threadIdx.x
    if lane == 0:
        buffer[7] = x[0]
    else:
        out[lane] = buffer[7]


def test_reading_what_another_lane_may_not_have_written():
    x = np.array([5], np.int32)
    seen = set()
    for seed in SEEDS:
        out = np.zeros(32, np.int32)
        with emulate(schedule=seed):
            shuffle_without_order[1, 32](x, out)
        seen |= set(out[1:].tolist())
    assert seen == {5, -1}


@cuda.jit
def increment_without_atomic(counter):
    counter[0] += 1


def test_giving_way_at_memory_accesses_loses_updates_of_a_plain_increment():
    lost = []
    for seed in range(6):
        with emulate(schedule=seed, preempt=3):
            counter = cuda.to_device(np.zeros(1, np.int64))
            increment_without_atomic[1, 64](counter)
            lost.append(64 - int(counter[0]))
    assert any(lost), "a read and the write behind it were never parted"


def test_giving_way_is_replayed_from_its_seed():
    results = []
    for _ in range(2):
        with emulate(schedule=4, preempt=3):
            counter = cuda.to_device(np.zeros(1, np.int64))
            increment_without_atomic[2, 48](counter)
            results.append(int(counter[0]))
    assert results[0] == results[1]


def test_giving_way_needs_a_schedule():
    with pytest.raises(ValueError, match="preempt=3"):
        emulate(preempt=3)


@cuda.jit
def masks_of_active_lanes(masks):
    masks[cuda.threadIdx.x] = cuda.activemask()


def test_activemask_is_any_part_of_the_converged_lanes_that_holds_the_caller():
    seen = set()
    for seed in range(4):
        with emulate(schedule=seed):
            masks = cuda.to_device(np.zeros(32, np.int64))
            masks_of_active_lanes[1, 32](masks)
            answer = [int(mask) & 0xFFFFFFFF for mask in masks.copy_to_host()]
        for lane, mask in enumerate(answer):
            assert mask >> lane & 1
            assert all(answer[other] == mask for other in range(32) if mask >> other & 1)
        seen.add(tuple(answer))
    assert len(seen) > 1
