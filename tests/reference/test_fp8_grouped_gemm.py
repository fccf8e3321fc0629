import numpy as np
import pytest

from refkit.reference.fp8_gemm import fp8_gemm, fp8_gemm_dx
from refkit.reference.fp8_grouped_gemm import (
    fp8_grouped_gemm,
    fp8_grouped_gemm_dw,
    fp8_grouped_gemm_dx,
    group_bounds,
)
from refkit.reference.fp8_quantize import fp8_dequantize, fp8_quantize

RNG = np.random.default_rng(33)
GROUP = 8
ROWS, SQUARE = (1, GROUP), (GROUP, GROUP)
OFFSETS = np.array([4, 4, 15])  # 4, 0 and 11 tokens; the last two of 17 belong to nobody


def operands(T=17, K=10, N=13):
    x, dy = RNG.standard_normal((T, K)), RNG.standard_normal((T, N))
    weights = [fp8_quantize(RNG.standard_normal((K, N)), SQUARE) for _ in OFFSETS]
    w = np.stack([q for q, _ in weights]), np.stack([scales for _, scales in weights])
    return fp8_quantize(x, ROWS), w, fp8_quantize(dy, ROWS, "e5m2")


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [([4, 4, 15], [(0, 4), (4, 4), (4, 15)]), ([9, 2, 30], [(0, 9), (9, 9), (9, 17)]), ([0], [(0, 0)])],
)
def test_bounds_of_experts(offsets, expected):
    assert group_bounds(np.array(offsets), 17) == expected


def test_each_token_meets_the_weight_of_its_expert():
    x, w, dy = operands()
    y, dx = fp8_grouped_gemm(*x, *w, OFFSETS, GROUP), fp8_grouped_gemm_dx(*dy, *w, OFFSETS, GROUP)
    for token, expert in ((0, 0), (3, 0), (4, 2), (14, 2)):
        one, weight = slice(token, token + 1), (w[0][expert], w[1][expert])
        np.testing.assert_allclose(y[one], fp8_gemm(x.q[one], x.scales[one], *weight, GROUP))
        np.testing.assert_allclose(dx[one], fp8_gemm_dx(dy.q[one], dy.scales[one], *weight, GROUP))
    np.testing.assert_array_equal(y[15:], 0)
    np.testing.assert_array_equal(dx[15:], 0)


def test_products_agree_with_jax_after_dequantising(jax):
    xq, w, dyq = operands()
    x, dy = fp8_dequantize(*xq, ROWS), fp8_dequantize(*dyq, ROWS)
    weights = np.stack([fp8_dequantize(q, scales, SQUARE) for q, scales in zip(*w)])

    def independent(x, weights):
        groups = [
            jax.numpy.einsum("tk,kn->tn", x[a:b], weights[e]) for e, (a, b) in enumerate([(0, 4), (4, 4), (4, 15)])
        ]
        return jax.numpy.concatenate([*groups, jax.numpy.zeros((2, 13))])

    y, vjp = jax.vjp(independent, x, weights)
    dx, dw = vjp(dy)
    np.testing.assert_allclose(fp8_grouped_gemm(*xq, *w, OFFSETS, GROUP), y, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fp8_grouped_gemm_dx(*dyq, *w, OFFSETS, GROUP), dx, rtol=1e-10, atol=1e-10)
    ones = np.ones((10, 3)), np.ones((13, 3))
    np.testing.assert_allclose(
        fp8_grouped_gemm_dw(x.T, ones[0], dy.T, ones[1], OFFSETS, GROUP), dw, rtol=1e-10, atol=1e-10
    )
