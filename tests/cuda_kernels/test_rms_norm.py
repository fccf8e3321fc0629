import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import rms_norm as kernels
from refkit.cuda_kernels import rms_norm_backward as backward_kernels
from refkit.reference.rms_norm import (
    rms_norm,
    rms_norm_dgamma,
    rms_norm_dx,
    rms_norm_residual,
    rms_norm_vjp,
)

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.rms_norm_naive, kernels.rms_norm_warp, kernels.rms_norm_block]
RESIDUAL = [kernels.rms_norm_residual_warp, kernels.rms_norm_residual_block]
DX = [backward_kernels.rms_norm_dx_warp, backward_kernels.rms_norm_dx_block]
DGAMMA = [backward_kernels.rms_norm_dgamma_atomic, backward_kernels.rms_norm_dgamma_two_stage]
SHAPES = [(1, 1), (5, 37), (2, 300), (70, 3)]
DTYPES = [np.float32, ml_dtypes.bfloat16]
EPS = 1e-5


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def integers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(np.float32)


def wide(array):
    return None if array is None else np.asarray(array, np.float64)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def host(array):
    return array.copy_to_host().astype(float)


def rounding(dtype):
    """What is stored is rounded once: to 2^-9 of it in bfloat16."""
    return {"rtol": 2**-8 if dtype != np.float32 else 1e-6, "atol": 2e-6}


@each(FORWARD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("with_gamma", "layout"), [(True, "contiguous"), (False, "strided")])
def test_forward_and_its_statistic(launch, shape, dtype, with_gamma, layout, put):
    x, gamma = normal(*shape, dtype=dtype), normal(shape[1], dtype=dtype, seed=1) if with_gamma else None
    y, rstd = empty(*shape, dtype=dtype), empty(shape[0])
    launch(put(x, layout), put(gamma), EPS, y, rstd, block=64)
    expected = rms_norm(wide(x), wide(gamma), EPS)
    np.testing.assert_allclose(host(y), expected.y, **rounding(dtype))
    np.testing.assert_allclose(host(rstd), expected.rstd, rtol=1e-6)


@each(FORWARD)
def test_rows_of_65_536_columns(launch, put):
    x = normal(2, 65_536)
    y, rstd = empty(2, 65_536), empty(2)
    launch(put(x), None, EPS, y, rstd)
    # One thread that adds 65,536 squares in turn is off by more than 32 that share them.
    np.testing.assert_allclose(host(y), rms_norm(wide(x), eps=EPS).y, rtol=1e-4)


@each(FORWARD)
def test_more_rows_than_a_grid_has_blocks_along_y(launch, put):
    x = integers(66_000, 1)
    y, rstd = empty(66_000, 1), empty(66_000)
    launch(put(x), None, 0.25, y, rstd, block=32)
    np.testing.assert_allclose(host(y), rms_norm(wide(x), eps=0.25).y, rtol=1e-6)


@each(FORWARD)
def test_rows_of_no_columns_have_no_mean(launch, put):
    rstd = empty(3)
    launch(put(np.zeros((3, 0), np.float32)), None, EPS, empty(3, 0), rstd)
    assert np.isnan(host(rstd)).all()


@each(RESIDUAL)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_residual_form_norms_the_sum_before_it_is_rounded(launch, shape, dtype, put):
    x, r, gamma = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, shape, shape[1:])))
    h, y, rstd = empty(*shape, dtype=dtype), empty(*shape, dtype=dtype), empty(shape[0])
    launch(put(x, "strided"), put(r, "transposed"), put(gamma), EPS, h, y, rstd, block=64)
    expected = rms_norm_residual(wide(x), wide(r), wide(gamma), EPS)
    np.testing.assert_allclose(host(h), expected.h, **rounding(dtype))
    np.testing.assert_allclose(host(y), expected.y, **rounding(dtype))
    np.testing.assert_allclose(host(rstd), expected.rstd, rtol=1e-6)


@each(DX)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("present", [(True, True), (True, False), (False, True)])
def test_dx(launch, shape, dtype, present, put):
    x, dy, gamma, dh = (normal(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, shape, shape[1:], shape)))
    gamma, dh = gamma if present[0] else None, dh if present[1] else None
    rstd = rms_norm(wide(x), eps=EPS).rstd.astype(np.float32)
    dx = empty(*shape, dtype=dtype)
    launch(put(dy, "strided"), put(x), put(gamma), put(rstd), put(dh, "transposed"), dx, block=64)
    expected = rms_norm_dx(wide(dy), wide(x), wide(gamma), wide(rstd), wide(dh))
    tolerance = rounding(dtype)
    np.testing.assert_allclose(host(dx), expected, tolerance["rtol"], 3e-6 * np.abs(rstd).max())


@each(DX)
def test_dx_may_take_the_place_of_dh(launch, put):
    x, dy, dh = (normal(5, 70, seed=i) for i in range(3))
    rstd = rms_norm(wide(x), eps=EPS).rstd.astype(np.float32)
    stream_gradient = put(dh)
    launch(put(dy), put(x), None, put(rstd), stream_gradient, stream_gradient)
    expected = rms_norm_dx(wide(dy), wide(x), None, wide(rstd), wide(dh))
    np.testing.assert_allclose(host(stream_gradient), expected, atol=1e-5)


@each(DGAMMA)
@pytest.mark.parametrize("rows_per_block", [1, 4, 1000])
@pytest.mark.parametrize("shape", [*SHAPES, (25, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dgamma_adds_to_what_the_buffer_held(launch, rows_per_block, shape, dtype, put):
    # Small integers with rstd 2: every product and sum is exact, in any order.
    dy, x = integers(*shape).astype(dtype), integers(*shape, seed=1).astype(dtype)
    rstd, held = np.full(shape[0], 2, np.float32), integers(shape[1], seed=2)
    dgamma = put(held)
    launch(put(dy, "transposed"), put(x, "strided"), put(rstd), dgamma, rows_per_block=rows_per_block, block=32)
    expected = held + rms_norm_dgamma(wide(dy), wide(x), wide(rstd))
    np.testing.assert_array_equal(host(dgamma), expected)


@each(DGAMMA)
def test_no_rows_leave_the_buffer_as_it_was(launch, put):
    none, held = np.zeros((0, 3), np.float32), integers(3)
    dgamma = put(held)
    launch(put(none), put(none), put(none[:, 0]), dgamma)
    np.testing.assert_array_equal(host(dgamma), held)


@pytest.mark.parametrize("kernel", ["warp", "block"])
@pytest.mark.parametrize("reduction", ["atomic", "two_stage"])
def test_forward_and_backward_are_adjoint(kernel, reduction, put):
    x, r, dy, dh, gamma = (normal(*s, seed=i) for i, s in enumerate([(6, 75)] * 4 + [(75,)]))
    h, y, rstd, dx, dgamma = empty(6, 75), empty(6, 75), empty(6), empty(6, 75), put(np.zeros(75, np.float32))
    getattr(kernels, f"rms_norm_residual_{kernel}")(put(x), put(r), put(gamma), EPS, h, y, rstd)
    getattr(backward_kernels, f"rms_norm_dx_{kernel}")(put(dy), h, put(gamma), rstd, put(dh), dx)
    getattr(backward_kernels, f"rms_norm_dgamma_{reduction}")(put(dy), h, rstd, dgamma, rows_per_block=4)

    def vjp(x, r, gamma, dy0, dy1):
        gradients = rms_norm_vjp(dy1, x + r, gamma, EPS, dy0)
        return gradients.dx, gradients.dx, gradients.dgamma

    assert_adjoint(
        lambda x, r, gamma: tuple(rms_norm_residual(x, r, gamma, EPS))[:2],
        vjp,
        {"x": x, "r": r, "gamma": gamma},
        [dh, dy],
        {"x": dx.copy_to_host(), "r": dx.copy_to_host(), "gamma": dgamma.copy_to_host()},
    )


def test_wrong_arguments_are_named(put):
    x, three, four = put(normal(4, 3)), put(normal(3)), put(normal(4))
    with pytest.raises(ValueError, match=r"rms_norm_warp: gamma has shape \(4,\), expected \(3,\)"):
        kernels.rms_norm_warp(x, four, EPS, empty(4, 3), empty(4))
    with pytest.raises(TypeError, match="rstd has dtype bfloat16, expected float32"):
        kernels.rms_norm_naive(x, None, EPS, empty(4, 3), empty(4, dtype=ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match="block=48 must be a multiple of 32"):
        kernels.rms_norm_block(x, None, EPS, empty(4, 3), empty(4), block=48)
    with pytest.raises(ValueError, match="y"):
        kernels.rms_norm_block(x, None, EPS, x, empty(4))
    with pytest.raises(ValueError, match="rows_per_block=0"):
        backward_kernels.rms_norm_dgamma_atomic(x, x, four, three, rows_per_block=0)
