"""Directed rounding against exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from refkit.cpu.device_library import definitions
from tests.cpu.device_library.exact import FLOAT32, FLOAT64, exact_root, rounded
from tests.cpu.device_library.jit import vectorised

MODES = ("rn", "rz", "rd", "ru")
EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y if y else None,
    "rcp": lambda x: 1 / x if x else None,
    "sqrt": lambda x: exact_root(x) if x > 0 else None,
    "fma": lambda x, y, z: x * y + z,
}
ARITY = {"rcp": 1, "sqrt": 1, "fma": 3}


def numbers(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Every exponent and subnormals; ordinary numbers; small integers; the edges of the range."""
    width = np.dtype(dtype).itemsize
    wild = rng.integers(0, 2 ** (8 * width), count, dtype=f"u{width}").view(dtype)
    tiny = rng.integers(0, 2**30, count, dtype=f"u{width}").view(dtype)
    with np.errstate(over="ignore"):
        edges = np.finfo(dtype).max * rng.choice(np.array([1, 0.5, -1, -0.75], dtype), count)
    parts = [wild, tiny, edges, rng.normal(size=count), rng.integers(-9, 9, count)]
    mixed = np.concatenate([p.astype(dtype) for p in parts])
    return rng.permutation(mixed[np.isfinite(mixed)])[:count]


def check(function, exact, mode, form, arrays):
    got = function(*arrays)
    checked = 0
    for value, *operands in zip(got, *arrays):
        result = exact(*(Fraction(float(x)) for x in operands))
        if result is None:
            continue
        checked += 1
        expected = rounded(result, mode, form) if result else 0.0
        assert float(value) == expected, (mode, operands, value, expected)
        if result:
            assert math.copysign(1, value) == math.copysign(1, expected), (mode, operands)
    assert checked > len(got) // 4


@pytest.mark.parametrize("operation", EXACT)
@pytest.mark.parametrize(("letter", "dtype", "form"), [("f", "f4", FLOAT32), ("d", "f8", FLOAT64)])
def test_every_mode_rounds_the_exact_result_once(operation, letter, dtype, form):
    count = ARITY.get(operation, 2)
    names = {mode: f"__nv_{letter}{operation}_{mode}" for mode in MODES}
    if operation == "fma":
        names = {mode: f"__nv_fma{'f' * (letter == 'f')}_{mode}" for mode in MODES}
    for mode, name in names.items():
        rng = np.random.default_rng(7)
        function = vectorised(definitions([name]), name, dtype, [dtype] * count)
        arrays = [numbers(rng, dtype, 400) for _ in range(count)]
        if operation in ("add", "fma"):
            # sums that cancel but for the last bits
            arrays[-1][:100] = -arrays[0][:100]
            if operation == "fma":
                arrays[1][:50] = 1 + np.finfo(dtype).eps * rng.integers(0, 4, 50)
        check(function, EXACT[operation], mode, form, arrays)


@pytest.mark.parametrize("name", ["__nv_fadd_rd", "__nv_dadd_rd", "__nv_fmaf_rd", "__nv_fma_rd"])
def test_rounding_down_gives_minus_zero_where_terms_cancel(name):
    dtype = "f4" if "f" in name.removeprefix("__nv_").replace("fma_", "ma_") else "f8"
    x, y = np.array([1.5, 0.0, 0.0, -0.0], dtype), np.array([-1.5, 0.0, -0.0, -0.0], dtype)
    if "fma" in name:
        got = vectorised(definitions([name]), name, dtype, [dtype] * 3)(x, np.ones(4, dtype), y)
    else:
        got = vectorised(definitions([name]), name, dtype, [dtype] * 2)(x, y)
    assert np.all(got == 0)
    assert np.signbit(got).tolist() == [True, False, True, True]


@pytest.mark.parametrize("operation", ["add", "mul", "div"])
@pytest.mark.parametrize("mode", MODES)
def test_infinities_and_nan_pass_as_in_ieee(operation, mode):
    special = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 2.5])
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    keep = ~(np.isfinite(x) & np.isfinite(y) & (y != 0))
    x, y = x[keep], y[keep]
    with np.errstate(all="ignore"):
        expected = {"add": np.add, "mul": np.multiply, "div": np.divide}[operation](x, y)
    for letter, dtype in (("f", "f4"), ("d", "f8")):
        name = f"__nv_{letter}{operation}_{mode}"
        got = vectorised(definitions([name]), name, dtype, [dtype, dtype])(x, y)
        np.testing.assert_array_equal(got, expected.astype(dtype))


def test_rsqrt_is_correctly_rounded():
    x = numbers(np.random.default_rng(3), "f4", 2000)
    x = np.abs(x[x != 0])
    got = vectorised(definitions(["__nv_frsqrt_rn"]), "__nv_frsqrt_rn", "f4", ["f4"])(x)
    for value, argument in zip(got, x):
        # 1/sqrt(x) = sqrt(1/x): bring 1/x to a denominator that is a power of two, with a sticky last bit
        scaled, rest = divmod(Fraction(2**1400) / Fraction(float(argument)), 1)
        root = exact_root(Fraction(int(scaled) * 2 + (rest != 0), 2**1401))
        assert float(value) == rounded(root, "rn", FLOAT32), argument


@pytest.mark.parametrize("mode", MODES)
def test_conversions_to_float_round_the_exact_value_once(mode):
    rng = np.random.default_rng(11)
    doubles = numbers(rng, "f8", 400)
    doubles[:150] = rng.normal(size=150) * 2.0 ** rng.integers(-160, 140, 150)
    name = f"__nv_double2float_{mode}"
    check(vectorised(definitions([name]), name, "f4", ["f8"]), lambda x: x, mode, FLOAT32, [doubles])
    for word, dtype in (("int", "i4"), ("uint", "u4"), ("ll", "i8"), ("ull", "u8")):
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.max, 0, 1], dtype)
        values = np.concatenate([rng.integers(info.min, info.max, 200, dtype, endpoint=True), edges])
        for target, out, form in (("float", "f4", FLOAT32), ("double", "f8", FLOAT64)):
            if target == "double" and dtype.endswith("4") and mode != "rn":
                continue  # exact: CUDA has the one mode
            name = f"__nv_{word}2{target}_{mode}"
            function = vectorised(definitions([name]), name, out, [dtype])
            for value, source in zip(function(values), values):
                expected = rounded(Fraction(int(source)), mode, form) if source else 0.0
                assert float(value) == expected, (name, source)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["float", "double"])
def test_conversions_to_integers_saturate_and_map_nan_as_ptx_says(mode, source):
    rng = np.random.default_rng(5)
    dtype = "f4" if source == "float" else "f8"
    x = np.concatenate(
        [
            rng.normal(size=200) * 10.0 ** rng.integers(-2, 20, 200),
            [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e30, -1e30, math.inf, -math.inf, math.nan, 0.0],
        ]
    ).astype(dtype)
    integral = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
    for word, out in (("int", "i4"), ("uint", "u4"), ("ll", "i8"), ("ull", "u8")):
        info = np.iinfo(out)
        name = f"__nv_{source}2{word}_{mode}"
        got = vectorised(definitions([name]), name, out, [dtype])(x)
        for value, argument in zip(got, x):
            if math.isnan(argument):
                to_zero = source == "float" and info.bits == 32
                assert int(value) % 2**info.bits == (0 if to_zero else 2 ** (info.bits - 1))
                continue
            whole = integral(argument)
            expected = min(max(int(whole), info.min), info.max) if math.isfinite(whole) else None
            expected = (info.max if whole > 0 else info.min) if expected is None else expected
            assert int(value) == expected, (name, argument)
