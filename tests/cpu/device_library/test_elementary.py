"""Errors of the elementary and special functions in ulp, against longdouble NumPy and float64 SciPy."""

import math
from decimal import Decimal

import numpy as np
import pytest
import scipy.special

from refkit.cpu.device_library import definitions
from tests.cpu.device_library import error_function
from tests.cpu.device_library.jit import vectorised

LONG = np.longdouble


def compiled(name, result, *parameters):
    return vectorised(definitions([name]), name, result, parameters)


def ulps(got, expected, dtype):
    """Distance in units in the last place of the expected value's own binade; 0 where both are NaN or equal."""
    expected = np.asarray(expected, LONG)
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(np.abs(expected))[1] - 1, info.minexp)
        unit = np.ldexp(LONG(1), exponent - info.nmant)
        distance = np.abs(got.astype(LONG) - expected) / unit
    same = (np.isnan(got) & np.isnan(expected)) | (got == expected.astype(dtype))
    return np.where(same, np.where(np.isfinite(distance), distance, 0), np.nan_to_num(distance, nan=np.inf))


def worst(name, dtype, reference, *arguments):
    got = compiled(name, dtype, *[a.dtype.str[1:] for a in arguments])(*arguments)
    with np.errstate(all="ignore"):
        return float(ulps(got, reference(*(a.astype(LONG) for a in arguments)), dtype).max())


def spread(low, high, count=4000, seed=0):
    return np.random.default_rng(seed).uniform(low, high, count)


# (function, longdouble reference, range, CUDA's documented float64 error in ulp)
LIBM = [
    ("exp", np.exp, -745, 710, 1),
    ("exp2", np.exp2, -1070, 1024, 1),
    ("exp10", lambda x: LONG(10) ** x, -320, 308, 1),
    ("expm1", np.expm1, -40, 700, 1),
    ("log", np.log, 0, 1e300, 1),
    ("log2", np.log2, 0, 100, 1),
    ("log10", np.log10, 0, 100, 1),
    ("log1p", np.log1p, -1, 2, 1),
    ("sin", np.sin, -50, 50, 2),
    ("cos", np.cos, -50, 50, 2),
    ("tan", np.tan, -50, 50, 2),
    ("sinh", np.sinh, -700, 700, 2),
    ("cosh", np.cosh, -700, 700, 1),
    ("tanh", np.tanh, -5, 5, 2),
    ("asin", np.arcsin, -1, 1, 2),
    ("acos", np.arccos, -1, 1, 2),
    ("atan", np.arctan, -20, 20, 2),
    ("asinh", np.arcsinh, -100, 100, 3),
    ("acosh", np.arccosh, 1, 100, 3),
    ("atanh", np.arctanh, -1, 1, 2),
    ("cbrt", np.cbrt, -1e3, 1e3, 1),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 0, 1e9, 1),
    ("rcbrt", lambda x: 1 / np.cbrt(x), -1e3, 1e3, 1),
]


@pytest.mark.parametrize(("name", "reference", "low", "high", "allowed"), LIBM, ids=[row[0] for row in LIBM])
def test_float64_stays_within_the_documented_error(name, reference, low, high, allowed):
    assert worst(f"__nv_{name}", "f8", reference, spread(low, high)) <= allowed


@pytest.mark.parametrize(("name", "reference", "low", "high", "_"), LIBM, ids=[row[0] for row in LIBM])
def test_float32_is_all_but_correctly_rounded(name, reference, low, high, _):
    x = spread(max(low, -1e30), min(high, 1e30)).astype("f4")
    with np.errstate(over="ignore"):
        x = np.concatenate([x, (x * np.float32(1e-3)).astype("f4")])
    assert worst(f"__nv_{name}f", "f4", reference, x) <= 0.5001


def test_functions_of_two_arguments():
    x, y = spread(-20, 20), spread(-20, 20, seed=1)
    assert worst("__nv_atan2", "f8", np.arctan2, x, y) <= 2
    assert worst("__nv_hypot", "f8", np.hypot, x, y) <= 2
    assert worst("__nv_pow", "f8", np.power, np.abs(x), y) <= 2
    assert worst("__nv_fmod", "f8", np.fmod, x, y) == 0
    single = [v.astype("f4") for v in (x, y)]
    assert worst("__nv_atan2f", "f4", np.arctan2, *single) <= 0.5001
    assert worst("__nv_hypotf", "f4", np.hypot, *single) <= 0.5001
    assert worst("__nv_powf", "f4", np.power, np.abs(single[0]), single[1]) <= 0.5001
    n = np.random.default_rng(2).integers(-30, 30, x.size).astype("i4")
    assert worst("__nv_powi", "f8", lambda a, k: np.power(a, k), x, n) <= 2
    assert worst("__nv_powif", "f4", lambda a, k: np.power(a, k), single[0], n) <= 0.5001
    assert compiled("__nv_remainder", "f8", "f8", "f8")(x, y).tolist() == [math.remainder(a, b) for a, b in zip(x, y)]


# (function, SciPy's, range, error in ulp of the two together)
SPECIAL = [
    ("erf", scipy.special.erf, -4, 4, 2),
    ("erfinv", scipy.special.erfinv, -1, 1, 6),
    ("erfcinv", scipy.special.erfcinv, 0, 2, 6),
    ("normcdfinv", scipy.special.ndtri, 0, 1, 8),
    ("tgamma", scipy.special.gamma, 0.1, 170, 16),
    ("lgamma", scipy.special.gammaln, 3, 1e4, 4),
]


@pytest.mark.parametrize(("name", "reference", "low", "high", "allowed"), SPECIAL, ids=[row[0] for row in SPECIAL])
def test_special_functions(name, reference, low, high, allowed):
    x = spread(low, high)
    if name in ("erfinv", "erfcinv", "normcdfinv"):
        tails = 10.0 ** -spread(0.3, 300, 500)
        x = np.concatenate([x, tails if low == 0 else 1 - 10.0 ** -spread(0.3, 15, 500)])
    assert worst(f"__nv_{name}", "f8", lambda v: reference(v.astype("f8")), x) <= allowed
    single = x.astype("f4")
    single = single[(single > low) & (single < high)]
    assert worst(f"__nv_{name}f", "f4", lambda v: reference(v.astype("f8")), single) <= 0.501


@pytest.mark.parametrize(
    ("name", "low", "high", "allowed"),
    [("erfc", -5, 26.4, 5), ("erfcx", -26, 40, 10), ("normcdf", -37, 8, 8)],
)
def test_tails_of_the_error_function(name, low, high, allowed):
    """The relative error does not grow into the tail, where exp(-x^2) magnifies every rounding of its argument."""
    x = spread(low, high, 250)
    oracle = getattr(error_function, name)
    expected = np.array([LONG(str(oracle(Decimal(float(v))))) for v in x])
    got = compiled(f"__nv_{name}", "f8", "f8")(x)
    assert ulps(got, expected, "f8").max() <= allowed
    single = x[(x > -9) & (x < 9)].astype("f4")
    expected = np.array([LONG(str(oracle(Decimal(float(v))))) for v in single])
    assert ulps(compiled(f"__nv_{name}f", "f4", "f4")(single), expected, "f4").max() <= 0.501


def test_special_functions_at_the_edges():
    edge = {
        "erfinv": ([0.0, -0.0, 1, -1, 1.5, math.nan], [0, 0, math.inf, -math.inf, math.nan, math.nan]),
        "erfcinv": ([1.0, 0, 2, -0.5, 2.5], [0, math.inf, -math.inf, math.nan, math.nan]),
        "normcdf": ([0.0, math.inf, -math.inf, -40, math.nan], [0.5, 1, 0, 0, math.nan]),
        "normcdfinv": ([0.5, 0, 1, 1.5], [0, -math.inf, math.inf, math.nan]),
        "erfcx": ([0.0, math.inf, -math.inf, -30], [1, 0, math.inf, math.inf]),
    }
    for name, (x, expected) in edge.items():
        got = compiled(f"__nv_{name}", "f8", "f8")(np.array(x, float))
        np.testing.assert_array_equal(got, expected, err_msg=name)


def test_sinpi_and_cospi_are_exact_where_they_should_be():
    quarters = np.arange(-40, 41) / 2
    sine, cosine = (compiled(f"__nv_{n}", "f8", "f8")(quarters) for n in ("sinpi", "cospi"))
    assert set(sine[::2].tolist()) == {0.0}
    np.testing.assert_array_equal(sine[1::2], np.where(np.arange(-20, 20) % 2, -1, 1))
    np.testing.assert_array_equal(cosine[::2], np.where(np.arange(-20, 21) % 2, -1, 1))
    assert np.all(cosine[1::2] == 0)
    assert np.array_equal(np.signbit(sine[::2]), quarters[::2] < 0)
    x = spread(-3, 3)
    pi = LONG("3.14159265358979323846264338327950288")
    far = np.abs(np.sin(pi * x.astype(LONG))) > 1e-3
    assert worst("__nv_sinpi", "f8", lambda v: np.sin(pi * v), x[far]) <= 2
    assert np.isnan(compiled("__nv_sinpi", "f8", "f8")(np.array([math.inf]))).all()
    both = vectorised(definitions(["__nv_sincospif"]), "__nv_sincospif", None, ["f4", "*f4", "*f4"])
    a, b = np.zeros(3, "f4"), np.zeros(3, "f4")
    both(np.array([0.25, 0.5, 1.0], "f4"), a, b)
    np.testing.assert_allclose(a, [math.sqrt(0.5), 1, 0], rtol=1e-7)
    np.testing.assert_allclose(b, [math.sqrt(0.5), 0, -1], rtol=1e-7)


def test_fast_functions_keep_the_character_of_the_hardware():
    """`__expf` errs by up to 2 + |1.173 x| ulp; `__powf` of a negative base is NaN; `__fdividef` by 2^127 is 0."""
    x = spread(-80, 80).astype("f4")
    got = compiled("__nv_fast_expf", "f4", "f4")(x)
    error = ulps(got, np.exp(x.astype(LONG)), "f4")
    assert np.all(error <= 2 + np.floor(np.abs(1.173 * x.astype("f8"))))
    assert error.max() > 10
    assert np.isnan(compiled("__nv_fast_powf", "f4", "f4", "f4")(np.array([-2.0]), np.array([2.0]))).all()
    divide = compiled("__nv_fast_fdividef", "f4", "f4", "f4")
    got = divide(np.array([1.0, math.inf, 6.0]), np.array([2.0**127, 2.0**127, 3.0]))
    np.testing.assert_array_equal(got, [0, math.nan, 2])


def test_numbers_taken_apart():
    x = np.array([1.5, -6.0, 0.0, -0.0, math.inf, 5e-324, -2.75])
    fraction_, exponent = np.frexp(x)
    exponents = np.full(x.size, 99, np.int32)
    frexp = vectorised(definitions(["__nv_frexp"]), "__nv_frexp", "f8", ["f8", "*i4"])
    np.testing.assert_array_equal(frexp(x, exponents), fraction_)
    assert exponents.tolist() == exponent.tolist()
    whole = np.zeros(x.size)
    modf = vectorised(definitions(["__nv_modf"]), "__nv_modf", "f8", ["f8", "*f8"])
    rest = modf(x, whole)
    expected = [math.modf(v) for v in x]
    assert list(zip(rest.tolist(), whole.tolist())) == expected
    assert compiled("__nv_ilogb", "i4", "f8")(x).tolist() == [0, 2, -(2**31), -(2**31), 2**31 - 1, -1074, 1]
    np.testing.assert_array_equal(
        compiled("__nv_logb", "f8", "f8")(x), [0, 2, -math.inf, -math.inf, math.inf, -1074, 1]
    )
    quotient = np.zeros(3, np.int32)
    remquo = vectorised(definitions(["__nv_remquo"]), "__nv_remquo", "f8", ["f8", "f8", "*i4"])
    assert remquo(np.array([17.0, -17.0, 100.0]), np.array([3.0, 3.0, 7.0]), quotient).tolist() == [-1, 1, 2]
    assert quotient.tolist() == [6, -6, 6]  # 14 is 6 modulo 8


@pytest.mark.parametrize(("ending", "dtype"), [("", "f8"), ("f", "f4")])
def test_neighbours_and_extremes(ending, dtype):
    special = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, np.finfo(dtype).max, 1e-42], dtype)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    np.testing.assert_array_equal(compiled(f"__nv_nextafter{ending}", dtype, dtype, dtype)(x, y), np.nextafter(x, y))
    np.testing.assert_array_equal(compiled(f"__nv_fmax{ending}", dtype, dtype, dtype)(x, y), np.fmax(x, y))
    np.testing.assert_array_equal(compiled(f"__nv_fmin{ending}", dtype, dtype, dtype)(x, y), np.fmin(x, y))
    zeros = compiled(f"__nv_fmax{ending}", dtype, dtype, dtype)(np.array([0.0, -0.0]), np.array([-0.0, 0.0]))
    assert not np.signbit(zeros).any()
    expected = np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - np.where(x == y, 0, y), 0))
    np.testing.assert_array_equal(compiled(f"__nv_fdim{ending}", dtype, dtype, dtype)(x, y), expected)


def test_saturate():
    x = np.array([-1.0, -0.0, 0.25, 2.0, math.nan, math.inf])
    got = compiled("__nv_saturatef", "f4", "f4")(x)
    assert got.tolist() == [0, 0, 0.25, 1, 0, 1]
    assert not np.signbit(got).any()
