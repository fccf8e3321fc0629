"""`cp.async` on the executor: copies arrive at the wait, not before, group by group, for each thread by itself."""

import numpy as np
import pytest
from numba import cuda, types

import refkit.cpu
from refkit.cuda_kernels import ptx

SANITIZERS = ("race", "memory", "uninitialized", "barrier")


@cuda.jit
def copy_tile(x, y):
    tile = cuda.shared.array(128, types.float32)
    i = cuda.threadIdx.x
    ptx.cp_async_cg(ptx.shared_address(tile, 4 * i), ptx.global_address(x, 4 * i))
    ptx.cp_async_commit_group()
    ptx.cp_async_wait_group(0)
    cuda.syncthreads()
    for k in range(4):
        y[4 * i + k] = tile[127 - 4 * i - k]


@cuda.jit
def copy_tile_without_wait(x, y):
    tile = cuda.shared.array(128, types.float32)
    i = cuda.threadIdx.x
    ptx.cp_async_cg(ptx.shared_address(tile, 4 * i), ptx.global_address(x, 4 * i))
    ptx.cp_async_commit_group()
    cuda.syncthreads()
    for k in range(4):
        y[4 * i + k] = tile[127 - 4 * i - k]


@cuda.jit
def copy_tile_without_barrier(x, y):
    tile = cuda.shared.array(128, types.float32)
    i = cuda.threadIdx.x
    ptx.cp_async_cg(ptx.shared_address(tile, 4 * i), ptx.global_address(x, 4 * i))
    ptx.cp_async_wait_all()
    for k in range(4):
        y[4 * i + k] = tile[127 - 4 * i - k]


@pytest.mark.cpu
@pytest.mark.parametrize("sanitize", [(), SANITIZERS])
def test_what_is_waited_for_arrives(sanitize):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with refkit.cpu.emulate(sanitize=sanitize):
        copy_tile[1, 32](x, y)
    assert np.array_equal(y, x[::-1])


@pytest.mark.cpu
@pytest.mark.parametrize("schedule", [None, 1, 2])
def test_a_missing_wait_shows_in_the_result(schedule):
    """Copies that nobody waits for land as their thread ends: of two threads that read each other's, the first to end
    finds nothing, in any order of the threads."""
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with refkit.cpu.emulate(schedule=schedule):
        copy_tile_without_wait[1, 32](x, y)
    got, wanted = y.reshape(32, 4), x[::-1].reshape(32, 4)
    found_nothing = np.isnan(got).all(axis=1)
    assert np.array_equal(got[~found_nothing], wanted[~found_nothing])
    assert np.array_equal(found_nothing, ~found_nothing[::-1])
    if schedule is None:
        assert found_nothing[:16].all()


@pytest.mark.cpu
@pytest.mark.parametrize("schedule", [None, 1, 2])
def test_a_missing_wait_is_a_read_of_nothing_and_a_race_with_the_copy_that_lands_late(schedule):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    first = copy_tile_without_wait.py_func.__code__.co_firstlineno
    with (
        refkit.cpu.emulate(sanitize=SANITIZERS, schedule=schedule),
        pytest.raises(refkit.cpu.SanitizerFault, match="nothing has written") as caught,
    ):
        copy_tile_without_wait[1, 32](x, y)
    assert caught.value.line == first + 8
    races = [{f.line, f.other.line} for f in caught.value.findings if f.sanitizer == "race"]
    assert races
    assert all(lines == {first + 4, first + 8} for lines in races)


@pytest.mark.cpu
def test_a_missing_barrier_is_a_race_with_the_copy():
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with refkit.cpu.emulate(sanitize=("race",)), pytest.raises(refkit.cpu.SanitizerFault, match="race on shared tile"):
        copy_tile_without_barrier[1, 32](x, y)


@cuda.jit
def groups(x, y):
    """After each wait, what has arrived of three groups of one copy and of one that no group holds."""
    tile = cuda.shared.array(16, types.float32)
    for i in range(16):
        tile[i] = -1.0
    for i in range(3):
        ptx.cp_async_ca(ptx.shared_address(tile, i), ptx.global_address(x, i), 4)
        ptx.cp_async_commit_group()
    ptx.cp_async_ca(ptx.shared_address(tile, 3), ptx.global_address(x, 3), 4)
    ptx.cp_async_wait_group(3)
    for i in range(4):
        y[0, i] = tile[i]
    ptx.cp_async_wait_group(1)
    for i in range(4):
        y[1, i] = tile[i]
    ptx.cp_async_wait_group(0)
    for i in range(4):
        y[2, i] = tile[i]
    ptx.cp_async_wait_all()
    for i in range(4):
        y[3, i] = tile[i]


@pytest.mark.cpu
def test_groups_arrive_in_order_and_no_earlier_than_they_must():
    y = np.zeros((4, 4), np.float32)
    with refkit.cpu.emulate():
        groups[1, 1](np.arange(1, 5, dtype=np.float32), y)
    poison = np.nan
    wanted = [[poison] * 4, [1, 2, poison, poison], [1, 2, 3, poison], [1, 2, 3, 4]]
    assert np.array_equal(y, np.array(wanted, np.float32), equal_nan=True)


@cuda.jit
def many(x, y):
    tile = cuda.shared.array(256, types.float32)
    for i in range(256):
        ptx.cp_async_ca(ptx.shared_address(tile, i), ptx.global_address(x, 255 - i), 4)
        if i % 8 == 7:
            ptx.cp_async_commit_group()
        if i % 32 == 31:
            ptx.cp_async_wait_group(2)
    ptx.cp_async_wait_all()
    for i in range(256):
        y[i] = tile[i]


@pytest.mark.cpu
def test_any_number_may_be_under_way():
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    with refkit.cpu.emulate():
        many[1, 1](x, y)
    assert np.array_equal(y, x[::-1])


@cuda.jit
def late_source(x, y):
    tile = cuda.shared.array(4, types.float32)
    ptx.cp_async_cg(ptx.shared_address(tile, 0), ptx.global_address(x, 0))
    x[0] = 9.0
    ptx.cp_async_wait_all()
    for i in range(4):
        y[i] = tile[i]


@pytest.mark.cpu
def test_a_source_that_changes_too_early_shows():
    y = np.zeros(4, np.float32)
    with refkit.cpu.emulate():
        late_source[1, 1](np.arange(4, dtype=np.float32), y)
    assert y.tolist() == [9, 1, 2, 3]


@cuda.jit
def zero_fill(x, y, count):
    tile = cuda.shared.array(8, types.float32)
    ptx.cp_async_cg_zfill(ptx.shared_address(tile, 0), ptx.global_address(x, 0), 4 * count)
    ptx.cp_async_ca_zfill(ptx.shared_address(tile, 4), ptx.global_address(x, 4), 8, 4)
    ptx.cp_async_wait_all()
    for i in range(6):
        y[i] = tile[i]


@pytest.mark.cpu
@pytest.mark.parametrize("count", [0, 1, 4])
def test_what_is_not_read_is_filled_with_zeros(count):
    x, y = np.arange(1, 9, dtype=np.float32), np.zeros(6, np.float32)
    with refkit.cpu.emulate():
        zero_fill[1, 1](x, y, count)
    assert y.tolist() == [*x[:count], *[0] * (4 - count), 5, 0]


@cuda.jit
def hinted(x, y):
    tile = cuda.shared.array(16, types.float32)
    ptx.cp_async_cg_hint(ptx.shared_address(tile, 0), ptx.global_address(x, 0), ptx.createpolicy_evict_last())
    ptx.cp_async_ca_hint(ptx.shared_address(tile, 4), ptx.global_address(x, 4), 4, ptx.createpolicy_evict_first())
    ptx.cp_async_cg_prefetch(ptx.shared_address(tile, 8), ptx.global_address(x, 8), 128)
    ptx.cp_async_ca_prefetch(ptx.shared_address(tile, 12), ptx.global_address(x, 12), 8, 64)
    ptx.cp_async_wait_all()
    for i in range(16):
        y[i] = tile[i]


@pytest.mark.cpu
def test_hints_change_no_value():
    x, y = np.arange(1, 17, dtype=np.float32), np.zeros(16, np.float32)
    with refkit.cpu.emulate():
        hinted[1, 1](x, y)
    copied = [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13]
    assert np.array_equal(y[copied], x[copied])


@cuda.jit
def own_groups(x, y):
    tile = cuda.shared.array(64, types.float32)
    i = cuda.threadIdx.x
    ptx.cp_async_ca(ptx.shared_address(tile, i), ptx.global_address(x, i), 4)
    ptx.cp_async_commit_group()
    if i % 2 == 0:
        ptx.cp_async_wait_group(0)
    cuda.syncthreads()
    y[i] = tile[i]


@pytest.mark.cpu
def test_a_wait_is_for_the_copies_of_its_own_thread():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with refkit.cpu.emulate():
        own_groups[1, 64](x, y)
    assert np.array_equal(y[::2], x[::2])
    assert np.isnan(y[1::2]).all()
