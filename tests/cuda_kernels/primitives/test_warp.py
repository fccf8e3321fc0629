import numpy as np
import pytest
from numba import cuda, float32

import refkit.cpu
from refkit.cuda_kernels.primitives.moments import join_moments
from refkit.cuda_kernels.primitives.warp import WARP, warp_argmax, warp_max, warp_moments, warp_sum

pytestmark = pytest.mark.cpu

SCHEDULES = [None, 0, 7]
DTYPES = [np.float32, np.float64, np.int32, np.int64]


@cuda.jit
def sums_and_maxima_kernel(x, sums, maxima):
    t = cuda.grid(1)
    sums[t] = warp_sum(x[t])
    maxima[t] = warp_max(x[t])


@cuda.jit
def argmax_kernel(x, index, values, indices):
    t = cuda.threadIdx.x
    values[t], indices[t] = warp_argmax(x[t], index[t])


@cuda.jit
def moments_kernel(x, present, out):
    t = cuda.threadIdx.x
    count = float32(1) if present[t] else float32(0)
    value = x[t] if present[t] else float32(0)
    out[0, t], out[1, t], out[2, t] = warp_moments(count, value, float32(0))


@cuda.jit
def join_kernel(a, b, out):
    out[0], out[1], out[2] = join_moments(a[0], a[1], a[2], b[0], b[1], b[2])


def same_in_every_lane(out):
    return (out == out[..., :1]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_and_maximum_of_each_warp_in_every_lane(dtype, schedule):
    x = np.random.default_rng(1).integers(-1000, 1000, (3, WARP)).astype(dtype)
    sums, maxima = np.zeros_like(x), np.zeros_like(x)
    with refkit.cpu.emulate(schedule=schedule):
        sums_and_maxima_kernel[1, 3 * WARP](x.ravel(), sums.ravel(), maxima.ravel())
    np.testing.assert_array_equal(sums, np.broadcast_to(x.sum(axis=1, keepdims=True), x.shape))
    np.testing.assert_array_equal(maxima, np.broadcast_to(x.max(axis=1, keepdims=True), x.shape))


def test_lanes_of_a_warp_that_lies_across_rows_of_threads_belong_together():
    x = np.arange(64, dtype=np.float32)
    sums, maxima = np.zeros(64, np.float32), np.zeros(64, np.float32)

    @cuda.jit
    def kernel(x, sums, maxima):
        t = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        sums[t], maxima[t] = warp_sum(x[t]), warp_max(x[t])

    kernel[1, (16, 4)](x, sums, maxima)
    np.testing.assert_array_equal(sums, np.repeat(x.reshape(2, 32).sum(axis=1), 32))
    np.testing.assert_array_equal(maxima, np.repeat([31, 63], 32))


@pytest.mark.parametrize("lane", [0, 13, 31])
def test_nan_wins_the_maximum(lane):
    x = np.arange(WARP, dtype=np.float32)
    x[lane] = np.nan
    sums, maxima = np.zeros_like(x), np.zeros_like(x)
    sums_and_maxima_kernel[1, WARP](x, sums, maxima)
    assert np.isnan(maxima).all()


ARGMAX_CASES = {
    "distinct": np.random.default_rng(2).permutation(WARP).astype(float),
    "ties": np.r_[np.zeros(9), np.ones(5), np.zeros(9), np.ones(9)],
    "all equal": np.full(WARP, -3.0),
    "all -inf": np.full(WARP, -np.inf),
    "one NaN": np.r_[np.full(20, np.inf), np.nan, np.zeros(11)],
    "two NaN": np.r_[np.arange(7.0), np.nan, np.zeros(10), np.nan, np.zeros(13)],
    "zeros of both signs": np.where(np.arange(WARP) % 3 == 0, -0.0, 0.0),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("x", ARGMAX_CASES.values(), ids=ARGMAX_CASES.keys())
def test_argmax_is_that_of_numpy(x, index_dtype, schedule):
    x = x.astype(np.float32)
    values, indices = np.zeros(WARP, np.float32), np.full(WARP, -1, index_dtype)
    with refkit.cpu.emulate(schedule=schedule):
        argmax_kernel[1, WARP](x, np.arange(WARP, dtype=index_dtype), values, indices)
    np.testing.assert_array_equal(indices, np.argmax(x))
    np.testing.assert_array_equal(values, np.full(WARP, x.max()))


def test_among_equals_the_lowest_index_wins_not_the_lowest_lane():
    values, indices = np.zeros(WARP, np.float32), np.zeros(WARP, np.int64)
    argmax_kernel[1, WARP](np.ones(WARP, np.float32), np.arange(WARP)[::-1] + 5, values, indices)
    np.testing.assert_array_equal(indices, 5)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("members", [0, 1, 2, 17, 32])
def test_moments_of_the_lanes_that_have_a_number(members, schedule):
    rng = np.random.default_rng(members)
    x = rng.standard_normal(WARP).astype(np.float32)
    present = np.zeros(WARP, np.bool_)
    present[rng.permutation(WARP)[:members]] = True
    out = np.zeros((3, WARP), np.float32)
    with refkit.cpu.emulate(schedule=schedule):
        moments_kernel[1, WARP](x, present, out)
    chosen = x[present].astype(np.float64)
    mean = chosen.mean() if members else 0.0
    assert same_in_every_lane(out)
    np.testing.assert_allclose(out[:, 0], [members, mean, ((chosen - mean) ** 2).sum()], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 3), (4, 0), (1, 1), (5, 200)])
def test_joined_moments_are_those_of_the_union(first, second):
    rng = np.random.default_rng(first + second)
    sets = rng.standard_normal(first) + 3, rng.standard_normal(second) * 2

    def moments(numbers):
        mean = numbers.mean() if len(numbers) else 0.0
        return np.array([len(numbers), mean, ((numbers - mean) ** 2).sum()])

    out = np.zeros(3, np.float32)
    join_kernel[1, 1](*(moments(s).astype(np.float32) for s in sets), out)
    np.testing.assert_allclose(out, moments(np.concatenate(sets)), rtol=1e-6, atol=1e-6)
