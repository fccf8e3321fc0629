"""Block barriers: every form, every shape of block, and threads that have left."""

import numpy as np
import pytest
from numba import cuda, int32

from refkit.cpu import emulate

pytestmark = pytest.mark.cpu

BLOCKS = [
    1,
    2,
    31,
    32,
    33,
    64,
    100,
    1000,
    1024,
    (5, 7),
    (33, 3),
    (1, 32),
    (3, 5, 7),
    (2, 2, 64),
    (1, 1, 33),
    (32, 32, 1),
]


def threads_of(block) -> int:
    return int(np.prod(block))


@cuda.jit
def rotate(source, target, rounds):
    """Each round every thread reads its neighbour's value: wrong as soon as one barrier lets one thread through."""
    buffer = cuda.shared.array(1024, int32)
    rank = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    count = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    value = source[cuda.blockIdx.x, rank]
    for _ in range(rounds):
        buffer[rank] = value
        cuda.syncthreads()
        value = buffer[(rank + 1) % count]
        cuda.syncthreads()
    target[cuda.blockIdx.x, rank] = value


@pytest.mark.parametrize("schedule", [None, 3])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_plain_barrier_in_blocks_of_every_shape(block, schedule):
    n = threads_of(block)
    source = np.arange(3 * n, dtype=np.int32).reshape(3, n)
    target = np.zeros_like(source)
    with emulate(schedule=schedule):
        rotate[3, block](source, target, 5)
    np.testing.assert_array_equal(target, np.roll(source, -5, axis=1))


@cuda.jit
def reduce_predicates(values, counted, every, some):
    thread = cuda.threadIdx.x
    for round_ in range(values.shape[0]):
        predicate = values[round_, thread]
        counted[round_, thread] = cuda.syncthreads_count(predicate)
        every[round_, thread] = cuda.syncthreads_and(predicate)
        some[round_, thread] = cuda.syncthreads_or(predicate)


@pytest.mark.parametrize("n", [1, 33, 100, 1024])
def test_count_and_or_reach_every_thread(n):
    rng = np.random.default_rng(n)
    values = np.stack([rng.integers(0, 3, n), np.zeros(n), np.full(n, 7), np.arange(n) == n - 1]).astype(np.int32)
    counted, every, some = (np.full(values.shape, -1, np.int32) for _ in range(3))
    with emulate():
        reduce_predicates[1, n](values, counted, every, some)
    true = np.count_nonzero(values, axis=1)[:, None]
    np.testing.assert_array_equal(counted, np.broadcast_to(true, values.shape))
    np.testing.assert_array_equal(every != 0, np.broadcast_to(true == n, values.shape))
    np.testing.assert_array_equal(some != 0, np.broadcast_to(true > 0, values.shape))


@cuda.jit
def leave_early(stay, counted, after):
    """Threads that return no longer take part in the barriers of the others."""
    thread = cuda.threadIdx.x
    if thread >= stay:
        return
    counted[thread] = cuda.syncthreads_count(1)
    if thread % 2:
        return
    cuda.syncthreads()
    after[thread] = cuda.syncthreads_count(1)


@pytest.mark.parametrize("schedule", [None, 0, 1])
@pytest.mark.parametrize("stay", [1, 31, 64, 77])
def test_an_exit_releases_the_barrier(stay, schedule):
    counted, after = np.zeros(96, np.int32), np.zeros(96, np.int32)
    with emulate(schedule=schedule):
        leave_early[1, 96](stay, counted, after)
    thread = np.arange(96)
    np.testing.assert_array_equal(counted, np.where(thread < stay, stay, 0))
    np.testing.assert_array_equal(after, np.where((thread < stay) & (thread % 2 == 0), (stay + 1) // 2, 0))


@cuda.jit
def exit_while_others_wait(out):
    """Lane 0 waits first; the others leave only after it is already waiting."""
    if cuda.threadIdx.x == 0:
        cuda.syncthreads()
        out[0] = 1
    elif cuda.threadIdx.x > 40:
        out[cuda.threadIdx.x] = 2


def test_an_exit_after_the_wait_began_releases_it():
    out = np.zeros(64, np.int32)
    with emulate():
        exit_while_others_wait[1, 64](out)
    assert out[0] == 1
    assert (out[41:] == 2).all()


@cuda.jit
def one_is_late(turns, out):
    """One thread gives way many times, in a loop that polls, before it comes to the barrier."""
    buffer = cuda.shared.array(1, int32)
    thread = cuda.threadIdx.x
    if thread == 3:
        k = 0
        while k < turns[0]:
            k += turns[1]
        buffer[0] = k
    cuda.syncthreads()
    out[thread] = buffer[0]


@pytest.mark.parametrize("schedule", [None, 0])
@pytest.mark.parametrize("n", [5, 64, 100])
def test_a_barrier_waits_for_the_last_thread(n, schedule):
    out = np.zeros(n, np.int32)
    with emulate(schedule=schedule):
        one_is_late[2, n](np.array([50_000, 1]), out)
    assert (out == 50_000).all()


@cuda.jit
def two_places(out):
    """A barrier counts arrivals, not program points: both branches meet."""
    buffer = cuda.shared.array(64, int32)
    thread = cuda.threadIdx.x
    buffer[thread] = thread
    if thread < 32:
        cuda.syncthreads()
        out[thread] = buffer[63 - thread]
    else:
        buffer[thread] = 2 * thread
        cuda.syncthreads()
        out[thread] = buffer[63 - thread]


@pytest.mark.parametrize("schedule", [None, 5])
def test_barriers_in_two_branches_meet(schedule):
    out = np.zeros(64, np.int32)
    with emulate(schedule=schedule):
        two_places[1, 64](out)
    reversed_ = 63 - np.arange(64)
    np.testing.assert_array_equal(out, np.where(reversed_ < 32, reversed_, 2 * reversed_))


@cuda.jit
def mixed_forms(out):
    """A counting and a plain barrier at two places complete together."""
    thread = cuda.threadIdx.x
    if thread < 10:
        out[thread] = cuda.syncthreads_count(int32(thread < 3))
    else:
        cuda.syncthreads()
        out[thread] = -1


@cuda.jit(device=True)
def block_sum(buffer, value):
    thread = cuda.threadIdx.x
    buffer[thread] = value
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if thread < step:
            buffer[thread] += buffer[thread + step]
        cuda.syncthreads()
        step //= 2
    total = buffer[0]
    cuda.syncthreads()
    return total


@cuda.jit
def sum_rows(x, out):
    buffer = cuda.shared.array(256, int32)
    row = cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x
    first = block_sum(buffer, x[row, cuda.threadIdx.x])
    out[row] = block_sum(buffer, first)


def test_barriers_inside_a_device_function():
    x = np.random.default_rng(0).integers(-9, 9, (12, 256)).astype(np.int32)
    out = np.zeros(12, np.int32)
    with emulate():
        sum_rows[(4, 3), 256](x, out)
    np.testing.assert_array_equal(out, 256 * x.sum(1))


@cuda.jit
def values_across(x, out):
    """Many values live across a barrier: integers and floats have to survive the switch."""
    i = cuda.threadIdx.x
    a, b, c, d = x[i], x[i] * 2.0, x[i] + 3.5, x[i] * x[i]
    e, f, g = i + 1, i * 7, i ^ 5
    for _ in range(3):
        cuda.syncthreads()
        a, b, c, d = a + 1.0, b + a, c - b, d + c
        cuda.syncthreads()
        e, f, g = e + f, f ^ g, g + 1
    out[i] = a + 2 * b + 4 * c + 8 * d + e + f + g


def test_integers_and_floats_survive_the_switch():
    x = np.arange(70, dtype=np.float64) / 8
    out, i = np.zeros(70), np.arange(70)
    with emulate():
        values_across[1, 70](x, out)
    a, b, c, d, e, f, g = x, x * 2, x + 3.5, x * x, i + 1, i * 7, i ^ 5
    for _ in range(3):
        a, b, c, d = a + 1, b + a, c - b, d + c
        e, f, g = e + f, f ^ g, g + 1
    np.testing.assert_array_equal(out, a + 2 * b + 4 * c + 8 * d + e + f + g)


def test_counting_and_plain_barriers_meet():
    out = np.zeros(33, np.int32)
    with emulate():
        mixed_forms[1, 33](out)
    assert (out[:10] == 3).all()
    assert (out[10:] == -1).all()
