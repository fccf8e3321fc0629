import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.primitives import convert
from refkit.numerics.formats import FORMATS, round_to

pytestmark = pytest.mark.cpu

FORMAT_FUNCTIONS = {
    "bfloat16": (convert.float32_to_bfloat16_bits, convert.bfloat16_bits_to_float32, ml_dtypes.bfloat16, np.uint16),
    "float16": (convert.float32_to_float16_bits, convert.float16_bits_to_float32, np.float16, np.uint16),
    "e4m3": (convert.float32_to_e4m3_bits, convert.e4m3_bits_to_float32, ml_dtypes.float8_e4m3fn, np.uint8),
    "e5m2": (convert.float32_to_e5m2_bits, convert.e5m2_bits_to_float32, ml_dtypes.float8_e5m2, np.uint8),
}
EACH = pytest.mark.parametrize("name", FORMAT_FUNCTIONS)


def applied(function, x, dtype):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = function(x[i])

    y = np.zeros(len(x), dtype)
    kernel[-(-len(x) // 128), 128](x, y)
    return y


@EACH
def test_every_number_of_the_format_becomes_the_equal_float32(name):
    _, to_float32, dtype, bits = FORMAT_FUNCTIONS[name]
    patterns = np.arange(2 ** (8 * np.dtype(bits).itemsize), dtype=bits)
    np.testing.assert_array_equal(applied(to_float32, patterns, np.float32), patterns.view(dtype).astype(np.float32))


@EACH
def test_rounding_is_to_nearest_even(name):
    from_float32, _, dtype, bits = FORMAT_FUNCTIONS[name]
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(2000) * np.exp2(rng.uniform(-18, 8, 2000))).astype(np.float32)
    numbers = np.sort(np.arange(2 ** (8 * np.dtype(bits).itemsize - 1), dtype=bits).view(dtype).astype(np.float32))
    numbers = numbers[np.isfinite(numbers) & (numbers < 400)]
    halfway = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
    x = np.concatenate([np.clip(x, -448, 448), halfway[rng.permutation(len(halfway))[:500]], [0.0, -0.0]])
    np.testing.assert_array_equal(applied(from_float32, x.astype(np.float32), bits), x.astype(dtype).view(bits))


def test_beyond_the_largest_number():
    x = np.array([1e6, -1e6, np.inf], np.float32)
    assert applied(convert.float32_to_float16_bits, x, np.uint16).view(np.float16).tolist() == [np.inf, -np.inf, np.inf]
    e4m3 = applied(convert.float32_to_e4m3_bits, x, np.uint8).view(ml_dtypes.float8_e4m3fn)
    assert e4m3.astype(float).tolist() == [448, -448, 448]
    e5m2 = applied(convert.float32_to_e5m2_bits, x, np.uint8).view(ml_dtypes.float8_e5m2)
    assert e5m2.astype(float).tolist() == [57344, -57344, 57344]


@EACH
def test_nan_stays_nan(name):
    from_float32, _, dtype, bits = FORMAT_FUNCTIONS[name]
    assert np.isnan(applied(from_float32, np.array([np.nan], np.float32), bits).view(dtype).astype(float)).all()


def test_tf32_has_10_fraction_bits_and_ties_go_away_from_zero():
    x = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
    np.testing.assert_array_equal(applied(convert.float32_to_tf32, x, np.float32), round_to(x, FORMATS["tf32"]))
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11], np.float32)
    expected = np.array([1 + 2.0**-10, 1 + 2.0**-9, -1 - 2.0**-10], np.float32)
    np.testing.assert_array_equal(applied(convert.float32_to_tf32, ties, np.float32), expected)


def test_bits_there_and_back():
    x = np.array([1.0, -0.0, np.inf, 1e-45, -3.75], np.float32)
    np.testing.assert_array_equal(applied(convert.float32_to_bits, x, np.uint32), x.view(np.uint32))
    back = applied(convert.bits_to_float32, x.view(np.uint32), np.float32)
    np.testing.assert_array_equal(back.view(np.uint32), x.view(np.uint32))
