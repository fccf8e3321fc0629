import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32

from refkit.cuda_kernels.fp8_formats import FORMATS, as_bytes, format_of

pytestmark = pytest.mark.cpu

DTYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("name", DTYPES)
def test_every_byte_decodes_to_its_number_and_encodes_back(name):
    decode, encode = FORMATS[name].decode, FORMATS[name].encode

    @cuda.jit
    def kernel(bits, values, again):
        i = cuda.threadIdx.x
        values[i] = decode(bits[i])
        again[i] = encode(float32(values[i]))

    bits = np.arange(256, dtype=np.uint8)
    values, again = cuda.device_array(256, np.float32), cuda.device_array(256, np.uint8)
    kernel[1, 256](cuda.to_device(bits), values, again)
    expected = bits.view(DTYPES[name]).astype(np.float32)
    np.testing.assert_array_equal(values.copy_to_host(), expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(again.copy_to_host()[finite], bits[finite])
    assert FORMATS[name].largest == expected[finite].max()


def test_the_format_follows_from_the_dtype_or_is_named():
    numbers, raw = cuda.device_array(4, DTYPES["e5m2"]), cuda.device_array(4, np.uint8)
    assert format_of("q", numbers, None) is FORMATS["e5m2"]
    assert format_of("q", numbers, "e5m2") is FORMATS["e5m2"]
    assert format_of("q", raw, "e4m3") is FORMATS["e4m3"]
    with pytest.raises(ValueError, match=r"q holds bytes \(uint8\): its format must be named, one of e4m3, e5m2"):
        format_of("q", raw, None)
    with pytest.raises(ValueError, match="q has dtype float8_e5m2, but its format is said to be 'e4m3'"):
        format_of("q", numbers, "e4m3")
    with pytest.raises(ValueError, match="the format of q is 'e3m4', expected one of e4m3, e5m2"):
        format_of("q", raw, "e3m4")


def test_bytes_are_a_view_of_the_same_memory():
    numbers = cuda.to_device(np.array([1.0, -2.0]).astype(DTYPES["e4m3"]))
    view = as_bytes(numbers)
    assert view.dtype == np.uint8
    assert view.device_ctypes_pointer.value == numbers.device_ctypes_pointer.value
    assert as_bytes(view) is view
