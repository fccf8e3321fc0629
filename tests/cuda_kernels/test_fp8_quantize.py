from functools import partial

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import fp8_quantize as kernels
from refkit.reference.fp8_quantize import fp8_dequantize, fp8_quantize, rounding_bound

pytestmark = pytest.mark.cpu

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
NAMES = {E4M3: "e4m3", E5M2: "e5m2"}
FORMATS = pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=["e4m3", "e5m2"])


def launchers(block):
    """Every launcher that takes this block, as a function of (x, q, scales)."""
    sizes = {"block_rows": block[0], "block_columns": block[1]}
    found = [partial(kernels.fp8_quantize_naive, **sizes), partial(kernels.fp8_quantize_tiles, **sizes, threads=32)]
    return [*found, partial(kernels.fp8_quantize_columns, group=block[0], threads_y=3)] if block[1] == 1 else found


CASES = [(launch, block) for block in [(1, 8), (8, 1), (8, 8), (128, 128)] for launch in launchers(block)]
EACH = pytest.mark.parametrize(("launch", "block"), CASES, ids=[f"{x.func.__name__}-{b[0]}x{b[1]}" for x, b in CASES])


def normal(*shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng((seed, *shape))
    return (rng.standard_normal(shape) * np.exp2(rng.uniform(-30, 30, (shape[0], 1)))).astype(dtype)


def run(put, launch, block, x, dtype, layout="contiguous", **keywords):
    blocks = -(-x.shape[0] // block[0]), -(-x.shape[1] // block[1])
    q, scales = put(np.full(x.shape, np.nan).astype(dtype)), put(np.full(blocks, np.nan, np.float32))
    launch(put(x, layout), q, scales, **keywords)
    return q.copy_to_host(), scales.copy_to_host()


@EACH
@FORMATS
@pytest.mark.parametrize("source", [np.float32, ml_dtypes.bfloat16])
def test_power_of_two_scales_give_exactly_the_reference(launch, block, dtype, source, put):
    x = normal(19, 21, dtype=source)
    q, scales = run(put, launch, block, x, dtype, "strided", power_of_two=True)
    expected = fp8_quantize(x.astype(np.float64), block, NAMES[dtype], power_of_two=True)
    np.testing.assert_array_equal(scales, expected.scales)
    np.testing.assert_array_equal(q.astype(np.float64), expected.q)


@EACH
@FORMATS
def test_float32_scales_round_each_element_to_nearest(launch, block, dtype, put):
    x = normal(19, 21)
    q, scales = run(put, launch, block, x, dtype, "transposed")
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(scales, fp8_quantize(wide, block, NAMES[dtype]).scales)
    error = np.abs(wide - fp8_dequantize(q.astype(np.float64), scales.astype(np.float64), block))
    assert np.all(error <= rounding_bound(wide, scales.astype(np.float64), block, NAMES[dtype]) * (1 + 2.0**-20))


@EACH
def test_the_next_power_of_two_is_taken_only_where_it_is_needed(launch, block, put):
    largest = np.float32(448)
    ends = [largest, np.nextafter(largest, np.float32(np.inf)), np.nextafter(largest, np.float32(0)), largest / 4]
    for end, expected in zip(ends, [1, 2, 1, 0.25]):
        scales = run(put, launch, block, np.full((1, 1), end, np.float32), E4M3, power_of_two=True)[1]
        assert scales.item() == expected


@EACH
@pytest.mark.parametrize("power_of_two", [False, True])
def test_blocks_of_zeros_and_subnormals_stay_finite(launch, block, power_of_two, put):
    x = np.zeros((block[0], 2 * block[1]), np.float32)
    x[0, -1] = 1e-45
    q, scales = run(put, launch, block, x, E4M3, power_of_two=power_of_two)
    np.testing.assert_array_equal(scales, np.float32(2.0**-126))
    np.testing.assert_array_equal(q.astype(np.float32), 0)


@EACH
@pytest.mark.parametrize("power_of_two", [False, True])
def test_nan_and_infinity_show_in_the_scale_of_their_block(launch, block, power_of_two, put):
    x = np.ones((3 * block[0], block[1]), np.float32)
    x[0, 0], x[block[0], 0] = np.nan, -np.inf
    q, scales = run(put, launch, block, x, E5M2, power_of_two=power_of_two)
    np.testing.assert_array_equal(scales[:2, 0], [np.nan, np.inf])
    assert np.isfinite(scales[2, 0])
    assert not np.isfinite(fp8_dequantize(q.astype(float), scales.astype(float), block)[: 2 * block[0]]).any()


def test_bytes_are_taken_where_the_format_is_named(put):
    x = normal(5, 20)
    expected, _ = run(put, kernels.fp8_quantize_naive, (1, 128), x, E5M2)
    raw = put(np.zeros(x.shape, np.uint8))
    kernels.fp8_quantize_naive(put(x), raw, put(np.zeros((5, 1), np.float32)), format="e5m2")
    np.testing.assert_array_equal(raw.copy_to_host(), expected.view(np.uint8))


@FORMATS
def test_dequantising_multiplies_by_the_scale_of_the_block(dtype, put):
    x = normal(19, 21)
    q, scales = fp8_quantize(x.astype(np.float64), (3, 8), NAMES[dtype], power_of_two=True)
    got = put(np.full(x.shape, np.nan, np.float32))
    stored = q.astype(dtype), scales.astype(np.float32)
    kernels.fp8_dequantize(put(stored[0], "strided"), put(stored[1], "transposed"), got, block_rows=3, block_columns=8)
    np.testing.assert_array_equal(got.copy_to_host(), fp8_dequantize(q, scales, (3, 8)))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty_arrays_launch_nothing(shape, put):
    for launch, block in CASES:
        q, scales = run(put, launch, block, np.zeros(shape, np.float32), E4M3)
        assert q.shape == shape
        assert scales.size == 0


def test_wrong_arguments_are_named(put):
    x, q = put(normal(4, 9)), put(np.zeros((4, 9), E4M3))
    with pytest.raises(ValueError, match=r"scales has shape \(4, 1\), expected \(4, 2\)"):
        kernels.fp8_quantize_naive(x, q, cuda.device_array((4, 1), np.float32), block_columns=8)
    with pytest.raises(ValueError, match="a block has 0 rows"):
        kernels.fp8_quantize_tiles(x, q, cuda.device_array((4, 1), np.float32), block_rows=0)
    with pytest.raises(ValueError, match="threads_y=33 must lie between 1 and 32"):
        kernels.fp8_quantize_columns(x, q, cuda.device_array((1, 9), np.float32), threads_y=33)
    with pytest.raises(TypeError, match="q has dtype float32"):
        kernels.fp8_quantize_naive(x, put(normal(4, 9)), cuda.device_array((4, 1), np.float32))
