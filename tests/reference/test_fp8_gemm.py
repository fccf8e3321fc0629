import numpy as np
import pytest

from refkit.reference.fp8_gemm import fp8_gemm, fp8_gemm_dw, fp8_gemm_dx, split_error
from refkit.reference.fp8_quantize import fp8_dequantize, fp8_quantize, per_element, rounding_bound

RNG = np.random.default_rng(32)
GROUP = 8
ROWS, SQUARE = (1, GROUP), (GROUP, GROUP)


def operands(T=11, K=21, N=13):
    """Quantised x, w and dy, and all three dequantised."""
    x, w, dy = RNG.standard_normal((T, K)), RNG.standard_normal((K, N)), RNG.standard_normal((T, N))
    quantized = fp8_quantize(x, ROWS), fp8_quantize(w, SQUARE), fp8_quantize(dy, ROWS, "e5m2")
    return quantized, [fp8_dequantize(*q, block) for q, block in zip(quantized, (ROWS, SQUARE, ROWS))]


def test_products_agree_with_jax_after_dequantising(jax):
    (xq, wq, dyq), (x, w, dy) = operands()
    y, vjp = jax.vjp(lambda x, w: jax.numpy.einsum("tk,kn->tn", x, w), x, w)
    dx, dw = vjp(dy)
    np.testing.assert_allclose(fp8_gemm(*xq, *wq, GROUP), y, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fp8_gemm_dx(*dyq, *wq, GROUP), dx, rtol=1e-10, atol=1e-10)
    exact_x_t = x.T, np.ones((21, 2))  # scales of 1: what is tested is the product, not a second rounding
    exact_dy_t = dy.T, np.ones((13, 2))
    np.testing.assert_allclose(fp8_gemm_dw(*exact_x_t, *exact_dy_t, GROUP), dw, rtol=1e-10, atol=1e-10)


def test_gradients_agree_with_the_directional_derivative_of_the_forward():
    (xq, wq, dyq), (x, _, dy) = operands()
    vx, vw = RNG.standard_normal(xq.q.shape), RNG.standard_normal(wq.q.shape)
    # A step of q is a step of q scale in the dequantised operand.
    along_x = np.sum(dy * fp8_gemm(xq.q + 1e-30j * vx, xq.scales, *wq, GROUP).imag / 1e-30)
    along_w = np.sum(dy * fp8_gemm(*xq, wq.q + 1e-30j * vw, wq.scales, GROUP).imag / 1e-30)
    dx = fp8_gemm_dx(*dyq, *wq, GROUP)
    dw = fp8_gemm_dw(x.T, np.ones((21, 2)), dy.T, np.ones((13, 2)), GROUP)
    assert np.sum(dx * vx * per_element(xq.scales, ROWS, vx.shape)) == pytest.approx(along_x, rel=1e-11)
    assert np.sum(dw * vw * per_element(wq.scales, SQUARE, vw.shape)) == pytest.approx(along_w, rel=1e-11)


def test_dw_uses_the_scales_of_token_groups():
    x, dy = RNG.standard_normal((19, 5)), RNG.standard_normal((19, 4))
    x_t, dy_t = fp8_quantize(x.T, ROWS), fp8_quantize(dy.T, ROWS, "e5m2")
    expected = fp8_dequantize(*x_t, ROWS) @ fp8_dequantize(*dy_t, ROWS).T
    np.testing.assert_allclose(fp8_gemm_dw(*x_t, *dy_t, GROUP), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_the_two_errors_add_up_and_the_quantisation_error_keeps_its_bound(format, power_of_two):
    x, w = RNG.standard_normal((11, 200)), RNG.standard_normal((200, 13))
    xq, wq = fp8_quantize(x, ROWS, format, power_of_two), fp8_quantize(w, SQUARE, format, power_of_two)
    hats = fp8_dequantize(*xq, ROWS), fp8_dequantize(*wq, SQUARE)
    bounds = rounding_bound(x, xq.scales, ROWS, format), rounding_bound(w, wq.scales, SQUARE, format)
    got = fp8_gemm(*xq, *wq, GROUP) + 1e-3
    error = split_error(x, w, *hats, *bounds, got)
    np.testing.assert_allclose(error.kernel, 1e-3, rtol=1e-9)
    np.testing.assert_allclose(error.quantisation + error.kernel, got - x @ w, rtol=1e-9)
    assert np.all(np.abs(error.quantisation) <= error.quantisation_bound)
    # A bound that is never approached would say nothing: errors of 200 terms add up at random, to about a tenth.
    assert np.max(np.abs(error.quantisation) / error.quantisation_bound) > 0.05


def test_the_quantisation_bound_is_attained_where_every_rounding_points_the_same_way():
    x, w = np.full((1, GROUP), 17.0), np.full((GROUP, 1), 17.0)
    x[0, 0] = w[0, 0] = 448.0  # a scale of 1; 17 lies halfway between 16 and 18
    xq, wq = fp8_quantize(x, ROWS), fp8_quantize(w, SQUARE)
    hats = fp8_dequantize(*xq, ROWS), fp8_dequantize(*wq, SQUARE)
    bounds = (np.where(x == 17, 1.0, 0.0), np.where(w == 17, 1.0, 0.0))
    error = split_error(x, w, *hats, *bounds, fp8_gemm(*xq, *wq, GROUP))
    np.testing.assert_allclose(error.quantisation, -error.quantisation_bound)
