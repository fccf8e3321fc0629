import numpy as np
import pytest
from numba import cuda, float32

import refkit.cpu
from refkit.cuda_kernels.primitives.block import block_argmax, block_max, block_moments, block_sum

pytestmark = pytest.mark.cpu

THREADS = [32, 96, 1024]
SCHEDULES = [None, 3]
SANITIZERS = ("race", "memory", "uninitialized", "barrier")


@cuda.jit
def reductions_kernel(x, out, indices):
    t = cuda.threadIdx.x
    out[0, t] = block_sum(x[t])
    out[1, t] = block_max(x[t])
    out[2, t], indices[t] = block_argmax(x[t], t)
    out[3, t] = block_sum(x[t] * x[t])
    out[4, t], out[5, t], out[6, t] = block_moments(float32(1), x[t], float32(0))


def reduced(x, schedule=None, sanitize=()):
    out, indices = np.full((7, len(x)), np.nan, np.float32), np.full(len(x), -1)
    with refkit.cpu.emulate(schedule=schedule, sanitize=sanitize):
        reductions_kernel[1, len(x)](x, out, indices)
    assert np.array_equal(out, np.broadcast_to(out[:, :1], out.shape), equal_nan=True), "threads got different bits"
    assert (indices == indices[0]).all()
    return out[:, 0], indices[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("threads", THREADS)
def test_every_thread_gets_the_same_bits(threads, schedule):
    x = np.random.default_rng(threads).standard_normal(threads).astype(np.float32)
    wide = x.astype(np.float64)
    out, index = reduced(x, schedule, SANITIZERS if threads < 1024 else ())
    squares = ((wide - wide.mean()) ** 2).sum()
    expected = [wide.sum(), wide.max(), wide.max(), (wide * wide).sum(), threads, wide.mean(), squares]
    np.testing.assert_allclose(out, expected, rtol=3e-6, atol=3e-5)
    assert index == wide.argmax()


@cuda.jit
def twice_in_a_row_kernel(x, out, indices):
    t = cuda.threadIdx.x
    out[0, t], out[1, t] = block_sum(x[t]), block_sum(-x[t])
    out[2, t], out[3, t] = block_max(x[t]), block_max(-x[t])
    _, indices[0, t] = block_argmax(x[t], t)
    _, indices[1, t] = block_argmax(-x[t], t)
    _, out[4, t], _ = block_moments(float32(1), x[t], float32(0))
    _, out[5, t], _ = block_moments(float32(1), -x[t], float32(0))


@pytest.mark.parametrize("schedule", [None, 0, 1, 2])
def test_a_second_call_does_not_disturb_the_first(schedule):
    x = np.random.default_rng(9).integers(-40, 40, 128).astype(np.float32)
    out, indices = np.full((6, 128), np.nan, np.float32), np.full((2, 128), -1)
    with refkit.cpu.emulate(schedule=schedule, sanitize=SANITIZERS):
        twice_in_a_row_kernel[1, 128](x, out, indices)
    expected = [x.sum(), -x.sum(), x.max(), -x.min(), x.mean(), -x.mean()]
    np.testing.assert_allclose(out, np.repeat(np.array(expected)[:, None], 128, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(indices, np.repeat([[x.argmax()], [x.argmin()]], 128, axis=1))


def test_the_order_of_threads_does_not_change_the_bits():
    x = np.random.default_rng(5).standard_normal(160).astype(np.float32)
    runs = [reduced(x, schedule)[0].tobytes() for schedule in (None, 0, 1, 2)]
    assert len(set(runs)) == 1


@pytest.mark.parametrize("place", [0, 40, 95])
def test_nan_wins_wherever_it_stands(place):
    x = np.arange(96, dtype=np.float32)
    x[place] = np.nan
    out, index = reduced(x)
    assert np.isnan(out).tolist() == [True, True, True, True, False, True, True]
    assert index == place


def test_among_equal_maxima_of_different_warps_the_lowest_index_wins():
    x = np.zeros(128, np.float32)
    x[[35, 70, 100]] = 2
    assert reduced(x)[1] == 35
    assert reduced(np.full(128, -np.inf, np.float32))[1] == 0


def test_integers_add_up_exactly():
    x = np.random.default_rng(6).integers(-500, 500, 1024).astype(np.float32)
    out, _ = reduced(x)
    assert out[0] == x.sum()
    assert out[1] == x.max()
