from functools import partial
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import fp8_gemm as kernels
from refkit.cuda_kernels import fp8_gemm_backward as backward_kernels
from refkit.numerics import Precision, error_ratio, evaluate
from refkit.reference.fp8_gemm import fp8_gemm, fp8_gemm_dw, fp8_gemm_dx, split_error
from refkit.reference.fp8_quantize import (
    fp8_dequantize,
    fp8_quantize,
    fp8_requantize_transposed,
    rounding_bound,
)

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
NAMES = {E4M3: "e4m3", E5M2: "e5m2"}
GROUP = 8
ROWS, SQUARE = (1, GROUP), (GROUP, GROUP)
TILES = {"block_m": 16, "block_n": 8, "block_k": 3, "thread_m": 4, "thread_n": 2}
FORWARD = [kernels.fp8_gemm_naive, partial(kernels.fp8_gemm_register_tiled, **TILES)]
DX = [backward_kernels.fp8_gemm_dx_naive, partial(backward_kernels.fp8_gemm_dx_register_tiled, **TILES)]
DW = [backward_kernels.fp8_gemm_dw_naive, partial(backward_kernels.fp8_gemm_dw_register_tiled, **TILES)]
REQUANTIZE = [
    backward_kernels.fp8_requantize_transposed_unfused,
    partial(backward_kernels.fp8_requantize_transposed_fused, threads_y=3),
]
SIZES = [(1, 1, 1), (17, 20, 33), (5, 40, 7)]  # (T, K, N)


class Stored(NamedTuple):
    """An operand as it is stored: fp8 numbers and float32 scales, and what it stands for, float64."""

    q: np.ndarray
    scales: np.ndarray
    value: np.ndarray

    @property
    def wide(self):
        return self.q.astype(np.float64), self.scales.astype(np.float64)


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=[getattr(x, "func", x).__name__ for x in launchers])


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def stored(x, block, dtype=E4M3, power_of_two=True):
    q, scales = fp8_quantize(x, block, NAMES[dtype], power_of_two)
    return Stored(q.astype(dtype), scales.astype(np.float32), fp8_dequantize(q, scales, block))


def put_all(put, *operands, layout="contiguous"):
    return [put(array, layout) for operand in operands for array in operand[:2]]


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


@each(FORWARD)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed"])
def test_forward(launch, sizes, layout, put):
    T, K, N = sizes
    x, w, y = stored(normal(T, K), ROWS), stored(normal(K, N), SQUARE), empty(T, N)
    launch(*put_all(put, x, w, layout=layout), y, group=GROUP)
    np.testing.assert_allclose(y.copy_to_host(), fp8_gemm(*x.wide, *w.wide, GROUP), rtol=1e-5, atol=1e-5)


@each(DX)
@pytest.mark.parametrize("sizes", SIZES)
def test_dx(launch, sizes, put):
    T, K, N = sizes
    dy, w, dx = stored(normal(T, N), ROWS, E5M2), stored(normal(K, N), SQUARE), empty(T, K)
    launch(*put_all(put, dy, w), dx, group=GROUP)
    np.testing.assert_allclose(dx.copy_to_host(), fp8_gemm_dx(*dy.wide, *w.wide, GROUP), rtol=1e-5, atol=1e-5)


@each(DW)
@pytest.mark.parametrize("sizes", SIZES)
def test_dw_adds_to_what_the_buffer_held(launch, sizes, put):
    T, K, N = sizes
    x, dy = stored(normal(K, T), ROWS), stored(normal(N, T), ROWS, E5M2)
    held = normal(K, N, seed=1).astype(np.float32)
    dw = put(held)
    launch(*put_all(put, x, dy), dw, group=GROUP)
    np.testing.assert_allclose(dw.copy_to_host(), held + fp8_gemm_dw(*x.wide, *dy.wide, GROUP), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("T", [1, 127, 300])
def test_shipped_sizes_with_token_counts_that_128_does_not_divide(T, put):
    x, w, dy = normal(T, 130), normal(130, 20), normal(T, 20, seed=1)
    xq, wq, dyq = stored(x, (1, 128)), stored(w, (128, 128)), stored(dy, (1, 128), E5M2)
    y, dx, dw = empty(T, 20), empty(T, 130), put(np.zeros((130, 20), np.float32))
    kernels.fp8_gemm_register_tiled(*put_all(put, xq, wq), y)
    backward_kernels.fp8_gemm_dx_register_tiled(*put_all(put, dyq, wq), dx)
    transposes = []
    for operand, dtype in ((xq, E4M3), (dyq, E5M2)):
        q_t, scales_t = empty(*operand.q.shape[::-1], dtype=dtype), empty(operand.q.shape[1], -(-T // 128))
        backward_kernels.fp8_requantize_transposed_fused(*put_all(put, operand), q_t, scales_t)
        transposes += [q_t, scales_t]
    backward_kernels.fp8_gemm_dw_register_tiled(*transposes, dw)
    wide = [array.copy_to_host().astype(np.float64) for array in transposes]
    for got, expected in (
        (y, xq.value @ wq.value),
        (dx, dyq.value @ wq.value.T),
        (dw, fp8_gemm_dw(*wide, 128)),
    ):
        np.testing.assert_allclose(got.copy_to_host(), expected, rtol=1e-4, atol=1e-4)
    # A second rounding to e4m3 and e5m2 costs 2^-4 and 2^-3 of each factor, and less in their sum.
    exact = xq.value.T @ dyq.value
    assert np.linalg.norm(dw.copy_to_host() - exact) < 0.2 * np.linalg.norm(exact)


@each(REQUANTIZE)
@pytest.mark.parametrize("shape", [(1, 1), (17, 33), (40, 7)])
@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=["e4m3", "e5m2"])
def test_requantisation(launch, shape, dtype, put):
    x = stored(normal(*shape) * np.exp2(normal(*shape, seed=1) * 4), ROWS, E5M2)
    q_t, scales_t = empty(*shape[::-1], dtype=dtype), empty(shape[1], -(-shape[0] // GROUP))
    launch(*put_all(put, x, layout="strided"), q_t, scales_t, group=GROUP, power_of_two=True)
    expected = fp8_requantize_transposed(*x.wide, GROUP, NAMES[dtype], power_of_two=True)
    np.testing.assert_array_equal(scales_t.copy_to_host(), expected.scales)
    np.testing.assert_array_equal(q_t.copy_to_host(), expected.q.astype(dtype))


def test_requantised_operands_are_what_wgrad_is_of(put):
    both = []
    for launch in REQUANTIZE:
        x = stored(normal(21, 12), ROWS, power_of_two=False)
        q_t, scales_t = empty(12, 21, dtype=E4M3), empty(12, 3)
        launch(*put_all(put, x), q_t, scales_t, group=GROUP)
        both.append((q_t.copy_to_host().view(np.uint8), scales_t.copy_to_host()))
    for unfused, fused in zip(*both, strict=True):
        np.testing.assert_array_equal(unfused, fused)


def test_forward_and_backward_are_adjoint(put):
    """At the dequantised operands, which power-of-two scales make exact in float32."""
    x, w, dy = stored(normal(17, 20), ROWS), stored(normal(20, 33), SQUARE), stored(normal(17, 33), ROWS, E5M2)
    x_t, dy_t = stored(x.value.T, ROWS), stored(dy.value.T, ROWS, E5M2)
    dx, dw = empty(17, 20), put(np.zeros((20, 33), np.float32))
    DX[1](*put_all(put, dy, w), dx, group=GROUP)
    DW[1](*put_all(put, x_t, dy_t), dw, group=GROUP)

    def forward(x, w):
        return x @ w

    inputs = {"x": x.value.astype(np.float32), "w": w.value.astype(np.float32)}
    upstream = dy.value.astype(np.float32)
    assert_adjoint(forward, lambda x, w, dy0: (dy0 @ w.T,), inputs, upstream, {"x": dx.copy_to_host()})
    inputs["x"], upstream = x_t.value.T.astype(np.float32), dy_t.value.T.astype(np.float32)
    assert_adjoint(forward, lambda x, w, dy0: (x.T @ dy0,), inputs, upstream, {"w": dw.copy_to_host()})


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("power_of_two", [False, True])
@each(FORWARD)
def test_kernel_error_and_quantisation_error_each_keep_to_their_bound(launch, power_of_two, dtype, put):
    a, b = normal(9, 300).astype(np.float32).astype(float), normal(300, 11).astype(np.float32).astype(float)
    x, w, y = stored(a, ROWS, dtype, power_of_two), stored(b, SQUARE, dtype, power_of_two), empty(9, 11)
    launch(*put_all(put, x, w), y, group=GROUP)
    got = y.copy_to_host()

    bounds = (
        rounding_bound(a, x.wide[1], ROWS, NAMES[dtype]),
        rounding_bound(b, w.wide[1], SQUARE, NAMES[dtype]),
    )
    error = split_error(a, b, x.value, w.value, *bounds, got.astype(np.float64))
    assert np.all(np.abs(error.quantisation) <= error.quantisation_bound)

    arguments = {"xq": x.q, "x_scales": x.scales, "wq": w.q, "w_scales": w.scales}
    (bound,) = evaluate(lambda **named: fp8_gemm(**named, group=GROUP), arguments, Precision(), [np.float32])
    assert bound.kind == "tracked"
    assert np.all(error_ratio(got, bound) <= 1)
    assert np.all(np.abs(error.kernel) <= bound.allowed)
    # What fp8 costs is four orders of magnitude above what the kernel adds.
    assert np.abs(error.quantisation).max() > 1e4 * np.abs(error.kernel).max()


@pytest.mark.parametrize("launch", [FORWARD[0], FORWARD[1]], ids=["naive", "register_tiled"])
def test_scales_at_the_ends_of_float32_do_not_overflow_on_the_way(launch, put):
    x = Stored(np.full((1, 8), 448).astype(E4M3), np.full((1, 1), 2.0**-120, np.float32), None)
    w = Stored(np.full((8, 1), 448).astype(E4M3), np.full((1, 1), 2.0**110, np.float32), None)
    y = empty(1, 1)
    launch(*put_all(put, x, w), y, group=GROUP)
    assert y.copy_to_host().item() == 8 * 448 * 448 * 2.0**-10


@pytest.mark.parametrize("sizes", [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_empty_sizes(sizes, put):
    T, K, N = sizes
    x, w, dy = stored(np.zeros((T, K)), ROWS), stored(np.zeros((K, N)), SQUARE), stored(np.zeros((T, N)), ROWS, E5M2)
    for launch in FORWARD:
        y = empty(T, N)
        launch(*put_all(put, x, w), y, group=GROUP)
        np.testing.assert_array_equal(y.copy_to_host(), 0)
    for launch in DX:
        dx = empty(T, K)
        launch(*put_all(put, dy, w), dx, group=GROUP)
        np.testing.assert_array_equal(dx.copy_to_host(), 0)
    for launch in REQUANTIZE:
        launch(*put_all(put, x), empty(K, T, dtype=E4M3), empty(K, -(-T // GROUP)), group=GROUP)


def test_bytes_are_taken_where_their_format_is_named(put):
    x, w, y = stored(normal(5, 9), ROWS), stored(normal(9, 4), SQUARE), empty(5, 4)
    named = put(x.q.view(np.uint8)), put(x.scales), put(w.q.view(np.uint8)), put(w.scales)
    kernels.fp8_gemm_naive(*named, y, group=GROUP, x_format="e4m3", w_format="e4m3")
    np.testing.assert_allclose(y.copy_to_host(), x.value @ w.value, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="its format must be named"):
        kernels.fp8_gemm_naive(*named, y, group=GROUP)


def test_wrong_arguments_are_named(put):
    x, w, y = stored(normal(5, 9), ROWS), stored(normal(9, 4), SQUARE), empty(5, 4)
    with pytest.raises(ValueError, match=r"x_scales has shape \(5, 2\), expected \(5, 1\)"):
        kernels.fp8_gemm_naive(*put_all(put, x, w), y)
    with pytest.raises(ValueError, match="fp8_gemm_naive: wq"):
        kernels.fp8_gemm_naive(*put_all(put, x, stored(normal(8, 4), SQUARE)), y, group=GROUP)
    with pytest.raises(ValueError, match="at least 1"):
        kernels.fp8_gemm_naive(*put_all(put, x, w), y, group=0)
    with pytest.raises(TypeError, match="dw has dtype bfloat16"):
        DW[0](
            *put_all(put, stored(normal(4, 8), ROWS), stored(normal(3, 8), ROWS)), empty(4, 3, dtype=ml_dtypes.bfloat16)
        )
