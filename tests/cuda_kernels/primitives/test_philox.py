import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.primitives.philox import philox4x32, philox4x32_at, uniform01

pytestmark = pytest.mark.cpu

# Known answers of Random123 (D. E. Shaw Research), philox4x32 with 10 rounds: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return np.array([int(word, 16) for word in text.split()], np.uint32)


@cuda.jit
def philox_kernel(counter, key, out):
    out[0], out[1], out[2], out[3] = philox4x32(counter[0], counter[1], counter[2], counter[3], key[0], key[1])


@cuda.jit
def philox_at_kernel(place, out):
    out[0], out[1], out[2], out[3] = philox4x32_at(place[0], place[1], place[2])


@cuda.jit
def uniform_kernel(bits, out):
    out[cuda.threadIdx.x] = uniform01(bits[cuda.threadIdx.x])


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    out = np.zeros(4, np.uint32)
    philox_kernel[1, 1](words(counter), words(key), out)
    np.testing.assert_array_equal(out, words(expected))


def test_64_bit_places_are_low_word_first():
    out, place = np.zeros(4, np.uint32), np.zeros(3, np.uint64)
    counter, key, expected = (words(text) for text in KNOWN[2])
    place[:2], place[2:] = counter.view(np.uint64), key.view(np.uint64)
    philox_at_kernel[1, 1](place, out)
    np.testing.assert_array_equal(out, expected)


def test_uniform_numbers_start_at_0_and_stay_below_1():
    bits = np.array([0, 0xFF, 0x100, 0x80000000, 0xFFFFFFFF], np.uint32)
    out = np.zeros(5, np.float32)
    uniform_kernel[1, 5](bits, out)
    np.testing.assert_array_equal(out, np.array([0, 0, 2.0**-24, 0.5, 1 - 2.0**-24], np.float32))
