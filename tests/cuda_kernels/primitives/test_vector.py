import ml_dtypes
import numpy as np
import pytest
from numba import cuda
from numba.core.errors import TypingError

import refkit.cpu
from refkit.cuda_kernels.primitives.vector import load4, load8, store4, store8

pytestmark = pytest.mark.cpu

HALVES = [np.float16, ml_dtypes.bfloat16]


@cuda.jit
def reverse_fours_kernel(x, y):
    first = 4 * cuda.grid(1)
    a, b, c, d = load4(x, first)
    store4(y, first, (d, c, b, a))


@cuda.jit
def thirds_of_eights_kernel(x, y):
    first = 8 * cuda.grid(1)
    a, b, c, d, e, f, g, h = load8(x, first)
    store8(y, first, (h / 3, g / 3, f / 3, e / 3, d / 3, c / 3, b / 3, a / 3))


@pytest.mark.parametrize("sanitize", [(), ("race", "memory", "uninitialized")])
def test_four_floats_keep_their_order(sanitize):
    x, y = np.arange(32, dtype=np.float32), np.full(32, np.nan, np.float32)
    with refkit.cpu.emulate(sanitize=sanitize):
        reverse_fours_kernel[2, 4](x, y)
    np.testing.assert_array_equal(y, x.reshape(-1, 4)[:, ::-1].ravel())


@pytest.mark.parametrize("sanitize", [(), ("race", "memory", "uninitialized")])
@pytest.mark.parametrize("dtype", HALVES)
def test_eight_halves_are_float32_in_between_and_rounded_to_nearest(dtype, sanitize):
    x = (np.random.default_rng(1).standard_normal(64) * 100).astype(dtype)
    y = np.full(64, np.nan, dtype)
    with refkit.cpu.emulate(sanitize=sanitize):
        thirds_of_eights_kernel[2, 4](x, y)
    expected = (x.astype(np.float32) / np.float32(3)).astype(dtype).reshape(-1, 8)[:, ::-1].ravel()
    np.testing.assert_array_equal(y.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_bit_pattern_survives(dtype):
    @cuda.jit
    def copy_kernel(x, y):
        store8(y, 8 * cuda.grid(1), load8(x, 8 * cuda.grid(1)))

    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    y = np.zeros(2**16, dtype)
    copy_kernel[2**16 // 8 // 128, 128](x, y)
    numbers = ~np.isnan(x.astype(np.float32))
    np.testing.assert_array_equal(y.view(np.uint16)[numbers], x.view(np.uint16)[numbers])
    assert np.isnan(y[~numbers].astype(np.float32)).all()


@pytest.mark.parametrize(("first", "says"), [(4, "index 8 is outside"), (1, "not aligned")])
def test_a_piece_outside_the_array_or_off_its_grid_is_found(first, says):
    x = cuda.to_device(np.zeros(12, np.float32))[first:]
    y = cuda.device_array(12, np.float32)
    with refkit.cpu.emulate(sanitize=("memory",)), pytest.raises(refkit.cpu.SanitizerFault, match=says):
        reverse_fours_kernel[1, 3](x, y)


def test_arrays_of_other_formats_are_refused():
    with pytest.raises(TypingError, match="load8 takes an array of bfloat16 or float16, got array"):
        thirds_of_eights_kernel[1, 1](np.zeros(8, np.float32), np.zeros(8, np.float16))
    with pytest.raises(TypeError, match="on the host"):
        load8(np.zeros(8), 0)
    with pytest.raises(TypeError, match="on the host"):
        store8(np.zeros(8), 0, (0,) * 8)
