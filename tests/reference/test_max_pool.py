import numpy as np
import pytest

from refkit.reference.max_pool import max_pool, max_pool_vjp

RNG = np.random.default_rng(15)
STEP = 1e-30
WINDOWS = [  # window, stride, padding
    ((1, 1), (1, 1), (0, 0)),
    ((2, 2), (2, 2), (0, 0)),
    ((3, 3), (2, 2), (1, 1)),
    ((3, 2), (1, 2), (2, 0)),
    ((2, 4), (3, 1), (0, 3)),
    ((1, 3), (4, 5), (0, 1)),
]


@pytest.mark.parametrize(("window", "stride", "padding"), WINDOWS)
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(window, stride, padding):
    x, tx = RNG.standard_normal((2, 3, 7, 8)), RNG.standard_normal((2, 3, 7, 8))
    y, argmax = max_pool(x, window, stride, padding)
    dy = RNG.standard_normal(y.shape)
    moved = (x + 1j * STEP * tx).reshape(2, 3, 56)
    chosen = np.take_along_axis(moved, argmax.reshape(2, 3, -1), axis=2).reshape(y.shape)
    np.testing.assert_array_equal(chosen.real, y)
    directional = np.sum(dy * chosen.imag / STEP)
    assert np.sum(max_pool_vjp(dy, argmax, 7, 8) * tx) == pytest.approx(directional, rel=1e-11)


@pytest.mark.parametrize(("window", "stride", "padding"), WINDOWS)
@pytest.mark.parametrize("planes", [(2, 3, 7, 8), (1, 1, 4, 4)])
def test_forward_and_gradient_agree_with_jax(jax, window, stride, padding, planes):
    x = RNG.standard_normal(planes)

    def forward(x):
        pads = [(0, 0), (0, 0), *((p, p) for p in padding)]
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, *window), (1, 1, *stride), pads)

    expected, vjp = jax.vjp(forward, x)
    y, argmax = max_pool(x, window, stride, padding)
    np.testing.assert_array_equal(y, expected)
    dy = RNG.standard_normal(y.shape)
    np.testing.assert_allclose(max_pool_vjp(dy, argmax, *planes[2:]), vjp(dy)[0], rtol=1e-10, atol=1e-13)


def test_the_lowest_place_wins_among_equals_and_padding_never():
    x = np.full((1, 1, 3, 3), -np.inf)
    y, argmax = max_pool(x, (2, 2), (1, 1), (1, 1))
    assert (y == -np.inf).all()
    assert argmax[0, 0].tolist() == [[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 4, 5], [6, 6, 7, 8]]


def test_nan_counts_as_largest_and_the_first_one_is_chosen():
    x = np.array([[[[1.0, np.nan, 9, np.nan]]]])
    y, argmax = max_pool(x, (1, 3), (1, 1), (0, 0))
    assert np.isnan(y).all()
    assert argmax.ravel().tolist() == [1, 1]


def test_windows_that_chose_the_same_element_add_up():
    x = np.array([[[[0.0, 5, 0]]]])
    _, argmax = max_pool(x, (1, 2), (1, 1), (0, 0))
    assert max_pool_vjp(np.array([[[[2.0, 3]]]]), argmax, 1, 3).ravel().tolist() == [0, 5, 0]
