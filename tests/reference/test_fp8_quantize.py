import ml_dtypes
import numpy as np
import pytest

from refkit.reference.fp8_quantize import (
    FP8_FORMATS,
    SMALLEST_SCALE,
    block_amax,
    fp8_dequantize,
    fp8_quantize,
    fp8_requantize_transposed,
    fp8_scaled,
    per_element,
    rounding_bound,
)

RNG = np.random.default_rng(31)
DTYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
FORMATS = pytest.mark.parametrize("format", DTYPES)
BLOCKS = pytest.mark.parametrize("block", [(1, 8), (8, 1), (8, 8), (3, 5)])
SCALES = pytest.mark.parametrize("power_of_two", [False, True])


def test_the_largest_magnitude_of_ragged_blocks():
    x = np.arange(-6.0, 6.0).reshape(3, 4)
    np.testing.assert_array_equal(block_amax(x, (2, 3)), [[6, 3], [4, 5]])
    np.testing.assert_array_equal(block_amax(x, (128, 128)), [[6]])
    assert block_amax(np.zeros((0, 4)), (2, 3)).shape == (0, 2)


def test_each_element_finds_the_scale_of_its_block():
    scales = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(per_element(scales, (2, 3), (3, 4)), [[1, 1, 1, 2], [1, 1, 1, 2], [3, 3, 3, 4]])


@FORMATS
@BLOCKS
@SCALES
def test_rounding_stays_within_half_a_unit_of_each_block(format, block, power_of_two):
    x = RNG.standard_normal((13, 21)) * np.exp2(RNG.uniform(-20, 20, (13, 1)))
    quantized = fp8_quantize(x, block, format, power_of_two)
    error = np.abs(x - fp8_dequantize(*quantized, block))
    bound = rounding_bound(x, quantized.scales, block, format)
    assert np.all(error <= bound * (1 + 1e-12))
    assert np.max(error / bound) > 0.9


@FORMATS
@BLOCKS
@SCALES
def test_q_are_numbers_of_the_format_and_the_largest_of_a_block_is_near_its_end(format, block, power_of_two):
    x = RNG.standard_normal((13, 21))
    q = fp8_quantize(x, block, format, power_of_two).q
    np.testing.assert_array_equal(q, q.astype(DTYPES[format]).astype(np.float64))
    largest, ends = FP8_FORMATS[format].max_finite, block_amax(q, block)
    if power_of_two:
        assert np.all((ends >= largest / 2 * 0.93) & (ends <= largest))
    else:
        np.testing.assert_array_equal(ends, largest)


@FORMATS
def test_a_power_of_two_scale_is_the_least_that_does_not_overflow(format):
    largest = FP8_FORMATS[format].max_finite
    x = np.array([[largest], [np.nextafter(largest, np.inf)], [np.nextafter(largest, 0)], [1.0], [largest / 4]])
    scales = fp8_scaled(x, (1, 1), format, power_of_two=True).scales[:, 0]
    np.testing.assert_array_equal(scales[[0, 1, 2, 4]], [1, 2, 1, 0.25])
    assert np.exp2(np.rint(np.log2(scales[3]))) == scales[3]
    assert 1.0 / scales[3] <= largest < 2.0 / scales[3]


@SCALES
def test_zeros_and_subnormals_keep_the_smallest_scale(power_of_two):
    x = np.array([[0.0, -0.0, 0.0], [1e-45, 0.0, 0.0]])
    q, scales = fp8_quantize(x, (1, 3), "e4m3", power_of_two)
    np.testing.assert_array_equal(scales, [[SMALLEST_SCALE], [SMALLEST_SCALE]])
    np.testing.assert_array_equal(q, 0)


def test_nan_and_infinity_spoil_their_block_and_no_other():
    x = np.ones((1, 6))
    x[0, 0], x[0, 3] = np.nan, np.inf
    q, scales = fp8_quantize(x, (1, 2))
    np.testing.assert_array_equal(scales, [[np.nan, np.inf, np.float32(1 / 448)]])
    assert not np.isfinite(fp8_dequantize(q, scales, (1, 2))[0, :4]).any()
    np.testing.assert_array_equal(q[0, 4:], 448)


def test_scaled_is_what_quantize_rounds():
    x = RNG.standard_normal((5, 20))
    scaled, quantized = fp8_scaled(x, (1, 8), "e5m2", True), fp8_quantize(x, (1, 8), "e5m2", True)
    np.testing.assert_array_equal(scaled.scales, quantized.scales)
    np.testing.assert_array_equal(quantized.q, scaled.q.astype(ml_dtypes.float8_e5m2).astype(float))


def test_requantisation_groups_tokens_of_the_transposed_operand():
    q, scales = fp8_quantize(RNG.standard_normal((19, 10)), (1, 8))
    q_t, scales_t = fp8_requantize_transposed(q, scales, 8)
    assert (q_t.shape, scales_t.shape) == ((10, 19), (10, 3))
    x = fp8_dequantize(q, scales, (1, 8))
    np.testing.assert_allclose(fp8_dequantize(q_t, scales_t, (1, 8)), x.T, rtol=1e-14)
    np.testing.assert_allclose(scales_t[4, 2], np.abs(x[16:19, 4]).max() / 448)


@FORMATS
def test_dequantised_values_agree_with_jax(jax, format):
    x = RNG.standard_normal((12, 16))
    q, scales = fp8_quantize(x, (1, 8), format)
    jnp = jax.numpy
    blocks = jnp.asarray(x).reshape(12, 2, 8) / jnp.asarray(scales)[:, :, None]
    stored = blocks.astype({"e4m3": jnp.float8_e4m3fn, "e5m2": jnp.float8_e5m2}[format]).astype(jnp.float64)
    independent = (stored * jnp.asarray(scales)[:, :, None]).reshape(12, 16)
    np.testing.assert_allclose(fp8_dequantize(q, scales, (1, 8)), independent, rtol=1e-10)
