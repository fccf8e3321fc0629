import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import layer_norm as kernels
from refkit.cuda_kernels import layer_norm_backward as backward_kernels
from refkit.cuda_kernels import layer_norm_residual as residual_kernels
from refkit.reference.layer_norm import (
    layer_norm,
    layer_norm_dgamma_dbeta,
    layer_norm_dx,
    layer_norm_residual,
    layer_norm_vjp,
)

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [
    kernels.layer_norm_naive,
    kernels.layer_norm_warp,
    kernels.layer_norm_block,
    kernels.layer_norm_welford,
]
RESIDUAL = [residual_kernels.layer_norm_residual_warp, residual_kernels.layer_norm_residual_block]
DX = [
    backward_kernels.layer_norm_dx_naive,
    backward_kernels.layer_norm_dx_warp,
    backward_kernels.layer_norm_dx_block,
]
PARAMETERS = [
    backward_kernels.layer_norm_dgamma_dbeta_naive,
    backward_kernels.layer_norm_dgamma_dbeta_atomic,
    backward_kernels.layer_norm_dgamma_dbeta_two_stage,
]
SHAPES = [(1, 1), (5, 37), (2, 300), (70, 3)]
ROUNDING = {np.float32: 0, ml_dtypes.bfloat16: 2**-8, np.float16: 2**-10}  # of the storage; float32's is in atol
DTYPES = list(ROUNDING)
EPS = 1e-5


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def normal(*shape, mean=0.0, dtype=np.float32, seed=0):
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) + mean).astype(dtype)


def integers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(np.float32)


def wide(array):
    return None if array is None else np.asarray(array, np.float64)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def run_forward(launch, x, gamma, beta, *, dtype=np.float32, **config):
    T, C = x.shape
    y, mean, rstd = empty(T, C, dtype=dtype), empty(T), empty(T)
    launch(x, gamma, beta, EPS, y, mean, rstd, **config)
    return [array.copy_to_host().astype(float) for array in (y, mean, rstd)]


@each(FORWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_forward_and_its_statistics(launch, shape, dtype, put):
    x, gamma, beta = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, shape[1:], shape[1:])))
    got = run_forward(launch, put(x), put(gamma), put(beta), dtype=dtype, block=64)
    expected = layer_norm(wide(x), wide(gamma), wide(beta), EPS)
    np.testing.assert_allclose(got[0], expected.y, rtol=ROUNDING[dtype], atol=4e-6)
    np.testing.assert_allclose(got[1], expected.mean, atol=1e-6)
    np.testing.assert_allclose(got[2], expected.rstd, rtol=1e-6)


@each(FORWARD)
@pytest.mark.parametrize("present", [(True, True), (True, False), (False, True), (False, False)])
def test_every_subset_of_gamma_and_beta(launch, present, put):
    x, gamma, beta = normal(4, 40), normal(40, seed=1), normal(40, seed=2)
    gamma, beta = gamma if present[0] else None, beta if present[1] else None
    y, _, _ = run_forward(launch, put(x), put(gamma), put(beta))
    np.testing.assert_allclose(y, layer_norm(wide(x), wide(gamma), wide(beta), EPS).y, atol=4e-6)


@each(FORWARD)
def test_a_large_mean_costs_no_more_than_its_own_rounding(launch, put):
    x = normal(3, 200, mean=1e4)
    y, mean, rstd = run_forward(launch, put(x), None, None)
    expected = layer_norm(wide(x), eps=EPS)
    # float32 holds the mean to 1e4 * 2^-24, a sum of 200 to a few times that; E[x^2] - E[x]^2 would lose rstd whole.
    np.testing.assert_allclose(mean, expected.mean, atol=5e-3)
    np.testing.assert_allclose(y, expected.y, atol=1e-2)
    np.testing.assert_allclose(rstd, expected.rstd, rtol=1e-3)


@each(FORWARD)
@pytest.mark.parametrize("layout", ["strided", "transposed"])
def test_forward_takes_strided_input(launch, layout, put):
    x, gamma, beta = normal(6, 50), normal(50, seed=1), normal(50, seed=2)
    y, _, _ = run_forward(launch, put(x, layout), put(gamma, "strided"), put(beta, "strided"), block=32)
    np.testing.assert_allclose(y, layer_norm(wide(x), wide(gamma), wide(beta), EPS).y, atol=4e-6)


@each(FORWARD)
def test_constant_rows_have_variance_0(launch, put):
    x = np.repeat(integers(9, 1), 64, axis=1)
    y, mean, rstd = run_forward(launch, put(x), None, None)
    np.testing.assert_array_equal(y, np.zeros((9, 64)))
    np.testing.assert_array_equal(mean, x[:, 0])
    np.testing.assert_allclose(rstd, 1 / np.sqrt(EPS), rtol=1e-6)


@each(FORWARD)
def test_rows_of_no_columns_have_no_mean(launch, put):
    y, mean, rstd = run_forward(launch, put(np.zeros((3, 0), np.float32)), None, None)
    assert y.shape == (3, 0)
    assert np.isnan(mean).all()
    assert np.isnan(rstd).all()


@each(FORWARD)
def test_more_rows_than_a_grid_has_blocks_along_y(launch, put):
    x = normal(66_000, 2)
    y, _, _ = run_forward(launch, put(x), None, None, block=32)
    # Two columns: rstd reaches 1/sqrt(eps) and amplifies the rounding of the mean as much.
    np.testing.assert_allclose(y, layer_norm(wide(x), eps=EPS).y, atol=1e-4)


def saved(x):
    """mean and rstd as a forward pass would have saved them."""
    outputs = layer_norm(wide(x), eps=EPS)
    return outputs.mean.astype(np.float32), outputs.rstd.astype(np.float32)


@each(DX)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("present", [(True, True), (True, False), (False, True)])
def test_dx(launch, shape, dtype, present, put):
    x, dy, gamma, dh = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, shape, shape[1:], shape)))
    gamma, dh = gamma if present[0] else None, dh if present[1] else None
    mean, rstd = saved(x)
    dx = empty(*shape, dtype=dtype)
    launch(put(dy, "strided"), put(x), put(gamma), put(mean), put(rstd), put(dh, "transposed"), dx, block=64)
    expected = layer_norm_dx(wide(dy), wide(x), wide(gamma), wide(mean), wide(rstd), wide(dh))
    scale = np.abs(rstd).max()
    tolerance = {"rtol": 2**-8, "atol": 1e-5 * scale} if dtype != np.float32 else {"atol": 3e-6 * scale}
    np.testing.assert_allclose(dx.copy_to_host().astype(float), expected, **tolerance)


@each(DX)
def test_dx_may_take_the_place_of_dh(launch, put):
    x, dy, dh = (normal(5, 70, seed=i) for i in range(3))
    mean, rstd = saved(x)
    stream_gradient = put(dh)
    launch(put(dy), put(x), None, put(mean), put(rstd), stream_gradient, stream_gradient)
    expected = layer_norm_dx(wide(dy), wide(x), None, wide(mean), wide(rstd), wide(dh))
    np.testing.assert_allclose(stream_gradient.copy_to_host(), expected, atol=1e-5)


@each(RESIDUAL)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_residual_form_norms_the_sum_before_it_is_rounded(launch, shape, dtype, put):
    x, r, gamma, beta = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, shape, shape[1:], shape[1:])))
    outputs = [empty(*shape, dtype=dtype), empty(*shape, dtype=dtype), empty(shape[0]), empty(shape[0])]
    launch(put(x, "strided"), put(r, "transposed"), put(gamma), put(beta), EPS, *outputs, block=64)
    got = [array.copy_to_host().astype(float) for array in outputs]
    expected = layer_norm_residual(wide(x), wide(r), wide(gamma), wide(beta), EPS)
    rounding = {"rtol": 2**-8 if dtype != np.float32 else 1e-7, "atol": 4e-6}
    for name, array, value in zip(expected._fields, got, expected):
        np.testing.assert_allclose(array, value, **(rounding if name in "hy" else {"rtol": 1e-5, "atol": 1e-6}))


@pytest.mark.parametrize("kernel", ["warp", "block"])
@pytest.mark.parametrize("reduction", ["atomic", "two_stage"])
def test_residual_form_and_its_backward_are_adjoint(kernel, reduction, put):
    x, r, dy, dh = (normal(6, 75, seed=i) for i in range(4))
    gamma, beta = normal(75, seed=4), normal(75, seed=5)
    h, _, mean, rstd = outputs = [empty(6, 75), empty(6, 75), empty(6), empty(6)]
    dx, dgamma, dbeta = empty(6, 75), put(np.zeros(75, np.float32)), put(np.zeros(75, np.float32))
    forward = getattr(residual_kernels, f"layer_norm_residual_{kernel}")
    forward(put(x), put(r), put(gamma), put(beta), EPS, *outputs)
    backward_x = getattr(backward_kernels, f"layer_norm_dx_{kernel}")
    backward_x(put(dy), h, put(gamma), mean, rstd, put(dh), dx)
    parameters = getattr(backward_kernels, f"layer_norm_dgamma_dbeta_{reduction}")
    parameters(put(dy), h, mean, rstd, dgamma, dbeta, rows_per_block=4)

    def vjp(x, r, gamma, beta, dy0, dy1):
        gradients = layer_norm_vjp(dy1, x + r, gamma, EPS, dy0)
        return gradients.dx, gradients.dx, gradients.dgamma, gradients.dbeta

    gradients = {"x": dx, "r": dx, "gamma": dgamma, "beta": dbeta}
    assert_adjoint(
        lambda x, r, gamma, beta: tuple(layer_norm_residual(x, r, gamma, beta, EPS))[:2],
        vjp,
        {"x": x, "r": r, "gamma": gamma, "beta": beta},
        [dh, dy],
        {name: gradient.copy_to_host() for name, gradient in gradients.items()},
    )


@each(
    [
        kernels.layer_norm_warp,
        kernels.layer_norm_block,
        kernels.layer_norm_welford,
    ]
)
def test_rows_of_65_536_columns(launch, put):
    x = normal(2, 65_536, mean=3.0)
    y, _, _ = run_forward(launch, put(x), None, None)
    np.testing.assert_allclose(y, layer_norm(wide(x), eps=EPS).y, atol=1e-5)


@each(PARAMETERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dgamma_and_dbeta_add_to_what_the_buffers_held(launch, shape, dtype, put):
    T, C = shape
    # Small integers with mean 1 and rstd 2: every product and sum is exact, in any order.
    dy, x = integers(T, C).astype(dtype), integers(T, C, seed=1).astype(dtype)
    mean, rstd = np.ones(T, np.float32), np.full(T, 2, np.float32)
    held = integers(2, C, seed=2)
    dgamma, dbeta = put(held[0]), put(held[1])
    launch(put(dy, "transposed"), put(x, "strided"), put(mean), put(rstd), dgamma, dbeta, block=32)
    expected = layer_norm_dgamma_dbeta(wide(dy), wide(x), wide(mean), wide(rstd))
    np.testing.assert_array_equal(dgamma.copy_to_host(), held[0] + expected[0])
    np.testing.assert_array_equal(dbeta.copy_to_host(), held[1] + expected[1])


@each(PARAMETERS[1:])
@pytest.mark.parametrize("rows_per_block", [1, 4, 7, 1000])
def test_rows_per_block_that_does_not_divide_T_loses_no_row(launch, rows_per_block, put):
    dy = integers(25, 5)
    ones, dgamma, dbeta = np.ones(25, np.float32), put(np.zeros(5, np.float32)), put(np.zeros(5, np.float32))
    launch(put(dy), put(dy), put(ones), put(ones), dgamma, dbeta, rows_per_block=rows_per_block)
    np.testing.assert_array_equal(dgamma.copy_to_host(), (dy * (dy - 1)).sum(axis=0))
    np.testing.assert_array_equal(dbeta.copy_to_host(), dy.sum(axis=0))


def test_two_stage_form_gives_the_same_bits_twice(put):
    dy, x, mean, rstd = (put(normal(*s, seed=i)) for i, s in enumerate(((90, 11), (90, 11), (90,), (90,))))
    runs = []
    for _ in range(2):
        dgamma, dbeta = put(np.zeros(11, np.float32)), put(np.zeros(11, np.float32))
        backward_kernels.layer_norm_dgamma_dbeta_two_stage(dy, x, mean, rstd, dgamma, dbeta, rows_per_block=8)
        runs.append(dgamma.copy_to_host().tobytes() + dbeta.copy_to_host().tobytes())
    assert runs[0] == runs[1]


@each(PARAMETERS)
def test_no_rows_leave_the_buffers_as_they_were(launch, put):
    none, held = np.zeros((0, 3), np.float32), integers(3)
    dgamma, dbeta = put(held), put(held)
    launch(put(none), put(none), put(none[:, 0]), put(none[:, 0]), dgamma, dbeta)
    np.testing.assert_array_equal(dgamma.copy_to_host(), held)
    np.testing.assert_array_equal(dbeta.copy_to_host(), held)


def test_wrong_arguments_are_named(put):
    x, three, four = put(normal(4, 3)), put(normal(3)), put(normal(4))
    with pytest.raises(ValueError, match=r"layer_norm_warp: gamma has shape \(4,\), expected \(3,\)"):
        kernels.layer_norm_warp(x, four, None, EPS, empty(4, 3), empty(4), empty(4))
    with pytest.raises(TypeError, match="mean has dtype bfloat16, expected float32"):
        kernels.layer_norm_warp(x, None, None, EPS, empty(4, 3), empty(4, dtype=ml_dtypes.bfloat16), empty(4))
    with pytest.raises(ValueError, match="block=48 must be a multiple of 32"):
        kernels.layer_norm_block(x, None, None, EPS, empty(4, 3), empty(4), empty(4), block=48)
    with pytest.raises(ValueError, match="rows_per_block=0"):
        backward_kernels.layer_norm_dgamma_dbeta_atomic(x, x, four, four, three, empty(3), rows_per_block=0)
