import numpy as np
import pytest

from refkit.reference import attention as reference

STEP = 1e-30
# (H, Hkv, Tq, Tk, D)
SHAPES = [(1, 1, 1, 1, 1), (2, 2, 5, 5, 3), (6, 2, 4, 9, 8), (4, 1, 9, 4, 5)]
MASKS = [("none", 0), ("none", 2), ("top_left", 0), ("top_left", 3), ("bottom_right", 0), ("bottom_right", 1)]

each_shape = pytest.mark.parametrize("shape", SHAPES)
each_mask = pytest.mark.parametrize(("causal", "window"), MASKS)


def draw(shape, seed=0):
    """q, k, v, do for two batches."""
    H, Hkv, Tq, Tk, D = shape
    rng = np.random.default_rng((seed, *shape))
    return [rng.standard_normal((2, *s)) for s in ((H, Tq, D), (Hkv, Tk, D), (Hkv, Tk, D), (H, Tq, D))]


def by_loops(q, k, v, scale, causal, window):
    """Attention a query at a time, over the list of keys that it sees."""
    B, H, Tq = q.shape[:3]
    o, lse = np.zeros_like(q), np.full((B, H, Tq), -np.inf)
    for b, h, i in np.ndindex(B, H, Tq):
        row = i + k.shape[2] - Tq if causal == "bottom_right" else i
        keys = [j for j in range(k.shape[2]) if (causal == "none" or j <= row) and (not window or row - j < window)]
        if keys:
            head = h * k.shape[1] // H
            s = k[b, head, keys] @ q[b, h, i] * scale
            lse[b, h, i] = np.logaddexp.reduce(s)
            o[b, h, i] = np.exp(s - lse[b, h, i]) @ v[b, head, keys]
    return o, lse


@each_shape
@each_mask
def test_forward_is_softmax_over_the_keys_that_a_query_sees(shape, causal, window):
    q, k, v, _ = draw(shape)
    o, lse = reference.attention(q, k, v, 0.7, causal, window)
    expected_o, expected_lse = by_loops(q, k, v, 0.7, causal, window)
    np.testing.assert_allclose(o, expected_o, rtol=0, atol=1e-13)
    np.testing.assert_allclose(lse, expected_lse, rtol=0, atol=1e-13)


def test_bottom_right_is_level_with_the_last_key_and_top_left_with_the_first():
    assert reference.visible(2, 4, "top_left").tolist() == [[True, False, False, False], [True, True, False, False]]
    assert reference.visible(2, 4, "bottom_right").tolist() == [[True, True, True, False], [True] * 4]
    assert reference.visible(4, 2, "bottom_right").tolist() == [[False] * 2] * 2 + [[True, False], [True, True]]
    assert reference.visible(3, 3, "top_left", 2).tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, True],
    ]


@each_shape
@each_mask
@pytest.mark.parametrize("scale", [None, 0.3])
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(shape, causal, window, scale):
    q, k, v, do = draw(shape)
    directions = draw(shape, seed=1)[:3]
    stepped = [x + 1j * STEP * t for x, t in zip((q, k, v), directions)]
    directional = np.sum(do * reference.attention(*stepped, scale, causal, window).o.imag / STEP)
    gradients = reference.attention_vjp(do, q, k, v, scale, causal, window)
    predicted = sum(np.sum(gradient * t) for gradient, t in zip(gradients, directions))
    assert predicted == pytest.approx(directional, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("keys", ["none there", "none seen"])
def test_a_query_without_keys_gives_0_and_has_no_gradient(keys):
    q, k, v, do = draw((2, 1, 5, 0 if keys == "none there" else 2, 3))
    # Level with the last of 2 keys, the first 3 of 5 queries see none.
    blind = 5 if keys == "none there" else 3
    o, lse = reference.attention(q, k, v, causal="bottom_right")
    dq, dk, dv = reference.attention_vjp(do, q, k, v, causal="bottom_right")
    assert not o[:, :, :blind].any()
    assert np.isneginf(lse[:, :, :blind]).all()
    assert not dq[:, :, :blind].any()
    assert np.isfinite(lse[:, :, blind:]).all()
    assert np.isfinite(dk).all()
    assert np.isfinite(dv).all()


def test_delta_is_the_sum_of_p_dp():
    q, k, v, do = draw((2, 2, 5, 6, 3))
    o, lse = reference.attention(q, k, v)
    p = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(3) - lse[..., None])
    np.testing.assert_allclose(reference.attention_delta(do, o), (p * (do @ v.swapaxes(-1, -2))).sum(-1), atol=1e-13)


def test_scores_far_beyond_the_range_of_exp_do_not_overflow():
    q, k, v, _ = draw((1, 1, 3, 4, 2))
    o, lse = reference.attention(q * 1e4, k * 1e4, v)
    assert np.isfinite(o).all()
    assert np.isfinite(lse).all()
    assert np.abs(lse).max() > 1e6


@each_shape
@each_mask
def test_the_unfused_path_agrees_with_the_fused_one(shape, causal, window):
    q, k, v, do = draw(shape)
    o, p = reference.attention_unfused(q, k, v, 0.7, causal, window)
    np.testing.assert_allclose(o, reference.attention(q, k, v, 0.7, causal, window).o, rtol=0, atol=1e-13)
    expected = reference.attention_vjp(do, q, k, v, 0.7, causal, window)
    for mine, theirs in zip(reference.attention_unfused_backward(do, q, k, v, p, 0.7, causal, window), expected):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


@each_mask
def test_masked_softmax_vjp_agrees_with_the_directional_derivative(causal, window):
    s, ds, dp = np.random.default_rng(2).standard_normal((3, 2, 3, 6, 4))
    directional = np.sum(dp * reference.masked_softmax(s + 1j * STEP * ds, 0.7, causal, window).imag / STEP)
    p = reference.masked_softmax(s, 0.7, causal, window)
    predicted = np.sum(reference.masked_softmax_vjp(dp, p, 0.7, causal, window) * ds)
    assert predicted == pytest.approx(directional, rel=1e-11, abs=1e-13)


def jax_attention(jax, seen, scale):
    """o and lse by jax.nn's own softmax and logsumexp over the keys where `seen`, heads of k and v repeated."""
    some = seen.any(axis=-1, keepdims=True)

    def attention(q, k, v):
        k, v = (jax.numpy.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
        s = jax.numpy.einsum("bhid,bhjd->bhij", q, k) * scale
        # Rows without a key are left to see all, for the sake of their derivative, and are then replaced.
        s = jax.numpy.where(seen | ~some, s, -jax.numpy.inf)
        o = jax.numpy.where(some, jax.numpy.einsum("bhij,bhjd->bhid", jax.nn.softmax(s, axis=-1), v), 0.0)
        return o, jax.numpy.where(some[:, 0], jax.nn.logsumexp(s, axis=-1), -jax.numpy.inf)

    return attention


@pytest.mark.parametrize("shape", [(2, 2, 5, 5, 3), (6, 2, 4, 9, 8), (4, 1, 9, 4, 5)])
@each_mask
def test_agrees_with_jax(jax, shape, causal, window):
    q, k, v, do = draw(shape)
    seen = reference.visible(shape[2], shape[3], causal, window)
    (o, lse), pullback = jax.vjp(jax_attention(jax, seen, 0.6), q, k, v)
    gradients = pullback((do, np.zeros_like(lse)))
    got = reference.attention(q, k, v, 0.6, causal, window)
    np.testing.assert_allclose(got.o, o, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(got.lse, lse, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(reference.attention_vjp(do, q, k, v, 0.6, causal, window), gradients):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
