"""Constructors and conversions of the fp8 types, over every 16-bit float and every fp8 encoding."""

import math

import ml_dtypes
import numpy as np
import pytest

from refkit.cpu.device_library import definitions
from tests.cpu.device_library.jit import vectorised

ALL = np.arange(256, dtype=np.uint8)
FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0)}


def shim(symbol, *dtypes):
    """A function of arrays: the first dtype is that of the object or result, which is written."""
    run = vectorised(definitions([symbol]), symbol, None, [f"*{d}" for d in dtypes], status=True)

    def call(*arrays):
        arrays = [np.ascontiguousarray(a, d) for a, d in zip(arrays, dtypes[1:])]
        out = np.zeros(arrays[0].size, dtypes[0])
        run(out, *arrays)
        return out

    return call


@pytest.mark.parametrize("name", FORMATS)
def test_constructors_round_and_saturate(name):
    dtype, largest = FORMATS[name]
    half = np.arange(2**16, dtype=np.uint16)
    x = half.view(np.float16).astype(np.float64)
    finite = np.isfinite(x)
    expected = np.clip(x[finite], -largest, largest).astype(dtype)
    for letter, source, values in (
        ("6__half", "u2", half),
        ("f", "f4", x.astype("f4")),
        ("d", "f8", x),
    ):
        got = shim(f"_ZN13__nv_fp8_{name}C1E{letter}_nbst", "u1", source)(values)
        np.testing.assert_array_equal(got[finite].view(dtype).astype("f4"), expected.astype("f4"))
        assert got[np.isnan(x)].tolist() == [0x7F] * np.count_nonzero(np.isnan(x))
        assert set(got[np.isinf(x)].view(dtype).astype("f4").tolist()) == {largest, -largest}
    whole = np.array([0, 1, -7, 300, 2**31 - 1, -(2**31)])
    got = shim(f"_ZN13__nv_fp8_{name}C1Ei_nbst", "u1", "i4")(whole).view(dtype)
    assert got.tolist() == np.clip(whole, -largest, largest).astype(dtype).tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_every_encoding_converts_out(name):
    dtype, _ = FORMATS[name]
    x = ALL.view(dtype).astype(np.float64)
    owner = f"_ZNK13__nv_fp8_{name}cv"
    np.testing.assert_array_equal(shim(f"{owner}fEv_nbst", "f4", "u1")(ALL), x)
    np.testing.assert_array_equal(shim(f"{owner}dEv_nbst", "f8", "u1")(ALL), x)
    np.testing.assert_array_equal(shim(f"{owner}6__halfEv_nbst", "u2", "u1")(ALL).view("f2"), x)
    got = shim(f"{owner}13__nv_bfloat16Ev_nbst", "u2", "u1")(ALL).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got.astype("f8"), x)
    np.testing.assert_array_equal(shim(f"{owner}bEv_nbst", "u1", "u1")(ALL), x != 0)
    integers = shim(f"{owner}aEv_nbst", "i1", "u1")(ALL)
    expected = [0 if math.isnan(v) else int(max(-128.0, min(127.0, v))) for v in x]
    assert integers.tolist() == expected


def test_quadruples_go_out_and_back():
    """One object of four floats: the element type of the loop does not matter, since it runs once."""
    x = np.array([1.0, -2.5, 1e9, 0.1], "f4")
    packed, back = np.zeros(4, np.uint8), np.zeros(4, "f4")
    into, out = "_ZN15__nv_fp8x4_e4m3C1E6float4_nbst", "_ZNK15__nv_fp8x4_e4m3cv6float4Ev_nbst"
    vectorised(definitions([into]), into, None, ["*u4", "*u8"], status=True)(packed.view("u4"), x.view("u8")[:1])
    assert packed.view(ml_dtypes.float8_e4m3fn).tolist() == [1.0, -2.5, 448.0, 0.1015625]
    vectorised(definitions([out]), out, None, ["*u8", "*u4"], status=True)(back.view("u8")[:1], packed.view("u4"))
    assert back.tolist() == [1.0, -2.5, 448.0, 0.1015625]


@pytest.mark.parametrize("saturation", [0, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_the_conversion_functions_take_the_overflow_rule(saturation, name):
    dtype, largest = FORMATS[name]
    x = np.array([1.5, 1e6, -1e6, math.inf, math.nan, 0.07], "f4")
    symbol = "_ZL21__nv_cvt_float_to_fp8f17__nv_saturation_t25__nv_fp8_interpretation_t_nbst"
    kind = list(FORMATS).index(name)
    got = shim(symbol, "u1", "f4", "i8", "i8")(x, np.full(6, saturation), np.full(6, kind)).view(dtype).astype("f4")
    beyond = largest if saturation else math.inf if name == "e5m2" else math.nan
    small = float(np.float32(0.07).astype(dtype))
    np.testing.assert_array_equal(got, [1.5, beyond, -beyond, beyond, math.nan, small])


# --- e8m0 ------------------------------------------------------------------------------------------------------------

SCALES = ALL.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)  # 2^-127 to 2^127, then NaN
ROUNDINGS = {"nearest": 0, "zero": 1, "up": 2, "down": 3}


def codes_of(x, rounding: str, saturate: bool = True) -> list[int]:
    """The codes of numbers, by comparison with the 255 powers of two; a midpoint goes up."""
    found = []
    for value in np.abs(np.asarray(x, np.float64)):
        below = int(np.searchsorted(SCALES[:255], value, side="right")) - 1
        exact = below >= 0 and SCALES[below] == value
        if math.isnan(value):
            code = 255
        elif below < 0:
            code = 0
        elif rounding == "nearest":
            code = below + (value >= 1.5 * SCALES[below])
        else:
            code = below + (rounding == "up" and not exact)
        beyond = 255 if not saturate and (code > 254 or math.isinf(value)) else 254
        found.append(255 if math.isnan(value) else min(code, beyond) if math.isfinite(value) else beyond)
    return found


def scale_samples(dtype) -> np.ndarray:
    """Powers of two, their neighbours and midpoints in a format, of both signs, and what is no number."""
    with np.errstate(over="ignore", under="ignore"):
        powers = (2.0 ** np.arange(-130.0, 129.0)).astype(dtype)
    special = np.array([0, math.inf, math.nan], dtype)
    with np.errstate(over="ignore", under="ignore"):
        around = [powers, np.nextafter(powers, dtype(0)), np.nextafter(powers, dtype(math.inf)), powers * dtype(1.5)]
    positive = np.concatenate([*around, special])
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("saturation", [0, 1])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("word", "letter", "dtype"), [("float", "f", np.float32), ("double", "d", np.float64)])
def test_scales_are_rounded_as_asked(word, letter, dtype, rounding, saturation):
    x = scale_samples(dtype)
    name = f"__nv_cvt_{word}_to_e8m0"
    symbol = f"_ZL{len(name)}{name}{letter}17__nv_saturation_t13cudaRoundMode_nbst"
    arguments = (np.full(x.size, saturation), np.full(x.size, ROUNDINGS[rounding]))
    got = shim(symbol, "u1", np.dtype(dtype).str[1:], "i8", "i8")(x, *arguments)
    assert got.tolist() == codes_of(x, rounding, bool(saturation))


def test_scales_are_constructed_upwards_and_saturated():
    x = scale_samples(np.float32)
    assert shim("_ZN13__nv_fp8_e8m0C1Ef_nbst", "u1", "f4")(x).tolist() == codes_of(x, "up")
    half = np.arange(2**16, dtype=np.uint16)
    for letter, dtype in (("6__half", np.float16), ("13__nv_bfloat16", ml_dtypes.bfloat16)):
        got = shim(f"_ZN13__nv_fp8_e8m0C1E{letter}_nbst", "u1", "u2")(half)
        with np.errstate(invalid="ignore"):
            assert got.tolist() == codes_of(half.view(dtype).astype(np.float64), "up")
    whole = np.array([0, 1, -7, 8, 2**62, 2**62 + 1, -(2**63), 2**63 - 1])
    got = shim("_ZN13__nv_fp8_e8m0C1Ex_nbst", "u1", "i8")(whole)
    assert got.tolist() == [0, *(127 + (abs(int(v)) - 1).bit_length() for v in whole[1:])]
    got = shim("_ZN13__nv_fp8_e8m0C1Ey_nbst", "u1", "u8")(np.array([2**64 - 1], np.uint64))
    assert got.tolist() == [127 + 64]


def test_every_scale_converts_out():
    owner = "_ZNK13__nv_fp8_e8m0cv"
    np.testing.assert_array_equal(shim(f"{owner}fEv_nbst", "f4", "u1")(ALL), SCALES)
    np.testing.assert_array_equal(shim(f"{owner}dEv_nbst", "f8", "u1")(ALL), SCALES)
    with np.errstate(over="ignore"):
        as_half = SCALES.astype(np.float16)
    np.testing.assert_array_equal(shim(f"{owner}6__halfEv_nbst", "u2", "u1")(ALL).view("f2"), as_half)
    for symbol in (f"{owner}13__nv_bfloat16Ev_nbst", "_ZL24__nv_cvt_e8m0_to_bf16rawh_nbst"):
        got = shim(symbol, "u2", "u1")(ALL).view(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(got.astype("f8"), SCALES)
    assert shim(f"{owner}bEv_nbst", "u1", "u1")(ALL).all()
    for letter, dtype in (("a", "i1"), ("h", "u1"), ("i", "i4"), ("y", "u8")):
        most = int(np.iinfo(dtype).max)
        got = shim(f"{owner}{letter}Ev_nbst", dtype, "u1")(ALL).tolist()
        assert got[:255] == [min(int(v), most) for v in SCALES[:255]]
        assert got[255] == (2**63 if letter == "y" else 0)  # as NaN converts from bfloat16
