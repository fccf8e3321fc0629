import numpy as np
import pytest
from numba import cuda

import refkit.cpu
from refkit.cuda_kernels.launch import transposed
from refkit.cuda_kernels.launch.views import strided_view
from refkit.cuda_kernels.wgmma_gemm.copies import copy_for, launch_rounded_copy, prepared
from refkit.cuda_kernels.wgmma_gemm.formats import FORMATS

pytestmark = pytest.mark.cpu

TF32 = FORMATS["tf32"]
POISON = np.uint32(0xDEADBEEF)
EVERY_CHECK = ("race", "memory", "uninitialized")


def numbers(*shape):
    """Bits of finite float32 of all magnitudes and both signs; every eighth lies half way between two tf32."""
    rng = np.random.default_rng(shape)
    bits = (rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(np.float32).view(np.uint32)
    bits.ravel()[::8] = (bits.ravel()[::8] & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
    return bits


def rounded(bits):
    """To the nearest of 10 bits of fraction, ties away from zero; a carry goes on into the exponent."""
    return (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)


def placed(bits, along_k=True, offset=0, gap=0):
    """bits (across, K) on the device, K or across contiguous, `offset` elements in, `gap` elements between lines."""
    lines = bits if along_k else bits.T
    wide = np.full((lines.shape[0], offset + lines.shape[1] + gap), POISON)
    wide[:, offset : offset + lines.shape[1]] = lines
    view = cuda.to_device(wide)[:, offset : offset + lines.shape[1]]
    return view if along_k else transposed(view)


@pytest.mark.parametrize("sanitize", [(), EVERY_CHECK])
@pytest.mark.parametrize(("offset", "gap"), [(0, 0), (4, 8)])
@pytest.mark.parametrize(("across", "along_k"), [(33, True), (34, True), (3, True), (36, False), (132, False)])
@pytest.mark.parametrize("K", [4, 36, 132])
def test_aligned_lines_go_by_128_bits(across, K, along_k, offset, gap, sanitize):
    x = numbers(across, K)
    with refkit.cpu.emulate(sanitize=sanitize):
        operand = placed(x, along_k, offset, gap)
        target = cuda.to_device(np.full((across, K), POISON))
        assert launch_rounded_copy(operand, target, 0)
        np.testing.assert_array_equal(target.copy_to_host(), rounded(x))


@pytest.mark.parametrize(
    ("across", "K", "along_k", "offset", "gap"),
    [
        pytest.param(33, 35, True, 0, 1, id="K no multiple of 4"),
        pytest.param(33, 36, False, 0, 3, id="across no multiple of 4"),
        pytest.param(36, 35, False, 0, 0, id="lines of the copy end within 16 bytes"),
        pytest.param(33, 36, True, 1, 3, id="offset"),
        pytest.param(36, 36, False, 2, 2, id="offset, across contiguous"),
        pytest.param(33, 36, True, 0, 1, id="lines not aligned"),
        pytest.param(36, 36, False, 0, 1, id="lines not aligned, across contiguous"),
        pytest.param(1, 1, True, 0, 0, id="one element"),
    ],
)
@pytest.mark.parametrize("sanitize", [(), EVERY_CHECK])
def test_others_go_element_by_element(across, K, along_k, offset, gap, sanitize):
    x = numbers(across, K)
    with refkit.cpu.emulate(sanitize=sanitize):
        operand = placed(x, along_k, offset, gap)
        room = copy_for(operand, TF32, 0)
        assert not launch_rounded_copy(operand, room[:, :K], 0)
        np.testing.assert_array_equal(prepared(operand, TF32, room, 0).copy_to_host(), rounded(x))


def test_strides_on_both_axes(put):
    x = numbers(36, 40).view(np.float32)
    operand = put(x, "strided").view(np.uint32)
    np.testing.assert_array_equal(prepared(operand, TF32, None, 0).copy_to_host(), rounded(x.view(np.uint32)))


@pytest.mark.parametrize("along_k", [True, False])
def test_one_line_stands_for_all(along_k):
    x = numbers(1, 36)
    lines = strided_view(cuda.to_device(x), (40, 36), (0, 4))
    operand, expected = (lines, np.tile(x, (40, 1))) if along_k else (transposed(lines), np.tile(x, (40, 1)).T)
    np.testing.assert_array_equal(prepared(operand, TF32, None, 0).copy_to_host(), rounded(expected))


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_nothing_but_the_copy_is_written(offset, along_k):
    x = numbers(36, 40)
    wide = cuda.to_device(np.full((38, 48), POISON))
    room = wide[1:37, offset : offset + 40]
    prepared(placed(x, along_k), TF32, room, 0)
    expected = np.full((38, 48), POISON)
    expected[1:37, offset : offset + 40] = rounded(x)
    np.testing.assert_array_equal(wide.copy_to_host(), expected)


@pytest.mark.parametrize("special", [0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x00001000, 0x7F7FFFFF])
def test_zeros_infinities_subnormals_and_the_largest(special):
    x = np.full((4, 4), special, np.uint32)
    np.testing.assert_array_equal(prepared(placed(x), TF32, None, 0).copy_to_host(), rounded(x))


@pytest.mark.parametrize(("name", "dtype"), [("bf16", np.uint16), ("f16", np.uint16), ("e4m3", np.uint8)])
@pytest.mark.parametrize(("across", "K"), [(33, 35), (40, 48)])
def test_the_bits_of_other_formats_stay(name, dtype, across, K, put):
    x = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, (across, K), dtype, endpoint=True)
    wide = np.zeros((2 * across, 2 * K), dtype)
    wide[::2, ::2] = x
    copied = prepared(cuda.to_device(wide)[::2, ::2], FORMATS[name], None, 0)
    assert copied.strides[0] % 16 == 0
    np.testing.assert_array_equal(copied.copy_to_host(), x)
