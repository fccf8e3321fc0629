import numpy as np
import pytest

from refkit.reference.cross_entropy import cross_entropy
from refkit.reference.linear_cross_entropy import linear_cross_entropy, linear_cross_entropy_vjp

from .directional import slope

RNG = np.random.default_rng(24)
IGNORED = -100
LABELS = np.array([2, IGNORED, 0, 6])
OPTIONS = [(smoothing, reduction) for smoothing in (0.0, 0.1) for reduction in ("none", "mean", "sum")]


def inputs(reduction):
    x, w = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 7))
    return x, w, RNG.standard_normal(4 if reduction == "none" else 1)


@pytest.mark.parametrize(("smoothing", "reduction"), OPTIONS)
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(smoothing, reduction):
    x, w, dloss = inputs(reduction)
    options = (LABELS, IGNORED, smoothing, reduction)
    gradients = linear_cross_entropy_vjp(dloss, x, w, *options)
    vx, vw = RNG.standard_normal(x.shape), RNG.standard_normal(w.shape)
    along_x = slope(lambda x: np.sum(dloss * linear_cross_entropy(x, w, *options).loss), x, vx)
    along_w = slope(lambda w: np.sum(dloss * linear_cross_entropy(x, w, *options).loss), w, vw)
    assert np.sum(gradients.dx * vx) == pytest.approx(along_x, rel=1e-7)
    assert np.sum(gradients.dw * vw) == pytest.approx(along_w, rel=1e-7)


def test_forward_is_the_cross_entropy_of_the_product():
    x, w, _ = inputs("none")
    expected = cross_entropy(np.einsum("tk,kv->tv", x, w), LABELS, label_smoothing=0.2)
    for got, wanted in zip(linear_cross_entropy(x, w, LABELS, label_smoothing=0.2), expected):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize(("smoothing", "reduction"), OPTIONS)
def test_jax_gives_the_same(smoothing, reduction, jax):
    jnp = jax.numpy
    x, w, dloss = inputs(reduction)
    kept = jnp.asarray(LABELS != IGNORED)

    def loss(x, w):
        target = jax.nn.one_hot(LABELS, 7) * (1 - smoothing) + smoothing / 7
        rows = jnp.where(kept, -(target * jax.nn.log_softmax(x @ w)).sum(axis=1), 0)
        return {"none": rows, "sum": rows.sum()[None], "mean": rows.sum()[None] / kept.sum()}[reduction]

    expected, vjp = jax.vjp(loss, x, w)
    options = (LABELS, IGNORED, smoothing, reduction)
    np.testing.assert_allclose(linear_cross_entropy(x, w, *options).loss, expected, rtol=1e-10)
    for got, wanted in zip(linear_cross_entropy_vjp(dloss, x, w, *options), vjp(dloss)):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
