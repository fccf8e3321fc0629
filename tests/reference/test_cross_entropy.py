import numpy as np
import pytest

from refkit.reference.cross_entropy import cross_entropy, cross_entropy_vjp
from refkit.reference.log_softmax import log_softmax
from refkit.reference.softmax import softmax

from .directional import slope

RNG = np.random.default_rng(23)
IGNORED = -100
LABELS = np.array([2, IGNORED, 0, 4, 4])
OPTIONS = [(smoothing, reduction) for smoothing in (0.0, 0.1) for reduction in ("none", "mean", "sum")]


def upstream(reduction):
    return RNG.standard_normal(len(LABELS) if reduction == "none" else 1)


@pytest.mark.parametrize(("smoothing", "reduction"), OPTIONS)
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(smoothing, reduction):
    logits, v, dloss = RNG.standard_normal((5, 5)), RNG.standard_normal((5, 5)), upstream(reduction)
    options = (IGNORED, smoothing, reduction)
    directional = slope(lambda x: np.sum(dloss * cross_entropy(x, LABELS, *options).loss), logits, v)
    dlogits = cross_entropy_vjp(dloss, logits, LABELS, *options)
    assert np.sum(dlogits * v) == pytest.approx(directional, rel=1e-7)


def test_loss_is_the_negative_log_probability_of_the_label():
    logits, labels = RNG.standard_normal((4, 6)), np.array([5, 0, 3, 3])
    loss, lse = cross_entropy(logits, labels)
    np.testing.assert_allclose(loss, -np.log(softmax(logits))[range(4), labels], rtol=1e-12)
    np.testing.assert_allclose(lse, np.log(np.exp(logits).sum(axis=1)), rtol=1e-12)


def test_an_ignored_row_has_neither_loss_nor_gradient_and_does_not_count_in_the_mean():
    logits = RNG.standard_normal((5, 5))
    none, mean, total = (cross_entropy(logits, LABELS, reduction=r).loss for r in ("none", "mean", "sum"))
    assert none[1] == 0
    assert mean == pytest.approx(none.sum() / 4)
    assert total == pytest.approx(none.sum())
    dlogits = cross_entropy_vjp(np.ones(1), logits, LABELS, reduction="mean")
    assert not dlogits[1].any()
    assert dlogits[0, 2] == pytest.approx((softmax(logits)[0, 2] - 1) / 4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_with_every_label_ignored_loss_and_gradient_are_0(reduction):
    logits, labels = np.full((3, 4), np.inf), np.full(3, 7)
    with np.errstate(invalid="ignore"):
        assert not cross_entropy(logits, labels, 7, reduction=reduction).loss.any()
        assert not cross_entropy_vjp(np.ones(1), logits, labels, 7, reduction=reduction).any()


def test_a_label_out_of_range_is_nan_whatever_is_around_it():
    logits, labels = np.zeros((3, 4)), np.array([4, -1, 3])
    np.testing.assert_array_equal(np.isnan(cross_entropy(logits, labels).loss), [True, True, False])
    assert np.isnan(cross_entropy(logits, labels, reduction="mean").loss)
    np.testing.assert_array_equal(np.isnan(cross_entropy_vjp(np.ones(3), logits, labels)).all(axis=1), [1, 1, 0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities():
    inf = np.inf
    logits = np.array([[0.0, -inf], [0.0, -inf], [-inf, -inf], [inf, 0.0]])
    loss, lse = cross_entropy(logits, np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(loss, [0, inf, np.nan, inf])
    np.testing.assert_array_equal(lse, [0, 0, -inf, inf])


def test_large_logits_keep_the_digits_of_the_loss():
    loss = cross_entropy(np.array([[1e15, 1e15 - 2]]), np.array([1])).loss
    assert loss[0] == pytest.approx(2 + np.log1p(np.exp(-2.0)), rel=1e-12)


def test_an_unknown_reduction_is_named():
    with pytest.raises(ValueError, match="reduction='avg'; expected 'none', 'mean' or 'sum'"):
        cross_entropy(np.zeros((1, 2)), np.zeros(1, int), reduction="avg")


@pytest.mark.parametrize(("smoothing", "reduction"), OPTIONS)
def test_jax_gives_the_same(smoothing, reduction, jax):
    jnp = jax.numpy
    logits, dloss = RNG.standard_normal((5, 5)) * 3, upstream(reduction)
    kept = jnp.asarray(LABELS != IGNORED)

    def loss(logits):
        target = jax.nn.one_hot(LABELS, 5) * (1 - smoothing) + smoothing / 5
        rows = jnp.where(kept, -(target * jax.nn.log_softmax(logits)).sum(axis=1), 0)
        return {"none": rows, "sum": rows.sum()[None], "mean": rows.sum()[None] / kept.sum()}[reduction]

    expected, vjp = jax.vjp(loss, logits)
    options = (IGNORED, smoothing, reduction)
    np.testing.assert_allclose(cross_entropy(logits, LABELS, *options).loss, expected, rtol=1e-10)
    np.testing.assert_allclose(
        cross_entropy_vjp(dloss, logits, LABELS, *options), vjp(dloss)[0], rtol=1e-10, atol=1e-12
    )


def test_smoothing_mixes_in_the_mean_over_all_classes():
    logits, labels = RNG.standard_normal((2, 4)), np.array([1, 2])
    log_p = log_softmax(logits)
    expected = -0.7 * log_p[range(2), labels] - 0.3 * log_p.mean(axis=1)
    np.testing.assert_allclose(cross_entropy(logits, labels, label_smoothing=0.3).loss, expected, rtol=1e-12)
