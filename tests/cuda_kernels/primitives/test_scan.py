import numpy as np
import pytest
from numba import cuda
from numba.core.errors import TypingError

import refkit.cpu
from refkit.cuda_kernels.primitives.scan import block_exclusive_sum, warp_inclusive_sum

pytestmark = pytest.mark.cpu

DTYPES = [np.float32, np.int32, np.int64]


@cuda.jit
def scan_kernel(x, before, total, inclusive):
    t = cuda.threadIdx.x
    inclusive[t] = warp_inclusive_sum(x[t])
    before[t], total[t] = block_exclusive_sum(x[t])
    again, _ = block_exclusive_sum(x[t])  # in the same shared memory
    before[t] += again


def scanned(x, schedule=None, sanitize=()):
    before, total, inclusive = (np.zeros_like(x) for _ in range(3))
    with refkit.cpu.emulate(schedule=schedule, sanitize=sanitize):
        scan_kernel[1, len(x)](x, before, total, inclusive)
    return before, total, inclusive


@pytest.mark.parametrize("schedule", [None, 0, 4])
@pytest.mark.parametrize("threads", [32, 96, 1024])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_before_each_thread(dtype, threads, schedule):
    x = np.random.default_rng(threads).integers(-50, 50, threads).astype(dtype)
    sanitize = ("race", "memory", "uninitialized", "barrier") if threads == 96 else ()
    before, total, inclusive = scanned(x, schedule, sanitize)
    np.testing.assert_array_equal(before, 2 * (np.cumsum(x) - x))
    np.testing.assert_array_equal(total, np.full(threads, x.sum()))
    np.testing.assert_array_equal(inclusive, np.cumsum(x.reshape(-1, 32), axis=1).ravel())


def test_what_follows_a_large_number_is_not_lost_from_what_stands_before_it():
    x = np.ones(64, np.float32)
    x[40] = 2.0**30
    before, _, _ = scanned(x)
    np.testing.assert_array_equal(before[:41], 2.0 * np.arange(41))


def test_int32_wraps_as_integers_do():
    x = np.full(32, 2**27, np.int32)
    _, total, _ = scanned(x)
    assert total[0] == np.int32(0)


def test_on_the_host_and_with_other_types_it_is_refused():
    with pytest.raises(TypeError, match="was called on the host"):
        block_exclusive_sum(1.0)

    @cuda.jit
    def kernel(x, total):
        _, total[cuda.threadIdx.x] = block_exclusive_sum(x[cuda.threadIdx.x])

    with pytest.raises(TypingError, match="takes float32, int32 or int64, got uint32"):
        kernel[1, 32](np.zeros(32, np.uint32), np.zeros(32, np.uint32))
