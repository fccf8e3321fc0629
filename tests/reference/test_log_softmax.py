import numpy as np
import pytest

from refkit.reference.log_softmax import log_softmax, log_softmax_vjp
from refkit.reference.softmax import softmax

from .directional import slope

RNG = np.random.default_rng(22)
SHAPES = [(1, 1), (3, 5), (4, 17)]


@pytest.mark.parametrize("shape", SHAPES)
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(shape):
    x, dy, v = (RNG.standard_normal(shape) for _ in range(3))
    directional = slope(lambda x: np.sum(dy * log_softmax(x)), x, v)
    assert np.sum(log_softmax_vjp(dy, x) * v) == pytest.approx(directional, rel=1e-7, abs=1e-12)


def test_its_exponential_is_softmax_and_far_tails_keep_their_digits():
    x = RNG.standard_normal((4, 9))
    np.testing.assert_allclose(np.exp(log_softmax(x)), softmax(x), rtol=1e-12)
    # softmax gives 0 here, the logarithm of which would be -inf.
    np.testing.assert_array_equal(log_softmax(np.array([[0.0, -1000.0]])), [[0.0, -1000.0]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_and_nan():
    inf, nan = np.inf, np.nan
    rows = np.array([[0.0, -inf, 0.0], [-inf, -inf, -inf], [inf, 0.0, -inf], [nan, 0.0, 1.0]])
    half = -np.log(2.0)
    np.testing.assert_array_equal(log_softmax(rows), [[half, -inf, half], *[[nan, nan, nan]] * 3])


def test_rows_of_no_columns_have_no_entries():
    assert log_softmax(np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_jax_gives_the_same(shape, jax):
    x, dy = RNG.standard_normal(shape) * 3, RNG.standard_normal(shape)
    y, vjp = jax.vjp(lambda x: jax.nn.log_softmax(x, axis=-1), x)
    np.testing.assert_allclose(log_softmax(x), y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(log_softmax_vjp(dy, x), vjp(dy)[0], rtol=1e-10, atol=1e-12)
