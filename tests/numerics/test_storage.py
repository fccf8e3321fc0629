"""`stored`: identity on the exact reference, one more rounding under the error model, a rounding in lower precision."""

import numpy as np
import pytest

from refkit.numerics import FORMATS, Precision, error_ratio, evaluate, round_to, stored
from refkit.numerics.estimate import Noisy
from refkit.numerics.rounding import LAMBDA, RoundingModel
from refkit.numerics.tracked import Tracked

MODEL = RoundingModel()
RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 64)).astype(np.float32)
W = RNG.standard_normal((64, 40)).astype(np.float32)
V = RNG.standard_normal((40, 16)).astype(np.float32)
LOW = ["bfloat16", "float16", "float8_e4m3fn"]


def chain(x, w, v, dtype):
    return stored(np.tanh(x @ w / 8), dtype) @ v


def test_an_exact_array_is_itself():
    x = X.astype(np.float64)
    assert stored(x, "bfloat16") is x
    indices = np.arange(3)
    assert stored(indices, np.float16) is indices
    with pytest.raises(ValueError, match="unknown floating-point format 'bf16'"):
        stored(x, "bf16")


@pytest.mark.parametrize("dtype", LOW)
def test_an_array_of_lower_precision_is_rounded(dtype):
    got = stored(X, dtype)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, round_to(X, dtype))


@pytest.mark.parametrize("dtype", LOW)
def test_the_error_is_that_of_one_rounding(dtype):
    """As large as what rounding many numbers really does, and no larger."""
    x = RNG.uniform(1, 2, 20_000)
    got = stored(Tracked(x, MODEL), dtype)
    np.testing.assert_array_equal(got.value, x)
    observed = np.sqrt(np.mean((round_to(x, dtype) - x) ** 2))
    assert np.sqrt(np.mean(got.deviation**2)) == pytest.approx(observed, rel=0.02)


def test_what_the_format_holds_has_no_error_and_subnormals_that_of_their_spacing():
    assert stored(Tracked(np.array([1.0, 1.5, -256.0]), MODEL), "bfloat16").exact
    (deviation,) = stored(Tracked(np.array([2.0**-26 * 1.3]), MODEL), "float16").deviation
    assert deviation == pytest.approx(FORMATS["float16"].smallest_subnormal / np.sqrt(12))
    assert np.isinf(stored(Tracked(np.array([70_000.0]), MODEL), "float16").deviation).all()


def test_float32_between_kernels_that_add_in_float32_costs_nothing():
    x = Tracked(X, MODEL, np.full(X.shape, 1e-6))
    assert stored(x, "float32") is x


def test_earlier_errors_are_kept():
    row = Tracked(np.ones((3, 1)) / 3, MODEL, np.full((3, 1), 1e-4))
    x = Tracked(np.ones((3, 5)) / 7, MODEL) + row
    got = stored(x, "bfloat16")
    assert got.shared.keys() == x.shared.keys()
    assert np.all(got.variance > x.variance)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_chain_through_low_storage_is_within_the_bound_and_fails_without_it(dtype):
    """What a kernel does: sums in float32, the intermediate rounded to the format."""
    middle = round_to(np.tanh(X @ W / 8), dtype).astype(np.float32)
    kernel = middle @ V
    (bounded,) = evaluate(lambda x, w, v: chain(x, w, v, dtype), {"x": X, "w": W, "v": V}, Precision(), [np.float32])
    assert bounded.kind == "tracked"
    ratio = error_ratio(kernel, bounded)
    assert 0.1 < ratio.max() <= 1
    (without,) = evaluate(lambda x, w, v: np.tanh(x @ w / 8) @ v, {"x": X, "w": W, "v": V}, Precision(), [np.float32])
    assert error_ratio(kernel, without).max() > 10


def test_a_coarser_format_in_between_is_found():
    middle = round_to(np.tanh(X @ W / 8), "float8_e4m3fn").astype(np.float32)
    (bounded,) = evaluate(lambda x, w, v: chain(x, w, v, "bfloat16"), {"x": X, "w": W, "v": V}, Precision())
    assert error_ratio(middle @ V, bounded).max() > 1


def test_a_reference_that_cannot_be_followed_is_estimated_with_the_rounding():
    def reference(x, w, v):
        return np.asarray(np.real(stored(np.linalg.norm(x[:, :, None] * w[None], axis=1), "bfloat16") @ v))

    arguments = {"x": X[:4, :8], "w": W[:8], "v": V}
    (bounded,) = evaluate(reference, arguments, Precision())
    assert bounded.kind == "estimated"
    middle = round_to(np.linalg.norm(arguments["x"][:, :, None] * arguments["w"][None], axis=1), "bfloat16")
    assert error_ratio((middle @ V).astype(np.float32), bounded).max() <= 1
    assert bounded.allowed.max() > 64 * 2**-24 * np.abs(bounded.value).max()


def test_noise_is_that_of_the_format():
    x = np.ones(4000, np.float32).view(Noisy)
    x.model, x.rng = MODEL, np.random.default_rng(1)
    noise = np.asarray(stored(x, "bfloat16"), np.float64) - 1
    assert np.abs(noise).max() <= 2.0**-8 + 2.0**-20
    assert noise.std() == pytest.approx(2.0**-8 / np.sqrt(3), rel=0.05)
    assert LAMBDA * noise.std() > 2.0**-8
