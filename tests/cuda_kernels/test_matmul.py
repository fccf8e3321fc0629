from functools import partial

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

import refkit.cpu
from refkit.cuda_kernels import matmul as kernels
from refkit.cuda_kernels.launch import transposed
from refkit.reference.gelu import gelu_tanh
from refkit.reference.matmul import matmul, matmul_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

TILES = {"block_m": 16, "block_n": 8, "block_k": 4, "thread_m": 4, "thread_n": 2}
VECTOR_TILES = {"block_m": 16, "block_n": 16, "block_k": 8, "thread_m": 4, "thread_n": 8}
WARP_TILES = {
    "block_m": 64,
    "block_n": 32,
    "block_k": 8,
    "warp_m": 32,
    "warp_n": 16,
    "thread_m": 4,
    "thread_n": 1,
}
RUNGS = [
    kernels.matmul_naive,
    kernels.matmul_coalesced,
    partial(kernels.matmul_tiled, tile=4),
    partial(kernels.matmul_register_tiled_1d, block_m=16, block_n=8, block_k=4, thread_m=4),
    partial(kernels.matmul_register_tiled, **TILES),
    partial(kernels.matmul_vectorized, **VECTOR_TILES),
    partial(kernels.matmul_warp_tiled, **WARP_TILES),
    partial(kernels.matmul_double_buffered, **WARP_TILES),
]
SHAPES = [(1, 1, 1), (7, 7, 7), (13, 29, 37), (16, 8, 32)]  # (M, K, N); the last is whole tiles and whole vectors
EMPTY = [(3, 0, 5), (0, 4, 5), (3, 4, 0)]


def name(launch):
    return getattr(launch, "func", launch).__name__


each_rung = pytest.mark.parametrize("launch", RUNGS, ids=name)


def integers(*shape, dtype=np.float32, seed=0):
    """Integers so small that every format holds them and float32 holds every sum of their products."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype)


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def wide(array):
    return np.asarray(array, np.float64)


@each_rung
@pytest.mark.parametrize("case", ["NN", "NT", "TN", "TT"])
def test_every_transpose_is_exact_on_small_integers(launch, case, put):
    for M, K, N in SHAPES:
        a, b, c = integers(M, K), integers(K, N, seed=1), empty(M, N)
        device_a = transposed(put(a.T)) if case[0] == "T" else put(a)
        device_b = transposed(put(b.T)) if case[1] == "T" else put(b)
        launch(device_a, device_b, c)
        np.testing.assert_array_equal(c.copy_to_host(), a @ b, err_msg=f"{(M, K, N)}")


@each_rung
def test_strided_operands_are_exact_on_small_integers(launch, put):
    for M, K, N in SHAPES:
        a, b, c = integers(M, K), integers(K, N, seed=1), empty(M, N)
        launch(put(a, "strided"), put(b, "strided"), c)
        np.testing.assert_array_equal(c.copy_to_host(), a @ b, err_msg=f"{(M, K, N)}")


@pytest.mark.parametrize("launch", [RUNGS[1], RUNGS[5], RUNGS[7]], ids=name)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_16_bit_formats_are_rounded_once(launch, dtype, put):
    M, K, N = 13, 29, 37
    a, b, c = integers(M, K, dtype=dtype), integers(K, N, dtype=dtype, seed=1), empty(M, N, dtype=dtype)
    launch(put(a), put(b, "transposed"), c)
    np.testing.assert_array_equal(c.copy_to_host(), (wide(a) @ wide(b)).astype(dtype))


@each_rung
@pytest.mark.parametrize("shape", EMPTY)
def test_empty_operands(launch, shape, put):
    M, K, N = shape
    c = empty(M, N)
    launch(put(np.zeros((M, K), np.float32)), put(np.zeros((K, N), np.float32)), c)
    np.testing.assert_array_equal(c.copy_to_host(), np.zeros((M, N)))


@each_rung
def test_real_values_agree_with_float64(launch, put):
    a, b, c = normal(33, 70), normal(70, 18), empty(33, 18)
    launch(put(a), put(b), c)
    # 70 products of standard normals: float32 is off by a few 1e-6, bfloat16 accumulation would be by 1e-2.
    np.testing.assert_allclose(c.copy_to_host(), wide(a) @ wide(b), atol=2e-5)


def test_threads_in_any_order_find_whole_buffers():
    launch = partial(kernels.matmul_double_buffered, **WARP_TILES)
    a, b = integers(17, 9), integers(9, 21, seed=1)
    with refkit.cpu.emulate(sanitize=("race", "memory", "uninitialized", "barrier"), schedule=5):
        c = cuda.device_array((17, 21), np.float32)
        launch(cuda.to_device(a), cuda.to_device(b), c)
        np.testing.assert_array_equal(c.copy_to_host(), a @ b)


@pytest.mark.parametrize(
    "launch",
    [
        kernels.matmul_tiled,
        kernels.matmul_register_tiled_1d,
        kernels.matmul_register_tiled,
        kernels.matmul_vectorized,
        kernels.matmul_warp_tiled,
        kernels.matmul_double_buffered,
    ],
    ids=name,
)
def test_shipped_tile_sizes(launch, put):
    a, b, c = integers(130, 40), integers(40, 132, seed=1), empty(130, 132)
    launch(put(a), put(b), c)
    np.testing.assert_array_equal(c.copy_to_host(), a @ b)


@pytest.mark.parametrize("offset", [0, 1, 4])
def test_vectors_keep_off_addresses_that_are_no_multiples_of_16(offset, put):
    """On the CPU an unaligned vector load faults; the kernel has to see that it would be one."""
    M, K, N = 16, 16, 32
    a, b, c = integers(M, K + offset), integers(K + offset, N + offset, seed=1), empty(M, N)
    launch = partial(kernels.matmul_vectorized, **VECTOR_TILES)
    launch(put(a)[:, offset:], put(b)[offset:, offset:], c)
    np.testing.assert_array_equal(c.copy_to_host(), a[:, offset:] @ b[offset:, offset:])


@pytest.mark.parametrize("launch", RUNGS[5:], ids=name)
@pytest.mark.parametrize("transposes", [(False, False), (True, True)])
def test_vectors_end_with_the_operand_where_rows_are_padded_with_nan(launch, transposes, put):
    """Rows begin at multiples of 16 bytes but have 13 or 21 elements: their last 16 bytes reach beyond the operand."""

    def padded(array, transpose):
        array = array.T if transpose else array
        rows = np.full((array.shape[0], 24), np.nan, np.float32)
        rows[:, : array.shape[1]] = array
        view = put(rows)[:, : array.shape[1]]
        return transposed(view) if transpose else view

    M, K, N = (21, 13, 21)
    a, b, c = integers(M, K), integers(K, N, seed=1), empty(M, N)
    launch(padded(a, transposes[0]), padded(b, transposes[1]), c)
    np.testing.assert_array_equal(c.copy_to_host(), a @ b)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_accumulate_adds_to_what_c_held(dtype, put):
    a, b, held = integers(13, 29), integers(29, 37, seed=1), integers(13, 37, seed=2, dtype=dtype)
    c = put(held)
    kernels.matmul_accumulate(put(a), put(b), c, **WARP_TILES)
    np.testing.assert_array_equal(c.copy_to_host(), (wide(held) + wide(a) @ wide(b)).astype(dtype))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
@pytest.mark.parametrize("activation", ["identity", "gelu_tanh"])
def test_fused(with_bias, with_residual, activation, put):
    M, K, N = 18, 11, 35
    a, b, bias, residual = normal(M, K), normal(K, N), normal(N), normal(M, N, seed=1)
    c = empty(M, N)
    kernels.matmul_fused(
        put(a),
        put(b),
        put(bias) if with_bias else None,
        put(residual) if with_residual else None,
        c,
        activation,
        **WARP_TILES,
    )
    h = wide(a) @ wide(b) + (bias if with_bias else 0)
    h = (gelu_tanh(h) if activation == "gelu_tanh" else h) + (residual if with_residual else 0)
    np.testing.assert_allclose(c.copy_to_host(), h, atol=1e-5)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
def test_batched(layout, put):
    a, b, c = integers(5, 17, 9), integers(5, 9, 21, seed=1), empty(5, 17, 21)
    kernels.matmul_batched(put(a, layout), put(b, layout), c, **TILES)
    np.testing.assert_array_equal(c.copy_to_host(), a @ b)


def test_an_operand_with_a_batch_stride_of_0_is_repeated(put):
    a, b, c = integers(3, 17, 9), integers(9, 21, seed=1), empty(3, 17, 21)
    device_b = put(b)
    repeated = type(device_b)((3, 9, 21), (0, *device_b.strides), device_b.dtype, gpu_data=device_b.gpu_data)
    kernels.matmul_batched(put(a), repeated, c, **TILES)
    np.testing.assert_array_equal(c.copy_to_host(), a @ b)


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)])
def test_empty_batches(shape, put):
    B, M, K, N = shape
    c = empty(B, M, N)
    kernels.matmul_batched(put(np.zeros((B, M, K), np.float32)), put(np.zeros((B, K, N), np.float32)), c, **TILES)
    np.testing.assert_array_equal(c.copy_to_host(), np.zeros((B, M, N)))


def test_gradients_are_the_adjoint_of_the_product(put):
    a, b, dc = normal(13, 29), normal(29, 10), normal(13, 10)
    da, db = empty(13, 29), empty(29, 10)
    kernels.matmul_da(put(dc), put(b), da, **WARP_TILES)
    kernels.matmul_db(put(a), put(dc), db, **WARP_TILES)
    assert_adjoint(
        matmul,
        lambda a, b, dy0: matmul_vjp(dy0, a, b),
        {"a": a, "b": b},
        dc,
        {"a": da.copy_to_host(), "b": db.copy_to_host()},
        output_dtypes=[np.float32, np.float32],
    )


def test_wrong_arguments_are_named(put):
    a, b, c = put(integers(4, 3)), put(integers(3, 2)), empty(4, 2)
    with pytest.raises(ValueError, match=r"matmul_naive: b has shape \(5, 2\), expected \(3, N\)"):
        kernels.matmul_naive(a, put(integers(5, 2)), c)
    with pytest.raises(TypeError, match="matmul_tiled: a has dtype float64"):
        kernels.matmul_tiled(put(integers(4, 3, dtype=np.float64)), b, c)
    with pytest.raises(ValueError, match=r"tile=33 must lie between 1 and 32"):
        kernels.matmul_tiled(a, b, c, tile=33)
    with pytest.raises(ValueError, match="block_m=10 must be a positive multiple of thread_m=4"):
        kernels.matmul_register_tiled(a, b, c, block_m=10, thread_m=4)
    with pytest.raises(ValueError, match="warp_n=8 must be a positive multiple of 8 thread_n=32"):
        kernels.matmul_warp_tiled(a, b, c, warp_n=8, thread_n=4)
    with pytest.raises(ValueError, match="blocks of 4096 threads, more than 1024"):
        kernels.matmul_register_tiled(a, b, c, block_m=64, block_n=64, thread_m=1, thread_n=1)
    with pytest.raises(ValueError, match="activation='relu', expected one of identity, gelu_tanh"):
        kernels.matmul_fused(a, b, None, None, c, "relu")
    square = put(integers(4, 4))
    with pytest.raises(ValueError, match="matmul_naive"):
        kernels.matmul_naive(square, put(integers(4, 4)), square)
