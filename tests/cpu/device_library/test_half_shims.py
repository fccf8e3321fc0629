"""The half-precision shims: conversions over every encoding, arithmetic against exact rounding, and the rest."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from refkit.cpu.device_library import definitions
from tests.cpu.device_library.exact import BFLOAT16, FLOAT16, rounded
from tests.cpu.device_library.jit import vectorised

ALL = np.arange(2**16, dtype=np.uint16)
FORMATS = {"6__half": (np.float16, FLOAT16), "13__nv_bfloat16": (ml_dtypes.bfloat16, BFLOAT16)}
NAN = 0x7FFF


def shim(symbol, result, *parameters, constructor=False):
    """A function of arrays for a shim; constructors have an ignored result and then the object."""
    pointers = [f"*{p}" for p in (("i4", result) if constructor else (result,)) + parameters]
    run = vectorised(definitions([symbol]), symbol, None, pointers, status=True)

    def call(*arrays):
        arrays = [np.array(a, dtype) for a, dtype in zip(arrays, parameters)]
        out = np.full(arrays[0].size, 0x55, result)
        run(*([np.zeros(out.size, np.int32)] * constructor), out, *arrays)
        return out

    return call


def values_of(bits, dtype):
    with np.errstate(invalid="ignore"):
        return bits.view(dtype).astype(np.float64)


def assert_same_numbers(got_bits, expected, dtype):
    """Encodings equal to the expected numbers, zeros by sign; NaN must be the GPU's."""
    got = values_of(got_bits, dtype)
    np.testing.assert_array_equal(got, expected)
    zero = expected == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(np.asarray(expected)[zero]))
    assert np.all(got_bits[np.isnan(expected)] == NAN)


def samples(seed=0, count=4000):
    rng = np.random.default_rng(seed)
    special = np.array([0, 0x8000, 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7FFF, 1, 0x8001, 0x3C00, 0x3F80], np.uint16)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    wild = rng.integers(0, 2**16, (2, count), dtype=np.uint16)
    return np.concatenate([x, wild[0]]), np.concatenate([y, wild[1]])


@pytest.mark.parametrize("name", FORMATS)
def test_every_encoding_widens_to_its_value(name):
    dtype, _ = FORMATS[name]
    symbol = {
        "6__half": "_ZL12__half2float6__half_nbst",
        "13__nv_bfloat16": "_ZL16__bfloat162float13__nv_bfloat16_nbst",
    }[name]
    got = shim(symbol, "f4", "u2")(ALL)
    np.testing.assert_array_equal(got, ALL.view(dtype).astype(np.float32))
    assert np.array_equal(
        np.signbit(got), np.signbit(ALL.view(dtype)) & ~np.isnan(got) | (np.signbit(got) & np.isnan(got))
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
def test_floats_narrow_in_every_mode_at_below_and_above_every_midpoint(name, mode):
    dtype, form = FORMATS[name]
    word = "half" if "half" in name else "bfloat16"
    length = len(f"__float2{word}_{mode}")
    symbol = f"_ZL{length}__float2{word}_{mode}f_nbst"
    finite = np.unique(np.abs(values_of(ALL, dtype)))
    finite = finite[np.isfinite(finite)][::7]
    middle = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate(
        [finite, middle, np.nextafter(middle.astype("f4"), 0), np.nextafter(middle.astype("f4"), np.inf)]
    )
    x = np.concatenate([x, -x, [np.finfo("f4").max, 1e-45, 65519.99, 65520.0]]).astype(np.float32)
    got = values_of(shim(symbol, "u2", "f4")(x), dtype)
    expected = [rounded(Fraction(float(v)), mode, form) if v else float(v) for v in x]
    np.testing.assert_array_equal(got, expected)
    assert shim(symbol, "u2", "f4")(np.array([np.nan, -np.nan, np.inf, -np.inf])).tolist()[:2] == [NAN, NAN]


@pytest.mark.parametrize("name", FORMATS)
def test_doubles_are_rounded_once(name):
    """A double just beyond a midpoint, which float32 would round onto the midpoint."""
    dtype, form = FORMATS[name]
    word = "half" if "half" in name else "bfloat16"
    eps = 2.0 ** (1 - form[0])
    x = np.array(
        [1 + eps / 2 + 2.0**-40, 1 + eps / 2 - 2.0**-40, 1 + eps / 2, 1 + 3 * eps / 2, math.inf, 1e300, 5e-324]
    )
    got = values_of(shim(f"_ZL{len('__double2' + word)}__double2{word}d_nbst", "u2", "f8")(x), dtype)
    assert got.tolist() == [1 + eps, 1, 1, 1 + 2 * eps, math.inf, math.inf, 0]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("operator", "emit"), [("pl", np.add), ("mi", np.subtract), ("ml", np.multiply), ("dv", np.divide)]
)
def test_operators_round_once(name, operator, emit):
    dtype, _ = FORMATS[name]
    x, y = samples()
    got = shim(f"_Z{operator}RK{name}S1__nbst", "u2", "u2", "u2")(x, y)
    with np.errstate(all="ignore"):
        # 2 p + 2 = 24 bits at most: the float32 result rounded once more is the exact result rounded once
        expected = emit(x.view(dtype).astype(np.float32), y.view(dtype).astype(np.float32)).astype(dtype)
    assert_same_numbers(got, expected.astype(np.float64), dtype)


@pytest.mark.parametrize("name", FORMATS)
def test_fma_rounds_the_exact_value_once(name):
    dtype, form = FORMATS[name]
    rng = np.random.default_rng(2)
    x, y, z = (rng.integers(0, 2**16, 3000, dtype=np.uint16) for _ in range(3))
    # products on or next to a midpoint with a tiny addend decide the rounding
    x[:1000], y[:1000] = (np.asarray(rng.integers(1, 2**6, 1000), dtype).view(np.uint16) for _ in range(2))
    z[:1000] = np.ldexp(rng.choice([-1.0, 1.0], 1000), rng.integers(-14, 3, 1000)).astype(dtype).view(np.uint16)
    length = len("__hfma")
    got = shim(f"_ZL{length}__hfma{name}S_S__nbst", "u2", "u2", "u2", "u2")(x, y, z)
    operands = [values_of(v, dtype) for v in (x, y, z)]
    keep = np.isfinite(operands).all(axis=0)
    for bits, a, b, c in zip(got[keep], *(v[keep] for v in operands)):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        expected = rounded(exact, "rn", form) if exact else 0.0
        assert values_of(np.array([bits]), dtype)[0] == expected, (a, b, c)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("function", "emit", "slack"),
    [("hsqrt", np.sqrt, 0), ("hrcp", np.reciprocal, 0), ("hrsqrt", lambda x: 1 / np.sqrt(x), 0)]
    + [(f"h{f}", getattr(np, f), 1) for f in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tanh")]
    + [("hexp10", lambda x: 10**x, 1), ("htanh_approx", np.tanh, 1)]
    + [("htrunc", np.trunc, 0), ("hceil", np.ceil, 0), ("hfloor", np.floor, 0), ("hrint", np.rint, 0)],
)
def test_functions_of_every_encoding(name, function, emit, slack):
    dtype, _ = FORMATS[name]
    got = shim(f"_ZL{len(function)}{function}{name}_nbst", "u2", "u2")(ALL)
    with np.errstate(all="ignore"):
        expected = emit(values_of(ALL, dtype)).astype(dtype)
    differing = (got.view(dtype) != expected) & ~(np.isnan(expected) & (got == NAN))
    # NumPy's own float64 functions differ from libm's in the last place, which can tip a rounding
    assert np.count_nonzero(differing) <= slack
    steps = np.abs(got.astype(np.int32) - expected.view(np.uint16).astype(np.int32))
    assert np.all(steps[differing] <= 1)


@pytest.mark.parametrize("name", FORMATS)
def test_minimum_and_maximum(name):
    dtype, _ = FORMATS[name]
    x, y = samples(4)
    a, b = (values_of(v, dtype) for v in (x, y))
    for which, emit, propagate in (("max", np.fmax, np.maximum), ("min", np.fmin, np.minimum)):
        symbol = f"_ZL6__h{which}{name}S__nbst"
        got = shim(symbol, "u2", "u2", "u2")(x, y)
        np.testing.assert_array_equal(values_of(got, dtype), emit(a, b))
        nan = shim(f"_ZL10__h{which}_nan{name}S__nbst", "u2", "u2", "u2")(x, y)
        np.testing.assert_array_equal(values_of(nan, dtype), propagate(a, b))
        assert np.all(nan[np.isnan(a) | np.isnan(b)] == NAN)
        zeros = shim(symbol, "u2", "u2", "u2")(np.array([0, 0x8000]), np.array([0x8000, 0]))
        assert zeros.tolist() == ([0, 0] if which == "max" else [0x8000, 0x8000])


@pytest.mark.parametrize("name", FORMATS)
def test_comparisons(name):
    dtype, _ = FORMATS[name]
    x, y = samples(5)
    a, b = (values_of(v, dtype) for v in (x, y))
    unordered = np.isnan(a) | np.isnan(b)
    relations = {"eq": a == b, "ne": (a != b) & ~unordered, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    for relation, expected in relations.items():
        got = shim(f"_ZL5__h{relation}{name}S__nbst", "u1", "u2", "u2")(x, y)
        np.testing.assert_array_equal(got, expected)
        got = shim(f"_ZL6__h{relation}u{name}S__nbst", "u1", "u2", "u2")(x, y)
        np.testing.assert_array_equal(got, expected | unordered)
        got = shim(f"_Z{relation}RK{name}S1__nbst", "u1", "u2", "u2")(x, y)
        np.testing.assert_array_equal(got, a != b if relation == "ne" else expected)


@pytest.mark.parametrize("name", FORMATS)
def test_saturation_and_rectification(name):
    dtype, _ = FORMATS[name]
    x, y = samples(6)
    with np.errstate(all="ignore"):
        total = (x.view(dtype).astype("f4") + y.view(dtype).astype("f4")).astype(dtype).astype("f8")
    got = shim(f"_ZL10__hadd_sat{name}S__nbst", "u2", "u2", "u2")(x, y)
    np.testing.assert_array_equal(values_of(got, dtype), np.clip(np.nan_to_num(total, nan=0.0), 0, 1))
    one = np.full_like(x, 0x3C00 if dtype is np.float16 else 0x3F80)
    got = shim(f"_ZL11__hfma_relu{name}S_S__nbst", "u2", "u2", "u2", "u2")(x, one, y)
    np.testing.assert_array_equal(values_of(got, dtype), np.maximum(total, 0))
    assert np.all(got[np.isnan(total)] == NAN)


@pytest.mark.parametrize("name", FORMATS)
def test_integers_convert_both_ways(name):
    dtype, form = FORMATS[name]
    word = "half" if "half" in name else "bfloat16"
    rng = np.random.default_rng(8)
    for kind, letter, integer in (
        *(("short", "s", "i2"), ("ushort", "t", "u2"), ("int", "i", "i4")),
        *(("uint", "j", "u4"), ("ll", "x", "i8"), ("ull", "y", "u8")),
    ):
        info = np.iinfo(integer)
        edges = np.array([info.min, info.max, 1, 2049, 257], integer)
        source = np.concatenate([rng.integers(info.min, info.max, 200, integer, endpoint=True), edges])
        for mode, emit in (("rn", np.rint), ("rz", np.trunc), ("rd", np.floor), ("ru", np.ceil)):
            into = f"__{kind}2{word}_{mode}"
            got = values_of(shim(f"_ZL{len(into)}{into}{letter}_nbst", "u2", integer)(source), dtype)
            expected = [rounded(Fraction(int(v)), mode, form) if v else 0.0 for v in source]
            np.testing.assert_array_equal(got, expected)
            out = f"__{word}2{kind}_{mode}"
            got = shim(f"_ZL{len(out)}{out}{name}_nbst", integer, "u2")(ALL)
            x = values_of(ALL, dtype)
            finite = np.isfinite(x)
            whole = [min(max(int(v), info.min), info.max) for v in emit(x[finite])]
            assert got[finite].tolist() == whole
            nan = 0 if info.bits < 64 else -(2**63) if info.min else 2**63
            assert set(got[np.isnan(x)].tolist()) == {nan}
            assert got[x == np.inf].tolist() == [info.max]


def test_constructors_and_conversion_operators():
    x = np.array([1.0, -2.5, 3.1415927, 1e-8, 70000.0], np.float32)
    got = shim("_ZN6__halfC1Ef_nbst", "u2", "f4", constructor=True)(x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got.view(np.float16), x.astype(np.float16))
    got = shim("_ZN13__nv_bfloat16C1Ed_nbst", "u2", "f8", constructor=True)(x.astype(np.float64))
    np.testing.assert_array_equal(got.view(ml_dtypes.bfloat16), x.astype(ml_dtypes.bfloat16))
    bits = x.astype(ml_dtypes.bfloat16).view(np.uint16)
    got = shim("____nv_bfloat16__ZNK13__nv_bfloat16cviEv_1", "i4", "u2")(bits)
    assert got.tolist() == [1, -2, 3, 0, 70144]
    got = shim("____nv_bfloat16__ZNK13__nv_bfloat16cvbEv_1", "u1", "u2")(np.array([0, 0x8000, 1, 0x7FFF]))
    assert got.tolist() == [0, 0, 1, 1]


def test_assignment_writes_the_left_operand_too():
    symbol = "_ZpLR13__nv_bfloat16RKS__nbst"
    run = vectorised(definitions([symbol]), symbol, None, ["*u2"] * 3, status=True)
    result = np.zeros(1, np.uint16)
    left, right = (np.array([v], ml_dtypes.bfloat16).view(np.uint16) for v in (1.5, 2.0))
    run(result, left, right)
    assert left.view(ml_dtypes.bfloat16)[0] == result.view(ml_dtypes.bfloat16)[0] == 3.5


def test_pairs_are_two_single_numbers():
    x = np.array([[1.5, -2.0], [math.nan, 4.0]], ml_dtypes.bfloat16)
    y = np.array([[1.5, 3.0], [1.0, 4.0]], ml_dtypes.bfloat16)
    x4, y4 = (v.view(np.uint32).ravel() for v in (x, y))
    pair = "14__nv_bfloat162S_"
    got = shim(f"_ZL7__hadd2{pair}_nbst", "u4", "u4", "u4")(x4, y4).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got.astype("f4"), [3.0, 1.0, math.nan, 8.0])
    assert shim(f"_ZL11__heq2_mask{pair}_nbst", "u4", "u4", "u4")(x4, y4).tolist() == [0xFFFF, 0xFFFF0000]
    assert shim(f"_ZL7__hbeq2{pair}_nbst", "u1", "u4", "u4")(x4, y4).tolist() == [0, 0]
    numbers = shim(f"_ZL6__heq2{pair}_nbst", "u4", "u4", "u4")(x4, y4).view(ml_dtypes.bfloat16)
    assert numbers.astype("f4").tolist() == [1, 0, 0, 1]
    swapped = shim("_ZL17__lowhigh2highlow14__nv_bfloat162_nbst", "u4", "u4")(x4[:1]).view(ml_dtypes.bfloat16)
    assert swapped.astype("f4").tolist() == [-2.0, 1.5]
    twice = shim("_ZL20__float2bfloat162_rnf_nbst", "u4", "f4")(np.array([1.25])).view(ml_dtypes.bfloat16)
    assert twice.astype("f4").tolist() == [1.25, 1.25]
    # (1.5 - 2i)(1.5 + 3i) + (1.5 - 2i)
    complex_ = shim("_ZL8__hcmadd14__nv_bfloat162S_S__nbst", "u4", "u4", "u4", "u4")(x4[:1], y4[:1], x4[:1])
    assert complex_.view(ml_dtypes.bfloat16).astype("f4").tolist() == [9.75, -0.5]


@pytest.mark.parametrize("name", FORMATS)
def test_classification_and_sign(name):
    dtype, _ = FORMATS[name]
    x = values_of(ALL, dtype)
    np.testing.assert_array_equal(shim(f"_ZL8__hisnan{name}_nbst", "u1", "u2")(ALL), np.isnan(x))
    np.testing.assert_array_equal(
        shim(f"_ZL8__hisinf{name}_nbst", "i4", "u2")(ALL), np.isinf(x) * np.nan_to_num(np.sign(x))
    )
    np.testing.assert_array_equal(shim(f"_ZL6__habs{name}_nbst", "u2", "u2")(ALL), ALL & 0x7FFF)
    np.testing.assert_array_equal(shim(f"_Zng{'RK' + name}_nbst", "u2", "u2")(ALL), ALL ^ 0x8000)


@pytest.mark.parametrize("name", FORMATS)
def test_memory_shims_go_through_a_pointer(name):
    dtype, _ = FORMATS[name]
    memory = np.array([1.5, 2.5], dtype).view(np.uint16)
    address = np.array([memory.ctypes.data, memory.ctypes.data + 2], np.uint64)
    got = shim(f"_ZL6__ldcgPK{name}_nbst", "u2", "u8")(address)
    assert got.tolist() == memory.tolist()
    old = shim(f"_ZL9atomicAddP{name}S__nbst", "u2", "u8", "u2")(
        address[[0, 0]], np.array([0.5, 1.0], dtype).view(np.uint16)
    )
    assert values_of(old, dtype).tolist() == [1.5, 2.0]
    assert values_of(memory, dtype).tolist() == [3.0, 2.5]
    shim(f"_ZL6__stcsP{name}S__nbst", "i4", "u8", "u2")(address[1:], np.array([7.0], dtype).view(np.uint16))
    assert values_of(memory, dtype).tolist() == [3.0, 7.0]
