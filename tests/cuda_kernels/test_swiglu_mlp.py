from functools import partial

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import swiglu_mlp as kernels
from refkit.cuda_kernels import swiglu_mlp_backward as backward_kernels
from refkit.reference.swiglu_mlp import swiglu_mlp, swiglu_mlp_grad_de, swiglu_mlp_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

TILES = {"block_m": 16, "block_n": 8, "block_k": 4, "thread_m": 4, "thread_n": 2}
FORWARD = partial(kernels.swiglu_mlp, **TILES)
GRAD_DE = {
    "unfused": partial(backward_kernels.swiglu_mlp_grad_de_unfused, **TILES),
    "fused": partial(backward_kernels.swiglu_mlp_grad_de_fused, **TILES),
}
BACKWARD = {
    "unfused": partial(backward_kernels.swiglu_mlp_backward_unfused, **TILES),
    "fused": partial(backward_kernels.swiglu_mlp_backward_fused, **TILES),
}
SIZES = [(1, 1, 1), (17, 9, 21), (5, 40, 3)]  # (M, K, I)


def each(launchers):
    return pytest.mark.parametrize("launch", launchers.values(), ids=launchers.keys())


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def layer(M, K, inner):
    """x, w, w_down, dy."""
    return normal(M, K), normal(K, 2 * inner), normal(inner, K, seed=1), normal(M, K, seed=2)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def wide(*arrays):
    return [array.astype(np.float64) for array in arrays]


def run_forward(put, x, w, w_down, launch=FORWARD):
    (M, K), inner = x.shape, w_down.shape[0]
    saved = empty(M, 2 * inner), empty(M, inner), empty(M, K)
    launch(put(x), put(w), put(w_down), *saved)
    return saved


@pytest.mark.parametrize("sizes", SIZES)
def test_forward_and_what_it_saves(sizes, put):
    x, w, w_down, _ = layer(*sizes)
    for got, expected in zip(run_forward(put, x, w, w_down), swiglu_mlp(*wide(x, w, w_down)), strict=True):
        np.testing.assert_allclose(got.copy_to_host(), expected, rtol=1e-5, atol=1e-5)


def test_shipped_tile_sizes(put):
    x, w, w_down, _ = layer(130, 5, 70)
    y = run_forward(put, x, w, w_down, kernels.swiglu_mlp)[2]
    np.testing.assert_allclose(y.copy_to_host(), swiglu_mlp(*wide(x, w, w_down)).y, rtol=1e-4, atol=1e-4)


@each(GRAD_DE)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_grad_de_takes_strided_operands(launch, sizes, dtype, put):
    M, K, inner = sizes
    dy, w_down, de = normal(M, K, dtype=dtype), normal(inner, K, dtype=dtype), normal(M, 2 * inner, dtype=dtype, seed=1)
    grad_de = empty(M, 2 * inner, dtype=dtype)
    launch(put(dy, "strided"), put(w_down, "transposed"), put(de, "strided"), grad_de)
    expected = swiglu_mlp_grad_de(*wide(dy, w_down, de))
    # dout of the unfused form is rounded to bfloat16 on its way through memory.
    tolerance = 1e-5 if dtype is np.float32 else 2.0**-7
    np.testing.assert_allclose(*wide(grad_de.copy_to_host(), expected), rtol=tolerance, atol=1e-5)


def test_fused_rounds_once_where_unfused_rounds_twice(put):
    dy, w_down, de = (normal(*shape, dtype=ml_dtypes.bfloat16) for shape in ((33, 20), (24, 20), (33, 48)))
    expected = swiglu_mlp_grad_de(*wide(dy, w_down, de))
    off = {}
    for name, launch in GRAD_DE.items():
        grad_de = empty(33, 48, dtype=ml_dtypes.bfloat16)
        launch(put(dy), put(w_down), put(de), grad_de)
        off[name] = np.abs(wide(grad_de.copy_to_host())[0] / expected - 1).max()
    assert off["fused"] <= 2.0**-8 * 1.01 < off["unfused"]


@each(GRAD_DE)
def test_grad_de_may_replace_de(launch, put):
    dy, w_down, de = normal(17, 9), normal(21, 9), normal(17, 42)
    apart, together = empty(17, 42), put(de)
    launch(put(dy), put(w_down), put(de), apart)
    launch(put(dy), put(w_down), together, together)
    np.testing.assert_array_equal(together.copy_to_host(), apart.copy_to_host())


@each(BACKWARD)
@pytest.mark.parametrize("sizes", SIZES)
def test_forward_and_backward_are_adjoint(launch, sizes, put):
    M, K, inner = sizes
    x, w, w_down, dy = layer(*sizes)
    de, out, _ = run_forward(put, x, w, w_down)
    dx, dw, dw_down = empty(M, K), put(np.zeros((K, 2 * inner), np.float32)), put(np.zeros((inner, K), np.float32))
    launch(put(dy), put(x), put(w), put(w_down), de, out, empty(M, 2 * inner), dx, dw, dw_down)
    assert_adjoint(
        lambda x, w, w_down: swiglu_mlp(x, w, w_down).y,
        lambda x, w, w_down, dy0: swiglu_mlp_vjp(dy0, x, w, w_down),
        {"x": x, "w": w, "w_down": w_down},
        dy,
        {"x": dx.copy_to_host(), "w": dw.copy_to_host(), "w_down": dw_down.copy_to_host()},
    )


@each(BACKWARD)
def test_parameter_gradients_are_added_to_what_the_buffers_held(launch, put):
    x, w, w_down, dy = layer(6, 5, 4)
    de, out, _ = run_forward(put, x, w, w_down)
    held, held_down = normal(5, 8, seed=3), normal(4, 5, seed=3)
    dw, dw_down = put(held), put(held_down)
    launch(put(dy), put(x), put(w), put(w_down), de, out, empty(6, 8), empty(6, 5), dw, dw_down)
    expected = swiglu_mlp_vjp(*wide(dy, x, w, w_down))
    np.testing.assert_allclose(dw.copy_to_host(), held + expected.dw, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(dw_down.copy_to_host(), held_down + expected.dw_down, rtol=1e-5, atol=1e-4)


@each(BACKWARD)
@pytest.mark.parametrize("sizes", [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_empty_sizes_give_zeros(launch, sizes, put):
    M, K, inner = sizes
    x, w, w_down, dy = layer(*sizes)
    de, out, y = run_forward(put, x, w, w_down)
    grad_de, dx, held = empty(M, 2 * inner), empty(M, K), normal(K, 2 * inner)
    dw = put(held)
    launch(put(dy), put(x), put(w), put(w_down), de, out, grad_de, dx, dw, put(np.zeros((inner, K), np.float32)))
    for array in (de, out, y, grad_de, dx):
        np.testing.assert_array_equal(array.copy_to_host(), 0)
    np.testing.assert_array_equal(dw.copy_to_host(), held)


def test_wrong_arguments_are_named(put):
    x, w, w_down, dy = (put(array) for array in layer(4, 3, 2))
    with pytest.raises(ValueError, match="swiglu_mlp: w_down"):
        FORWARD(x, w, put(normal(3, 3)), empty(4, 4), empty(4, 2), empty(4, 3))
    with pytest.raises(TypeError, match="dw has dtype bfloat16"):
        BACKWARD["fused"](
            dy, x, w, w_down, empty(4, 4), empty(4, 2), empty(4, 4), empty(4, 3),
            empty(3, 4, dtype=ml_dtypes.bfloat16), empty(2, 3),
        )  # fmt: skip
    with pytest.raises(ValueError, match="block_m=10 must be a positive multiple of thread_m=4"):
        kernels.swiglu_mlp(x, w, w_down, empty(4, 4), empty(4, 2), empty(4, 3), block_m=10, thread_m=4)
