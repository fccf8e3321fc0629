"""Grids: indices in three dimensions, grid-wide barriers, blocks that wait for each other."""

import numpy as np
import pytest
from numba import cuda, float32, int32

from refkit.cpu import LaunchConfigurationError, emulate

pytestmark = pytest.mark.cpu


@cuda.jit
def indices(out):
    x, y, z = cuda.grid(3)
    nx, ny, _ = cuda.gridsize(3)
    if x < out.shape[0] and y < out.shape[1] and z < out.shape[2]:
        cell = out[x, y, z]
        cell[0] += 1
        cell[1] = (z * ny + y) * nx + x
        cell[2] = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
        cell[3] = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)


@pytest.mark.parametrize("settings", [{}, {"workers": 3}, {"schedule": 8}], ids=["plain", "workers", "schedule"])
@pytest.mark.parametrize(("grid", "block"), [((2, 3, 4), (5, 2, 3)), ((7, 1, 1), (32, 1, 1)), ((1, 5, 2), (3, 3, 3))])
def test_every_index_of_a_three_dimensional_grid_once(grid, block, settings):
    shape = tuple(g * b for g, b in zip(grid, block))
    out = np.zeros((*shape, 4), np.int64)
    with emulate(**settings):
        indices[grid, block](out)
    assert (out[..., 0] == 1).all()
    x, y, z = np.indices(shape)
    np.testing.assert_array_equal(out[..., 1], (z * shape[1] + y) * shape[0] + x)
    bx, by, bz = x // block[0], y // block[1], z // block[2]
    np.testing.assert_array_equal(out[..., 2], bx + grid[0] * (by + grid[1] * bz))
    tx, ty, tz = x % block[0], y % block[1], z % block[2]
    np.testing.assert_array_equal(out[..., 3], tx + block[0] * (ty + block[1] * tz))


@cuda.jit
def flat(out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] += i
    a, b = cuda.grid(2)
    c, d = cuda.gridsize(2)
    if cuda.grid(1) == 0:
        out[0] = c * 1000 + d + a + b


def test_grid_stride_loop_and_lower_dimensions():
    out = np.zeros(1003, np.int64)
    with emulate():
        flat[3, 50](out)
    assert out[0] == 150 * 1000 + 1
    np.testing.assert_array_equal(out[1:], np.arange(1, 1003))


def test_many_blocks_of_one_thread():
    out = np.zeros(70_000, np.int64)
    with emulate():
        flat[70_000, 1](out)
    np.testing.assert_array_equal(out[1:], np.arange(1, 70_000))


@cuda.jit
def all_to_all(x, rounds):
    group = cuda.cg.this_grid()
    i = cuda.grid(1)
    n = x.shape[1]
    for r in range(rounds):
        x[(r + 1) % 2, i] = x[r % 2, (i + 33) % n] + 1
        group.sync()


@pytest.mark.parametrize("schedule", [None, 0, 7])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 64), (9, 33), (40, 128)])
def test_grid_barrier(blocks, threads, schedule):
    n = blocks * threads
    x = np.zeros((2, n), np.int64)
    x[0] = np.arange(n) * 10
    start = x[0].copy()
    with emulate(schedule=schedule):
        all_to_all[blocks, threads](x, 5)
    np.testing.assert_array_equal(x[1], np.roll(start, -33 * 5) + 5)


def test_a_grid_that_no_device_holds_at_once_cannot_have_a_barrier():
    with emulate(), pytest.raises(LaunchConfigurationError, match=r"5000 blocks.*grid barrier.*at most \d+"):
        all_to_all[5000, 1024](np.zeros((2, 5000 * 1024), np.int64), 1)


@cuda.jit
def last_block_sums(x, partial, counter, out):
    """Each block writes its sum; the block that arrives last, told by an atomic, adds them up."""
    buffer = cuda.shared.array(64, float32)
    last = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    buffer[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    if i == 0:
        total = float32(0)
        for k in range(64):
            total += buffer[k]
        partial[cuda.blockIdx.x] = total
        cuda.threadfence()
        last[0] = cuda.atomic.add(counter, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and i == 0:
        total = float32(0)
        for k in range(cuda.gridDim.x):
            total += partial[k]
        out[0] = total


@pytest.mark.parametrize("settings", [{}, {"workers": 4}, {"schedule": 3}], ids=["plain", "workers", "schedule"])
def test_last_block_pattern(settings):
    x = np.random.default_rng(0).integers(-8, 8, 64 * 300).astype(np.float32)
    partial, counter, out = np.zeros(300, np.float32), np.zeros(1, np.int32), np.full(1, np.nan, np.float32)
    with emulate(**settings):
        last_block_sums[300, 64](x, partial, counter, out)
    assert out[0] == x.sum()
    assert counter[0] == 300


@cuda.jit
def chain(flags, out):
    """Block k waits for the flag of block k - 1 (as in decoupled look-back), by an atomic read."""
    k = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if k > 0:
            while cuda.atomic.add(flags, k - 1, 0) == 0:
                pass
            cuda.threadfence()
            out[k] = out[k - 1] + k
        cuda.threadfence()
        cuda.atomic.exch(flags, k, 1)


@cuda.jit
def chain_by_fence(flags, out):
    """The flag is read plainly; the fence in the loop makes each turn read it again."""
    k = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if k > 0:
            while flags[k - 1] == 0:
                cuda.threadfence()
            out[k] = out[k - 1] + k
        cuda.threadfence()
        flags[k] = 1


@cuda.jit
def chain_by_plain_read(flags, out):
    k = cuda.blockIdx.x
    if k > 0:
        while flags[k - 1] == 0:
            pass
        out[k] = out[k - 1] + k
    cuda.threadfence()
    flags[k] = 1


@pytest.mark.parametrize("settings", [{}, {"workers": 4}, {"schedule": 3}], ids=["plain", "workers", "schedule"])
@pytest.mark.parametrize("kernel", [chain, chain_by_fence, chain_by_plain_read], ids=["atomic", "fence", "plain"])
def test_blocks_wait_for_flags_of_earlier_blocks(kernel, settings):
    flags, out = np.zeros(100, np.int32), np.zeros(100, np.int64)
    with emulate(timeout=20, **settings):
        kernel[100, 1](flags, out)
    np.testing.assert_array_equal(out, np.cumsum(np.arange(100)))


@cuda.jit
def backwards(flags, out):
    k = cuda.blockIdx.x
    if k < cuda.gridDim.x - 1:
        while cuda.atomic.add(flags, k + 1, 0) == 0:
            pass
    out[k] = cuda.gridDim.x - k
    cuda.atomic.exch(flags, k, 1)


def test_resident_blocks_may_wait_for_later_ones():
    flags, out = np.zeros(16, np.int32), np.zeros(16, np.int64)
    with emulate(timeout=20):
        backwards[16, 8](flags, out)
    np.testing.assert_array_equal(out, np.arange(16, 0, -1))


@cuda.jit
def chain_of_large_blocks(flags, out):
    k = cuda.blockIdx.x
    if cuda.threadIdx.x == 1000:
        while k > 0 and cuda.atomic.add(flags, k - 1, 0) == 0:
            pass
        out[k] = k
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.exch(flags, k, 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_more_waiting_blocks_than_are_resident(workers):
    flags, out = np.zeros(50, np.int32), np.full(50, -1, np.int64)
    with emulate(timeout=30, workers=workers):
        chain_of_large_blocks[50, 1024](flags, out)
    np.testing.assert_array_equal(out, np.arange(50))
