import numpy as np
import pytest

from refkit.reference.softmax import softmax, softmax_dx, softmax_vjp

from .directional import slope

RNG = np.random.default_rng(21)
SHAPES = [(1, 1), (3, 5), (4, 17)]


@pytest.mark.parametrize("shape", SHAPES)
def test_vjp_agrees_with_the_directional_derivative_of_the_forward(shape):
    x, dy, v = (RNG.standard_normal(shape) for _ in range(3))
    directional = slope(lambda x: np.sum(dy * softmax(x)), x, v)
    assert np.sum(softmax_vjp(dy, x) * v) == pytest.approx(directional, rel=1e-7, abs=1e-12)


def test_dx_is_the_product_with_the_dense_jacobian():
    y, dy = softmax(RNG.standard_normal((1, 6))), RNG.standard_normal((1, 6))
    jacobian = np.diag(y[0]) - np.outer(y[0], y[0])
    np.testing.assert_allclose(softmax_dx(dy, y)[0], jacobian @ dy[0], rtol=1e-12)


def test_a_shift_changes_nothing_and_large_values_do_not_overflow():
    x = RNG.standard_normal((3, 8)).round(2)
    np.testing.assert_allclose(softmax(x + 2.0**20), softmax(x), rtol=1e-9)
    np.testing.assert_array_equal(softmax(np.array([[1e307, 0.0, -1e307]])), [[1.0, 0.0, 0.0]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinities_and_nan():
    inf, nan = np.inf, np.nan
    rows = np.array([[0.0, -inf, 0.0], [-inf, -inf, -inf], [inf, 0.0, -inf], [nan, 0.0, 1.0]])
    np.testing.assert_array_equal(softmax(rows), [[0.5, 0.0, 0.5], *[[nan, nan, nan]] * 3])


def test_rows_of_no_columns_have_no_entries():
    assert softmax(np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_jax_gives_the_same(shape, jax):
    x, dy = RNG.standard_normal(shape) * 3, RNG.standard_normal(shape)
    y, vjp = jax.vjp(lambda x: jax.nn.softmax(x, axis=-1), x)
    np.testing.assert_allclose(softmax(x), y, rtol=1e-10)
    np.testing.assert_allclose(softmax_vjp(dy, x), vjp(dy)[0], rtol=1e-10, atol=1e-12)
