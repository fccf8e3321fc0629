"""Energies of partial sums, against the partial sums themselves; tensor cores, against a model of their arithmetic."""

import itertools

import numpy as np
import pytest

from refkit.numerics import Precision, error_ratio, evaluate, summation
from refkit.numerics.accumulation import (
    matmul_error,
    prefix_error,
    random_order_energy,
    scatter_error,
    sum_error,
)
from refkit.numerics.rounding import RoundingModel

MODEL = RoundingModel()
U2 = MODEL.unit_variance


def energy(terms):
    return float((np.cumsum(terms) ** 2).sum())


def test_the_random_order_energy_is_the_mean_over_all_orders():
    x = np.array([3.0, -1.0, 2.0, 0.5, -4.0, 1.5])
    mean = np.mean([energy(order) for order in itertools.permutations(x)])
    n = len(x)
    estimate = random_order_energy(n, x.sum(), (x**2).sum())
    # The first partial sum is a term itself, which nothing has rounded.
    assert mean - (x**2).mean() == pytest.approx(estimate)


@pytest.mark.parametrize("n", [2, 7, 16, 17, 100, 1000])
@pytest.mark.parametrize(
    "arrange", [np.sort, lambda x: np.sort(x)[::-1], np.abs, lambda x: x], ids=["up", "down", "positive", "any"]
)
def test_ordered_data_have_at_least_the_energy_of_their_order(n, arrange):
    x = arrange(np.random.default_rng(n).standard_normal(n))
    variance, _ = sum_error(x, x.sum(), MODEL)
    # Partial sums are interpolated between blocks, which at n = 17 are two terms long.
    assert variance >= 0.8 * U2 * max(energy(x) - x[0] ** 2, energy(x[::-1]) - x[-1] ** 2)


def test_sums_of_nothing_and_of_one_term_are_exact():
    for shape in ((3, 0), (3, 1), (0, 5)):
        x = np.ones(shape)
        variance, drift = sum_error(x, x.sum(axis=-1), MODEL)
        assert variance.shape == shape[:1]
        assert not variance.any()
        assert drift is None
    for axis in (0, 1, None):
        (bounded,) = evaluate(lambda x, axis: x.sum(axis=axis), {"x": np.ones((0, 4), np.float32), "axis": axis})
        assert bounded.kind == "tracked"
        assert not bounded.value.any()


def test_alternating_data_have_the_energy_of_interleaved_accumulators():
    x = np.resize([1.0, -1.0], 1024)
    variance, _ = sum_error(x, x.sum(), MODEL)
    assert variance >= 0.99 * U2 * 2 * energy(np.ones(512))


def test_equal_terms_have_a_drift_that_grows_with_their_number():
    drifts = [sum_error(np.full(n, 0.1), np.float64(0.1 * n), MODEL)[1] for n in (64, 6400)]
    assert drifts[1] / (6400 * 0.1) > 50 * drifts[0] / (64 * 0.1)


def test_prefix_sums_have_the_energy_of_what_came_before():
    x = np.random.default_rng(0).standard_normal((3, 50))
    prefix = np.cumsum(x, axis=-1)
    variance, _ = prefix_error(x, prefix, MODEL)
    assert np.all(variance[:, 0] == 0)
    assert np.all(variance[:, 1:] >= U2 * np.cumsum(prefix**2, axis=-1)[:, 1:])


def test_scatter_has_the_energy_of_each_cell():
    cell = np.array([0, 2, 2, 2, 3, 3])
    x = np.array([1.0, 2.0, 3.0, -4.0, 5.0, 6.0])
    variance = scatter_error(cell, x, np.array([0.0, 1.0, 0.0, 10.0]), MODEL)[0] / U2
    assert variance[0] == 0  # one term into an empty cell
    assert variance[1] == 0  # nothing added
    assert variance[2] >= 4 + 25 + 1
    assert variance[3] >= 15**2 + 21**2


@pytest.mark.parametrize("seed", range(20))
def test_prefix_sums_and_scatters_of_equal_terms_stay_within_the_bound(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(64, 2000))
    x = rng.choice(rng.standard_normal(int(rng.integers(1, 4))), (2, n)).astype(np.float32)
    (prefix,) = evaluate(lambda x: np.cumsum(x, axis=1), {"x": x})
    assert error_ratio(np.cumsum(x, axis=1, dtype=np.float32), prefix).max() < 1

    def scatter(x, cell):
        total = np.zeros_like(x, shape=3)
        np.add.at(total, cell, x)
        return total

    cell = rng.integers(0, 3, n)
    (bounded,) = evaluate(scatter, {"x": x[0], "cell": cell})
    assert bounded.kind == "tracked"
    for order in (np.arange(n), np.arange(n)[::-1], rng.permutation(n)):
        assert error_ratio(scatter(x[0][order], cell[order]), bounded).max() < 1


@pytest.mark.parametrize(
    "shapes", [((5, 40), (40, 3)), ((2, 5, 40), (40, 3)), ((4, 1, 5, 7), (3, 7, 2)), ((3, 1), (1, 2))], ids=str
)
def test_matmul_error_has_the_energy_of_each_element(shapes):
    rng = np.random.default_rng(0)
    a, b = np.sort(rng.standard_normal(shapes[0])), np.abs(rng.standard_normal(shapes[1]))
    product, variance, _ = matmul_error(a, b, MODEL)
    np.testing.assert_allclose(product, a @ b)
    terms = a[..., :, :, None] * b[..., None, :, :]
    energies = (np.cumsum(terms, axis=-2) ** 2).sum(axis=-2) if a.shape[-1] > 1 else 0
    assert np.all(variance >= 0.9 * U2 * energies)
    assert np.all(
        variance <= 6 * U2 * (random_order_energy(a.shape[-1], product, (terms**2).sum(axis=-2)) + energies + 1)
    )


def test_matmul_over_nothing_is_exactly_zero():
    product, variance, drift = matmul_error(np.ones((3, 0)), np.ones((0, 4)), MODEL)
    assert product.shape == (3, 4)
    assert not product.any()
    assert not variance.any()
    assert drift is None


@pytest.mark.parametrize("multiply", ["bfloat16", "float16", "tf32"])
@pytest.mark.parametrize("k", [16, 256, 4096])
def test_tensor_core_truncation_stays_within_the_bound(multiply, k):
    rng = np.random.default_rng(0)
    for draw in (rng.random, rng.standard_normal):
        a, b = (summation.round_to(draw(shape), multiply).astype(np.float32) for shape in ((16, k), (k, 8)))
        (bounded,) = evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply=multiply))
        for bits, block in ((24, 8), (25, 16)):
            assert error_ratio(summation.tensor_core_matmul(a, b, bits, block), bounded).max() < 1
    # Uniform data drift: with float32 products promised, truncation is a fault at large K.
    (strict,) = evaluate(lambda a, b: a @ b, {"a": (a32 := np.abs(a)), "b": (b32 := np.abs(b))})
    if k == 4096:
        assert error_ratio(summation.tensor_core_matmul(a32, b32), strict).max() > 1


def test_tf32_operands_add_their_own_rounding():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 256)).astype(np.float32), rng.standard_normal((256, 32)).astype(np.float32)
    rounded = [summation.round_to(x, "tf32", "nearest-away").astype(np.float32) for x in (a, b)]
    got = summation.tensor_core_matmul(*rounded, fraction_bits=25)
    tf32, single = (
        evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply=m))[0] for m in ("tf32", "float32")
    )
    assert error_ratio(got, tf32).max() < 1
    assert error_ratio(got, single).max() > 10
    (bf16,) = evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply="bfloat16"))
    assert np.median(bf16.allowed / tf32.allowed) == pytest.approx(8, rel=0.1)


def test_fp8_products_keep_thirteen_bits_within_a_block_of_128():
    rng = np.random.default_rng(0)
    a, b = (
        summation.round_to(rng.random(shape), "float8_e4m3fn").astype(np.float32) for shape in ((16, 1024), (1024, 8))
    )
    got = np.zeros((16, 8), np.float32)
    for start in range(0, 1024, 128):
        got += summation.tensor_core_matmul(a[:, start : start + 128], b[start : start + 128], 13, 32)
    (bounded,) = evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply="float8_e4m3fn"))
    assert error_ratio(got, bounded).max() < 1
    assert error_ratio(np.zeros_like(got), bounded).min() > 1


@pytest.mark.parametrize(("multiply", "bits"), [("float8_e4m3fn", 13), ("float16", 24)])
@pytest.mark.parametrize("k", [4, 8, 16, 32])
def test_addends_beside_products_that_cancel_are_truncated_within_the_bound(multiply, bits, k):
    """Two products of 2**8 and -2**8 set the unit, and every other addend lies just below it: all of them are lost."""
    a, b = np.ones((4, k), np.float32), np.full((k, 4), 15 / 16 * 2.0 ** (8 - bits), np.float32)
    a[:, :2], b[0], b[1] = 16, 16, -16
    got = summation.tensor_core_matmul(a, b, bits, 32)
    assert not got.any()
    (bounded,) = evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply=multiply))
    assert 0.1 < error_ratio(got, bounded).max() <= 1


def test_products_of_subnormal_float16_are_aligned_as_if_they_were_normal():
    """The unit aligns 2**-24 * 91 as 2**-14 * 2**6 and keeps 25 bits below: the small product loses up to 2**-33."""
    a = np.array([[-(2.0**-24), 2.0**-23]], np.float16)
    b = np.array([[-91], [-0.025924683]], np.float16)
    large, small = a[0].astype(np.float64) * b[:, 0].astype(np.float64)
    got = np.float32(large + np.trunc(small * 2.0**33) * 2.0**-33).reshape(1, 1)
    (bounded,) = evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply="float16"))
    assert 0.05 < error_ratio(got, bounded).max() <= 1
    (normal,) = evaluate(lambda a, b: a @ b, {"a": a * 1024, "b": b}, Precision(multiply="float16"))
    assert (normal.allowed < bounded.allowed * 1024 / 100).all()
