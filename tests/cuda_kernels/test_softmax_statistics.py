import numpy as np
import pytest
from numba import cuda, float32

from refkit.cuda_kernels.softmax_statistics import NO_MAXIMUM, block_joined, extended

pytestmark = pytest.mark.cpu

INF, NAN = np.inf, np.nan


@cuda.jit
def statistics_kernel(x, m_out, s_out):
    m, s = NO_MAXIMUM, float32(0)
    for i in range(cuda.threadIdx.x, x.shape[0], cuda.blockDim.x):
        m, s = extended(m, s, x[i])
    m, s = block_joined(m, s)
    m_out[cuda.threadIdx.x], s_out[cuda.threadIdx.x] = m, s


def statistics(row, threads):
    """(m, s) of each thread of a block."""
    m, s = cuda.device_array(threads, np.float32), cuda.device_array(threads, np.float32)
    statistics_kernel[1, threads](cuda.to_device(np.asarray(row, np.float32)), m, s)
    return m.copy_to_host(), s.copy_to_host()


@pytest.mark.parametrize("threads", [32, 96])
@pytest.mark.parametrize("count", [1, 31, 500])
def test_every_thread_has_the_same_bits_of_maximum_and_sum(threads, count):
    row = np.random.default_rng(count).standard_normal(count).astype(np.float32) * 10
    m, s = statistics(row, threads)
    assert set(m.tolist()) == {float(row.max())}
    assert len(set(s.tolist())) == 1
    assert s[0] == pytest.approx(np.exp(row.astype(float) - row.max()).sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("row", "m", "s"),
    [
        ([], -INF, 0),
        ([-INF] * 3, -INF, 3),
        ([-INF, 2, -INF], 2, 1),
        ([INF, 0, INF], INF, 2),
        ([NAN, 1, -INF], 1, NAN),
        ([-INF, NAN], -INF, NAN),
        ([0] * 40, 0, 40),
    ],
)
@pytest.mark.parametrize("threads", [32, 64])
def test_infinite_maxima_are_counted_and_nan_shows_in_the_sum_alone(row, m, s, threads):
    got_m, got_s = statistics(row, threads)
    np.testing.assert_array_equal(got_m, np.full(threads, m, np.float32))
    np.testing.assert_array_equal(got_s, np.full(threads, s, np.float32))
