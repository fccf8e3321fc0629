"""The intrinsics as a kernel author meets them: results, operand checks, the architecture that they need."""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

import refkit.cpu
from refkit.cpu import frontend
from refkit.cuda_kernels import ptx

F32, U32 = types.float32[::1], types.uint32[::1]


@cuda.jit
def conversions(x, words, halves):
    i = cuda.threadIdx.x
    words[0, i] = ptx.cvt_rna_tf32(x[i])
    words[1, i] = ptx.cvt_rn_bf16x2(x[i], x[i + 1])
    words[2, i] = ptx.cvt_rn_f16x2(x[i], x[i + 1])
    halves[0, i] = ptx.cvt_rn_e4m3x2(x[i], x[i + 1])
    halves[1, i] = ptx.cvt_rn_e5m2x2(x[i], x[i + 1])
    words[3, i] = ptx.cvt_f16x2_e4m3x2(halves[0, i])
    words[4, i] = ptx.cvt_f16x2_e5m2x2(halves[1, i])


@pytest.mark.cpu
def test_conversions_put_the_first_number_into_the_low_half():
    x = (np.random.default_rng(1).standard_normal(65) * 20).astype(np.float32)
    words, halves = np.zeros((5, 64), np.uint32), np.zeros((2, 64), np.uint16)
    with refkit.cpu.emulate():
        conversions[1, 64](x, words, halves)
    assert np.array_equal(words[0] & 0x1FFF, np.zeros(64))
    assert np.abs(words[0].view(np.float32) / x[:64] - 1).max() <= 2.0**-11
    for row, kind in ((1, ml_dtypes.bfloat16), (2, np.float16)):
        pairs = words[row].view(np.uint16).reshape(64, 2).view(kind).astype(np.float32)
        assert np.array_equal(pairs, np.stack([x[:64], x[1:]], 1).astype(kind).astype(np.float32))
    for row, kind in ((0, ml_dtypes.float8_e4m3fn), (1, ml_dtypes.float8_e5m2)):
        pairs = halves[row].view(np.uint8).reshape(64, 2).view(kind).astype(np.float32)
        assert np.array_equal(pairs, np.stack([x[:64], x[1:]], 1).astype(kind).astype(np.float32))
        assert np.array_equal(words[3 + row].view(np.float16).reshape(64, 2).astype(np.float32), pairs)


@cuda.jit
def moves(x, y, bits):
    tile = cuda.shared.array((4, 8), types.float32)
    i = cuda.threadIdx.x
    ptx.st_shared_v4_f32(tile, (i, 4), ptx.ld_global_v4_f32(x, 4 * i))
    ptx.st_global_v4_f32(y, 4 * i, ptx.ld_shared_v4_f32(tile, (i, 4)))
    words = ptx.ld_global_v4_u32(bits, 4 * i)
    swapped = (ptx.prmt(words[0], words[1], 0x5410), ptx.lop3(words[0], words[1], words[2], 0x96), words[3], words[2])
    ptx.st_global_v4_u32(bits, 4 * i, swapped)


@pytest.mark.cpu
@pytest.mark.parametrize("sanitize", [(), ("race", "memory", "uninitialized")])
def test_four_words_at_once(sanitize):
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    bits = np.random.default_rng(2).integers(0, 2**32, 16).astype(np.uint32)
    a, b, c, d = bits.reshape(4, 4).copy().T
    with refkit.cpu.emulate(sanitize=sanitize):
        moves[1, 4](x, y, bits)
    assert np.array_equal(x, y)
    wanted = np.stack([(a & 0xFFFF) | (b << 16), a ^ b ^ c, d, c], 1)
    assert np.array_equal(bits.reshape(4, 4), wanted)


@cuda.jit
def more_conversions(x, words, halves):
    i = cuda.threadIdx.x
    words[0, i] = ptx.cvt_rz_tf32(x[i])
    words[1, i] = ptx.cvt_rn_tf32(x[i])
    words[2, i] = ptx.cvt_rz_bf16x2(x[i], x[i + 1])
    words[3, i] = ptx.cvt_rz_f16x2(x[i], x[i + 1])
    words[4, i] = ptx.cvt_rn_relu_bf16x2(x[i], x[i + 1])
    words[5, i] = ptx.cvt_rn_relu_f16x2(x[i], x[i + 1])
    pair = ptx.cvt_rn_f16x2(x[i], x[i + 1])
    halves[0, i] = ptx.cvt_rn_e4m3x2_f16x2(pair)
    halves[1, i] = ptx.cvt_rn_e5m2x2_f16x2(pair)


def _toward_zero(x, kind):
    rounded = x.astype(kind)
    away = np.abs(rounded.astype(np.float32)) > np.abs(x)
    return np.where(away, np.nextafter(rounded, kind(0)), rounded).astype(np.float32)


@pytest.mark.cpu
def test_conversions_with_another_rounding():
    x = (np.random.default_rng(4).standard_normal(65) * 20).astype(np.float32)
    words, halves = np.zeros((6, 64), np.uint32), np.zeros((2, 64), np.uint16)
    with refkit.cpu.emulate():
        more_conversions[1, 64](x, words, halves)
    bits = x[:64].view(np.uint32)
    assert np.array_equal(words[0], bits & 0xFFFFE000)
    assert np.array_equal(words[1], (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000)
    both = np.stack([x[:64], x[1:]], 1)
    for row, kind in ((2, ml_dtypes.bfloat16), (3, np.float16)):
        pairs = words[row].view(np.uint16).reshape(64, 2).view(kind).astype(np.float32)
        assert np.array_equal(pairs, _toward_zero(both, kind))
        pairs = words[row + 2].view(np.uint16).reshape(64, 2).view(kind).astype(np.float32)
        assert np.array_equal(pairs, np.maximum(both, 0).astype(kind).astype(np.float32))
    for row, kind in ((0, ml_dtypes.float8_e4m3fn), (1, ml_dtypes.float8_e5m2)):
        pairs = halves[row].view(np.uint8).reshape(64, 2).view(kind).astype(np.float32)
        assert np.array_equal(pairs, both.astype(np.float16).astype(kind).astype(np.float32))


@cuda.jit
def cached_moves(x, y, bits):
    i = 4 * cuda.threadIdx.x
    ptx.st_global_wt_v4_f32(y, i, ptx.ld_global_nc_v4_f32(x, i))
    ptx.st_global_cs_v4_u32(bits, i, ptx.ld_global_no_allocate_v4_u32(bits, (i + 4) % 16))


@pytest.mark.cpu
def test_cache_operators_change_no_value():
    x, y, bits = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), np.arange(16).astype(np.uint32)
    with refkit.cpu.emulate():
        cached_moves[1, 1](x, y, bits)
        assert np.array_equal(y[:4], x[:4])
        assert not y[4:].any()
        assert bits[:8].tolist() == [4, 5, 6, 7, 4, 5, 6, 7]


@cuda.jit
def misaligned(x, y):
    ptx.st_global_v4_f32(y, 0, ptx.ld_global_v4_f32(x, 1))


@cuda.jit
def outside(x, y):
    ptx.st_global_v4_f32(y, 0, ptx.ld_global_v4_f32(x, 8))


@pytest.mark.cpu
@pytest.mark.parametrize(("kernel", "says"), [(misaligned, "not aligned"), (outside, "index 8 is outside axis 0")])
def test_a_load_at_fault_is_reported(kernel, says):
    with refkit.cpu.emulate(sanitize=("memory",)), pytest.raises(refkit.cpu.SanitizerFault, match=says):
        kernel[1, 1](np.zeros(8, np.float32), np.zeros(8, np.float32))


def too_few(x):
    x[0] = ptx.mma_m16n8k8_tf32((1, 2, 3), (1, 2), (0.0, 0.0, 0.0, 0.0))[0]


def floats_for_bits(x):
    x[0] = ptx.mma_m16n8k8_tf32((x[0], x[1], x[2], x[3]), (1, 2), (0.0, 0.0, 0.0, 0.0))[0]


def size_not_constant(x):
    ptx.cp_async_ca(ptx.shared_address(x, 0), ptx.global_address(x, 0), int(x[0]))


def size_not_allowed(x):
    ptx.cp_async_ca(ptx.shared_address(x, 0), ptx.global_address(x, 0), 12)


def too_many_indices(x):
    ptx.cp_async_cg(ptx.shared_address(x, (0, 0)), ptx.global_address(x, 0))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (too_few, "mma_m16n8k8_tf32: A must be 4 x uint32, got"),
        (floats_for_bits, "mma_m16n8k8_tf32: A must be 4 x uint32, got UniTuple"),
        (size_not_constant, "size must be a constant"),
        (size_not_allowed, r"size must be one of \[4, 8, 16\], got 12"),
        (too_many_indices, "an array of 1 dimensions takes 1 indices, got 2"),
    ],
)
def test_operands_that_do_not_fit_are_named(kernel, says):
    from numba.core.errors import TypingError

    with pytest.raises(TypingError, match=says):
        frontend.kernel_ir(kernel, (F32,))


def needs_ampere(x):
    x[0] = ptx.cvt_rna_tf32(x[0])


def needs_ada(x):
    x[0] = ptx.mma_m16n8k32_e4m3((1, 2, 3, 4), (1, 2), (0.0, 0.0, 0.0, 0.0))[0]


def needs_hopper(x):
    ptx.stmatrix_x1(ptx.shared_address(x, 0), 1)


@pytest.mark.parametrize(
    ("kernel", "capability", "needed"),
    [(needs_ampere, (7, 5), "8.0"), (needs_ada, (8, 6), "8.9"), (needs_hopper, (8, 9), "9.0")],
)
def test_an_architecture_without_the_instruction_is_told_what_is_needed(monkeypatch, kernel, capability, needed):
    frontend.kernel_ir(kernel, (F32,))
    monkeypatch.setattr(frontend, "COMPUTE_CAPABILITY", capability)
    says = rf"needs compute capability {needed} or higher; this kernel is compiled for {capability[0]}.{capability[1]}"
    with pytest.raises(ptx.UnsupportedArchitecture, match=says):
        frontend.kernel_ir(kernel, (F32,))


def test_every_public_name_is_documented():
    for name in ptx.__all__:
        assert getattr(ptx, name).__doc__, name
