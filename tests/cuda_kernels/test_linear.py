from functools import partial

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import gemm
from refkit.cuda_kernels import linear as kernels
from refkit.cuda_kernels.launch import transposed
from refkit.reference.linear import linear, linear_db, linear_dw, linear_dx, linear_gelu, linear_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

TILES = {"block_m": 16, "block_n": 8, "block_k": 4, "thread_m": 4, "thread_n": 2}
WARP_TILES = {
    "block_m": 64,
    "block_n": 32,
    "block_k": 8,
    "warp_m": 32,
    "warp_n": 16,
    "thread_m": 4,
    "thread_n": 1,
}
FORWARD = [
    kernels.linear_naive,
    partial(kernels.linear_tiled, tile=8),
    partial(kernels.linear_register_tiled, **TILES),
]
DX = [
    kernels.linear_dx_naive,
    partial(kernels.linear_dx_tiled, tile=8),
    partial(kernels.linear_dx_register_tiled, **TILES),
]
DW = [
    kernels.linear_dw_naive,
    partial(kernels.linear_dw_tiled, tile=8),
    partial(kernels.linear_dw_register_tiled, **TILES),
    partial(kernels.linear_dw_split_k_atomic, split_k=3, **TILES),
    partial(kernels.linear_dw_split_k_workspace, split_k=3, **TILES),
]
DB = [kernels.linear_db_naive, partial(kernels.linear_db, block_rows=3)]
SHAPES = [(1, 1, 1), (17, 9, 33), (5, 40, 7)]  # (T, K, N)
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]


def name(launch):
    return getattr(launch, "func", launch).__name__


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=name)


def integers(*shape, dtype=np.float32, seed=0):
    """Integers so small that 16-bit formats hold them and float32 holds every sum of their products."""
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype)


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


@each(FORWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_bias", [True, False])
def test_forward_is_exact_on_small_integers(launch, shape, dtype, with_bias, put):
    T, K, N = shape
    x, w, b = integers(T, K, dtype=dtype), integers(K, N, dtype=dtype), integers(N, dtype=dtype)
    y = empty(T, N, dtype=dtype)
    launch(put(x), put(w), put(b) if with_bias else None, y)
    expected = linear(x.astype(float), w.astype(float), b.astype(float) if with_bias else None)
    np.testing.assert_array_equal(y.copy_to_host(), expected.astype(dtype))


@each(FORWARD)
@pytest.mark.parametrize("layouts", [("strided", "transposed"), ("transposed", "strided")])
def test_forward_takes_strided_operands(launch, layouts, put):
    x, w, b = integers(17, 9), integers(9, 33), integers(33)
    y = empty(17, 33)
    launch(put(x, layouts[0]), put(w, layouts[1]), put(b, "strided"), y)
    np.testing.assert_array_equal(y.copy_to_host(), linear(x, w, b))


@each(FORWARD)
def test_forward_agrees_with_float64_on_real_values(launch, put):
    x, w, b = normal(33, 70), normal(70, 18), normal(18)
    y = empty(33, 18)
    launch(put(x), put(w), put(b), y)
    # 70 products of standard normals: float32 is off by a few 1e-6, bfloat16 accumulation would be by 1e-2.
    np.testing.assert_allclose(y.copy_to_host(), linear(*(a.astype(float) for a in (x, w, b))), atol=2e-5)


@each([kernels.linear_tiled, kernels.linear_register_tiled])
def test_shipped_tile_sizes(launch, put):
    x, w = integers(130, 19), integers(19, 140)
    y = empty(130, 140)
    launch(put(x), put(w), None, y)
    np.testing.assert_array_equal(y.copy_to_host(), linear(x, w))


@each(DX)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dx_is_exact_on_small_integers(launch, shape, dtype, put):
    T, K, N = shape
    dy, w = integers(T, N, dtype=dtype), integers(K, N, dtype=dtype)
    dx = empty(T, K, dtype=dtype)
    launch(put(dy, "strided"), put(w), dx)
    np.testing.assert_array_equal(dx.copy_to_host(), linear_dx(dy.astype(float), w.astype(float)).astype(dtype))


@each(DW)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dw_adds_to_what_the_buffer_held(launch, shape, dtype, put):
    T, K, N = shape
    x, dy, held = integers(T, K, dtype=dtype), integers(T, N, dtype=dtype), integers(K, N, seed=1)
    dw = put(held)
    launch(put(x), put(dy, "strided"), dw)
    np.testing.assert_array_equal(dw.copy_to_host(), held + linear_dw(x.astype(float), dy.astype(float)))


@pytest.mark.parametrize("split_k", [2, 7, 30])
@pytest.mark.parametrize("launch", [kernels.linear_dw_split_k_atomic, kernels.linear_dw_split_k_workspace], ids=name)
def test_splits_that_do_not_divide_T_or_are_empty_lose_nothing(launch, split_k, put):
    x, dy, held = integers(25, 6), integers(25, 10), integers(6, 10, seed=1)
    dw = put(held)
    launch(put(x), put(dy), dw, split_k=split_k, **TILES)
    np.testing.assert_array_equal(dw.copy_to_host(), held + linear_dw(x, dy))


@pytest.mark.parametrize("launch", [kernels.linear_dw_split_k_atomic, kernels.linear_dw_split_k_workspace], ids=name)
def test_the_number_of_splits_is_chosen_where_none_is_given(launch, put, monkeypatch):
    """T = 200 in slices of 4 and one tile of dw, which finishes in 2 x 16 x 8 / (24 x 4) = 2.67 slices: at most 18."""
    taken = []
    launch_gemm = gemm.launch_register_tiled_gemm
    monkeypatch.setattr(
        gemm,
        "launch_register_tiled_gemm",
        lambda *args, split_k=1, **kwargs: taken.append(split_k) or launch_gemm(*args, split_k=split_k, **kwargs),
    )
    x, dy, held = integers(200, 6), integers(200, 8), integers(6, 8, seed=1)
    dw = put(held)
    launch(put(x), put(dy), dw, **TILES)
    np.testing.assert_array_equal(dw.copy_to_host(), held + linear_dw(x, dy))
    assert taken == [17]  # 50 slices: 17 parts of 3 as well as 18


@each(DW)
def test_micro_batches_add_up_to_the_batch(launch, put):
    x, dy, dw = integers(30, 7), integers(30, 5, seed=1), put(np.zeros((7, 5), np.float32))
    for rows in (slice(0, 13), slice(13, 14), slice(14, 30)):
        launch(put(x[rows]), put(dy[rows]), dw)
    np.testing.assert_array_equal(dw.copy_to_host(), linear_dw(x, dy))


@each(DW)
def test_a_tied_weight_gets_the_gradients_of_both_uses(launch, put):
    """y = (x w) w^T: dw = x^T (dy w) + dy^T (x w), the second with the roles of input and gradient exchanged."""
    x, w, dy = normal(11, 4), normal(4, 6), normal(11, 4, seed=1)
    h, dh, dw = empty(11, 6), empty(11, 6), put(np.zeros((4, 6), np.float32))
    kernels.linear_naive(put(x), put(w), None, h)
    kernels.linear_dx_naive(put(dy), transposed(put(w)), dh)
    launch(put(x), dh, dw)
    launch(put(dy), h, dw)
    assert_adjoint(
        lambda x, w: x @ w @ w.T,
        lambda x, w, dy0: x.T @ (dy0 @ w) + dy0.T @ (x @ w),
        {"x": x, "w": w},
        dy,
        {"w": dw.copy_to_host()},
        output_dtypes=[np.float32],
    )


def test_forward_and_backward_kernels_are_adjoint(put):
    x, w, b, dy = normal(13, 9), normal(9, 6), normal(6), normal(13, 6, seed=1)
    dx, dw, db = empty(13, 9), put(np.zeros((9, 6), np.float32)), put(np.zeros(6, np.float32))
    kernels.linear_dx_register_tiled(put(dy), put(w), dx, **TILES)
    kernels.linear_dw_split_k_workspace(put(x), put(dy), dw, split_k=3, **TILES)
    kernels.linear_db(put(dy), db)
    assert_adjoint(
        linear,
        lambda x, w, b, dy0: linear_vjp(dy0, x, w),
        {"x": x, "w": w, "b": b},
        dy,
        {name: array.copy_to_host() for name, array in (("x", dx), ("w", dw), ("b", db))},
        output_dtypes=[np.float32] * 3,
    )


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("saves", [True, False])
def test_linear_gelu(with_bias, saves, put):
    x, w, b = normal(18, 11), normal(11, 35), normal(35)
    h, y = empty(18, 35), empty(18, 35)
    kernels.linear_gelu(put(x), put(w), put(b) if with_bias else None, h if saves else None, y, **WARP_TILES)
    expected = linear_gelu(*(a.astype(float) for a in (x, w)), b.astype(float) if with_bias else None)
    np.testing.assert_allclose(y.copy_to_host(), expected[1], atol=1e-5)
    if saves:
        np.testing.assert_allclose(h.copy_to_host(), expected[0], atol=1e-5)


def test_workspace_form_gives_the_same_bits_twice(put):
    x, dy = put(normal(64, 20)), put(normal(64, 12))
    first, second = put(np.zeros((20, 12), np.float32)), put(np.zeros((20, 12), np.float32))
    for dw in (first, second):
        kernels.linear_dw_split_k_workspace(x, dy, dw, split_k=5, **TILES)
    assert first.copy_to_host().tobytes() == second.copy_to_host().tobytes()


@each(DB)
@pytest.mark.parametrize("shape", [(1, 1), (70, 33), (3, 100)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_db_adds_the_column_sums(launch, shape, dtype, put):
    dy, held = integers(*shape, dtype=dtype), integers(shape[1], seed=1)
    db = put(held)
    launch(put(dy, "strided"), db)
    np.testing.assert_array_equal(db.copy_to_host(), held + linear_db(dy.astype(float)))


@each(FORWARD)
def test_more_rows_than_a_grid_has_blocks_along_y(launch, put):
    x, w = integers(70_000, 2), integers(2, 1)
    y = empty(70_000, 1)
    launch(put(x), put(w), None, y)
    np.testing.assert_array_equal(y.copy_to_host(), x @ w)


@each(FORWARD)
def test_contraction_over_nothing_leaves_the_bias(launch, put):
    b, y = integers(5), empty(3, 5)
    launch(put(np.zeros((3, 0), np.float32)), put(np.zeros((0, 5), np.float32)), put(b), y)
    np.testing.assert_array_equal(y.copy_to_host(), np.broadcast_to(b, (3, 5)))


@each(DW)
def test_no_rows_leave_dw_as_it_was(launch, put):
    held = integers(4, 6)
    dw = put(held)
    launch(put(np.zeros((0, 4), np.float32)), put(np.zeros((0, 6), np.float32)), dw)
    np.testing.assert_array_equal(dw.copy_to_host(), held)


def test_a_transposed_view_shares_its_memory():
    array = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    view = transposed(array)
    assert view.shape == (3, 2)
    assert view.strides == array.strides[::-1]
    assert view.device_ctypes_pointer.value == array.device_ctypes_pointer.value


def test_wrong_arguments_are_named(put):
    x, w = put(integers(4, 3)), put(integers(5, 2))
    with pytest.raises(ValueError, match=r"linear_naive: w has shape \(5, 2\), expected \(3, N\).*K = 3 in x"):
        kernels.linear_naive(x, w, None, empty(4, 2))
    with pytest.raises(TypeError, match="dw has dtype bfloat16, expected float32"):
        kernels.linear_dw_naive(x, put(integers(4, 2)), empty(3, 2, dtype=ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match="block_m=10 must be a positive multiple of thread_m=4"):
        kernels.linear_register_tiled(x, put(integers(3, 2)), None, empty(4, 2), block_m=10, thread_m=4)
    with pytest.raises(ValueError, match="tile=33"):
        kernels.linear_tiled(x, put(integers(3, 2)), None, empty(4, 2), tile=33)
