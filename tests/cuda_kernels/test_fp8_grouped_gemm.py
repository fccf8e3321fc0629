from functools import partial

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import fp8_grouped_gemm as kernels
from refkit.reference.fp8_grouped_gemm import fp8_grouped_gemm, fp8_grouped_gemm_dw, fp8_grouped_gemm_dx
from refkit.reference.fp8_quantize import fp8_dequantize, fp8_quantize

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
GROUP = 8
ROWS, SQUARE = (1, GROUP), (GROUP, GROUP)
TILES = {"block_m": 8, "block_n": 16, "block_k": 3, "thread_m": 2, "thread_n": 4}
FORWARD = partial(kernels.fp8_grouped_gemm, group=GROUP, **TILES)
DX = partial(kernels.fp8_grouped_gemm_dx, group=GROUP, **TILES)
DW = partial(kernels.fp8_grouped_gemm_dw, group=GROUP, **TILES)
T, K, N = 37, 19, 21
OFFSETS = [
    [37],  # one expert takes all
    [3, 3, 20, 37],  # one takes nothing, tiles straddle none
    [0, 0, 0],  # nobody takes any
    [1, 9, 17, 18, 33],  # four rows left over
    [20, 5, 90],  # out of order, and beyond the end
]
EACH = pytest.mark.parametrize("offsets", OFFSETS, ids=[",".join(map(str, offsets)) for offsets in OFFSETS])


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def stored(x, block, dtype=E4M3):
    q, scales = fp8_quantize(x, block, "e4m3" if dtype is E4M3 else "e5m2", power_of_two=True)
    return q.astype(dtype), scales.astype(np.float32)


def weights(experts):
    each = [stored(normal(K, N, seed=expert), SQUARE) for expert in range(experts)]
    return np.stack([q for q, _ in each]), np.stack([scales for _, scales in each])


def wide(*arrays):
    return [array.astype(np.float64) for array in arrays]


def empty(*shape):
    return cuda.to_device(np.full(shape, np.nan, np.float32))


@EACH
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_each_token_meets_its_expert(offsets, dtype, put):
    x, w, ends, y = stored(normal(T, K), ROWS), weights(len(offsets)), np.array(offsets, dtype), empty(T, N)
    FORWARD(*map(put, (*x, *w, ends)), y)
    expected = fp8_grouped_gemm(*wide(*x, *w), ends, GROUP)
    np.testing.assert_allclose(y.copy_to_host(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(y.copy_to_host()[min(T, max(offsets)) :], 0)


@EACH
def test_dx(offsets, put):
    dy, w, ends, dx = stored(normal(T, N), ROWS, E5M2), weights(len(offsets)), np.array(offsets), empty(T, K)
    DX(*map(put, (*dy, *w, ends)), dx)
    expected = fp8_grouped_gemm_dx(*wide(*dy, *w), ends, GROUP)
    np.testing.assert_allclose(dx.copy_to_host(), expected, rtol=1e-5, atol=1e-5)


@EACH
def test_dw_adds_to_what_the_buffer_held(offsets, put):
    x, dy, ends = stored(normal(K, T), ROWS), stored(normal(N, T), ROWS, E5M2), np.array(offsets)
    held = normal(len(offsets), K, N, seed=9).astype(np.float32)
    dw = put(held)
    DW(*map(put, (*x, *dy, ends)), dw)
    expected = held + fp8_grouped_gemm_dw(*wide(*x, *dy), ends, GROUP)
    np.testing.assert_allclose(dw.copy_to_host(), expected, rtol=1e-5, atol=1e-5)


def test_strided_operands(put):
    x, w, ends, y = stored(normal(T, K), ROWS), weights(3), np.array([5, 9, 30]), empty(T, N)
    FORWARD(*(put(array, "strided") for array in (*x, *w, ends)), y)
    np.testing.assert_allclose(y.copy_to_host(), fp8_grouped_gemm(*wide(*x, *w), ends, GROUP), rtol=1e-5, atol=1e-5)


def test_shipped_sizes(put):
    x, w = stored(normal(200, 140), (1, 128)), [stored(normal(140, 9, seed=e), (128, 128)) for e in range(2)]
    w, ends, y = [np.stack(arrays) for arrays in zip(*w)], np.array([71, 200]), empty(200, 9)
    kernels.fp8_grouped_gemm(*map(put, (*x, *w, ends)), y)
    np.testing.assert_allclose(y.copy_to_host(), fp8_grouped_gemm(*wide(*x, *w), ends, 128), rtol=1e-4, atol=1e-4)


def test_forward_and_backward_are_adjoint(put):
    """At the dequantised operands, which power-of-two scales make exact in float32."""
    ends = np.array([11, 11, 30])
    x_t, w, dy_t = stored(normal(K, T), ROWS), weights(3), stored(normal(N, T), ROWS, E5M2)
    x, dy = fp8_dequantize(*wide(*x_t), ROWS).T, fp8_dequantize(*wide(*dy_t), ROWS).T
    dy_rows = stored(dy, ROWS, E5M2)
    dy_again = fp8_dequantize(*wide(*dy_rows), ROWS)
    weight = np.stack([fp8_dequantize(q, scales, SQUARE) for q, scales in zip(*wide(*w))])
    dx, dw = empty(T, K), put(np.zeros((3, K, N), np.float32))
    DX(*map(put, (*dy_rows, *w, ends)), dx)
    DW(*map(put, (*x_t, *dy_t, ends)), dw)
    pieces = ((0, 0, 11), (2, 11, 30))

    def forward(x, w):
        y = np.zeros((T, N))
        for expert, first, end in pieces:
            y[first:end] = x[first:end] @ w[expert]
        return y

    def vjp_x(x, w, dy0):
        gradient = np.zeros_like(x)
        for expert, first, end in pieces:
            gradient[first:end] = dy0[first:end] @ w[expert].T
        return (gradient,)

    def vjp_w(x, w, dy0):
        gradient = np.zeros_like(w)
        for expert, first, end in pieces:
            gradient[expert] = x[first:end].T @ dy0[first:end]
        return (gradient,)

    inputs = {"x": x.astype(np.float32), "w": weight.astype(np.float32)}
    assert_adjoint(forward, vjp_x, inputs, dy_again.astype(np.float32), {"x": dx.copy_to_host()})
    assert_adjoint(forward, vjp_w, inputs, dy.astype(np.float32), {"w": dw.copy_to_host()})


def test_no_tokens_and_no_experts(put):
    w = weights(2)
    FORWARD(*map(put, (*stored(np.zeros((0, K)), ROWS), *w, np.array([0, 0]))), empty(0, N))
    y = empty(T, N)
    nobody = np.zeros((0, K, N), E4M3), np.zeros((0, 3, 3), np.float32)
    FORWARD(*map(put, (*stored(normal(T, K), ROWS), *nobody, np.zeros(0, np.int64))), y)
    np.testing.assert_array_equal(y.copy_to_host(), 0)


def test_wrong_arguments_are_named(put):
    x, w, ends = stored(normal(T, K), ROWS), weights(2), np.array([5, 9])
    with pytest.raises(ValueError, match=r"w_scales has shape \(2, 3, 3\), expected \(2, 1, groups_n\)"):
        kernels.fp8_grouped_gemm(*map(put, (*stored(normal(T, K), (1, 128)), *w, ends)), empty(T, N))
    with pytest.raises(ValueError, match=r"x_scales has shape \(37, 3\), expected \(37, 1\)"):
        kernels.fp8_grouped_gemm(*map(put, (*x, *w, ends)), empty(T, N))
    with pytest.raises(ValueError, match="offsets"):
        FORWARD(*map(put, (*x, *w, np.array([5]))), empty(T, N))
    with pytest.raises(TypeError, match="offsets has dtype float32"):
        FORWARD(*map(put, (*x, *w, ends.astype(np.float32))), empty(T, N))
