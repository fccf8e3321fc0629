"""Rounding, checked bit for bit against NumPy's and ml_dtypes' own conversions."""

import numpy as np
import pytest

from refkit.numerics import formats
from refkit.numerics.formats import FORMATS, STORAGE_DTYPES, format_of, round_to

NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def all_values(name):
    """Every number of a narrow format, as float64, NaN and infinities among them."""
    dtype = STORAGE_DTYPES[name]
    patterns = np.arange(2 ** (8 * dtype.itemsize)).astype(f"uint{8 * dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        return patterns.view(dtype).astype(np.float64)


def midpoints(name):
    """The points halfway between neighbours, the one above the largest finite number among them, and just beside."""
    values = all_values(name)
    finite = np.unique(values[np.isfinite(values)])
    middle = (finite[1:] + finite[:-1]) / 2
    top = FORMATS[name].overflow_threshold
    exact = np.concatenate([middle, [top, -top]])
    # ml_dtypes converts by way of float32, so beside means one float32 away (which holds every midpoint exactly).
    single = exact.astype(np.float32)
    assert np.array_equal(single, exact)
    beside = np.concatenate([np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))])
    return np.concatenate([exact, beside.astype(np.float64)])


def same_bits(a, b):
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("name", NARROW)
def test_every_number_of_a_format_rounds_to_itself(name):
    values = all_values(name)
    for mode in ("nearest-even", "nearest-away", "toward-zero"):
        got = round_to(values, name, mode)
        assert np.array_equal(got, values, equal_nan=True)
        numbers = ~np.isnan(values)
        assert np.array_equal(np.signbit(got[numbers]), np.signbit(values[numbers]))


@pytest.mark.parametrize("name", NARROW)
def test_midpoints_round_as_the_librarys_own_conversion(name):
    points = midpoints(name)
    with np.errstate(all="ignore"):
        expected = points.astype(STORAGE_DTYPES[name]).astype(np.float64)
    got = round_to(points, name)
    number = ~np.isnan(expected)  # the sign of a NaN is the library's own affair
    assert np.array_equal(np.isnan(got), ~number)
    assert same_bits(got[number], expected[number])


def test_random_float64_values_round_to_float32_as_numpy_does():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 200_000, dtype=np.uint64)
    values = np.concatenate([bits.view(np.float64), rng.standard_normal(1000) * 2.0 ** rng.integers(-160, 140, 1000)])
    values = values[~np.isnan(values)]
    with np.errstate(over="ignore"):
        expected = values.astype(np.float32).astype(np.float64)
    assert same_bits(round_to(values, "float32"), expected)


@pytest.mark.parametrize("name", NARROW)
def test_toward_zero_never_grows_and_is_the_neighbour_below(name):
    values = all_values(name)
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    points = np.concatenate([(finite[1:] + finite[:-1]) / 2, np.nextafter(finite[1:], 0)])
    below = finite[np.searchsorted(finite, points, side="right") - 1]
    assert np.array_equal(round_to(points, name, "toward-zero"), below)
    assert np.array_equal(round_to(-points, name, "toward-zero"), -below)
    assert round_to(1e300, name, "toward-zero") == FORMATS[name].max_finite


def test_ties_away_from_zero_differ_from_ties_to_even():
    tie = 1 + 2.0**-11  # halfway between 1 and the next tf32 number
    assert round_to(tie, "tf32") == 1.0
    assert round_to(tie, "tf32", "nearest-away") == 1 + 2.0**-10
    assert round_to(-tie, "tf32", "nearest-away") == -(1 + 2.0**-10)
    assert round_to(tie, "tf32", "toward-zero") == 1.0


def test_overflow_of_e4m3fn_is_nan_or_saturates_when_asked():
    assert round_to(464.0, "float8_e4m3fn") == 448.0
    assert np.isnan(round_to(np.nextafter(464.0, 500.0), "float8_e4m3fn"))
    assert np.isnan(round_to(np.inf, "float8_e4m3fn"))
    assert round_to(-1e9, "float8_e4m3fn", saturate=True) == -448.0
    assert round_to(1e9, "float8_e5m2") == np.inf
    assert round_to(-np.inf, "float8_e5m2", saturate=True) == -57344.0


@pytest.mark.parametrize("name", NARROW)
def test_the_constants_of_a_format_are_those_of_its_values(name):
    values = all_values(name)
    finite = values[np.isfinite(values)]
    fmt = FORMATS[name]
    assert fmt.max_finite == finite.max()
    assert fmt.smallest_subnormal == finite[finite > 0].min()
    assert fmt.has_infinity == bool(np.isinf(values).any())
    positive = np.unique(finite[finite > 0])
    assert np.array_equal(fmt.spacing(positive[:-1]), np.diff(positive))


def test_float64_is_returned_as_a_copy():
    x = np.array([0.1, np.nan])
    y = round_to(x, "float64")
    assert y is not x
    assert np.array_equal(x, y, equal_nan=True)


def test_format_of_takes_names_dtypes_and_formats():
    assert format_of(np.float16) is formats.float16
    assert format_of(STORAGE_DTYPES["bfloat16"]) is formats.bfloat16
    assert format_of("tf32") is formats.tf32
    assert format_of(formats.tf32) is formats.tf32
    with pytest.raises(ValueError, match="int32"):
        format_of(np.int32)
    with pytest.raises(ValueError, match="float7"):
        format_of("float7")
    with pytest.raises(ValueError, match="upwards"):
        round_to(1.0, "float16", "upwards")


def test_only_floating_dtypes_are_floating():
    assert formats.is_floating(np.float32)
    assert formats.is_floating(STORAGE_DTYPES["float8_e5m2"])
    assert not formats.is_floating(np.int64)
    assert not formats.is_floating(bool)
