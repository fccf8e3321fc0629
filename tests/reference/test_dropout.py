import numpy as np
import pytest

from refkit.reference.dropout import dropout, dropout_mask, dropout_vjp, dropout_with_mask, philox4x32

RNG = np.random.default_rng(26)


def words(text):
    return np.array([int(word, 16) for word in text.split()], np.uint32)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # Known answers of Random123 (D. E. Shaw Research), philox4x32 with 10 rounds
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_known_answers(counter, key, expected):
    np.testing.assert_array_equal(philox4x32(words(counter)[None], words(key))[0], words(expected))


def test_the_mask_is_a_function_of_seed_offset_and_place_alone():
    mask = dropout_mask((6, 11), 0.3, seed=5, offset=9)
    np.testing.assert_array_equal(mask, dropout_mask((66,), 0.3, seed=5, offset=9).reshape(6, 11))
    np.testing.assert_array_equal(mask.ravel()[:10], dropout_mask((10,), 0.3, seed=5, offset=9))
    assert (mask != dropout_mask((6, 11), 0.3, seed=6, offset=9)).any()
    assert (mask != dropout_mask((6, 11), 0.3, seed=5, offset=10)).any()
    assert (mask != dropout_mask((6, 11), 0.3, seed=5 + 2**32, offset=9)).any()
    assert (mask != dropout_mask((6, 11), 0.3, seed=5, offset=9 + 2**32)).any()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_of_kept_elements_and_the_mean_are_right(p):
    n = 40_000
    mask = dropout_mask((n,), p, seed=1, offset=2)
    assert abs(mask.mean() - (1 - p)) < 4 * np.sqrt(p * (1 - p) / n)
    neighbours = np.corrcoef(mask[:-1], mask[1:])[0, 1]
    assert abs(neighbours) < 4 / np.sqrt(n)
    assert dropout(np.ones(n), p, 1, 2).mean() == pytest.approx(1, abs=4 * np.sqrt(p / (1 - p) / n))


def test_nothing_and_everything_is_dropped():
    x = RNG.standard_normal((3, 5))
    np.testing.assert_array_equal(dropout(x, 0.0, 1, 1), x)
    np.testing.assert_array_equal(dropout(x, 1.0, 1, 1), np.zeros((3, 5)))
    assert dropout(np.zeros((0, 5)), 0.5, 1, 1).shape == (0, 5)


def test_vjp_agrees_with_the_directional_derivative_of_the_forward():
    x, dy, t = (RNG.standard_normal((7, 6)) for _ in range(3))
    directional = np.sum(dy * dropout(x + 1e-30j * t, 0.4, 3, 8).imag / 1e-30)
    assert np.sum(dropout_vjp(dy, 0.4, 3, 8) * t) == pytest.approx(directional, rel=1e-12)


def test_with_a_given_mask_forward_and_vjp_are_those_of_jax(jax):
    x, dy, p = RNG.standard_normal((7, 6)), RNG.standard_normal((7, 6)), 0.25
    mask = dropout_mask(x.shape, p, seed=4, offset=0)
    y, pullback = jax.vjp(lambda x: jax.numpy.where(mask, x / (1 - p), 0), x)
    np.testing.assert_allclose(dropout_with_mask(x, mask, p), y, rtol=1e-12)
    np.testing.assert_allclose(dropout_vjp(dy, p, 4, 0), pullback(dy)[0], rtol=1e-12)
