"""Scalar PTX instructions run on arrays, against Python's integers and NumPy."""

import math
import operator

import ml_dtypes
import numpy as np
import pytest

from refkit.cpu import ptx
from tests.cpu.device_library.jit import vectorised

LLVM = {"i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "i8", "u2": "i16", "u4": "i32", "u8": "i64"}
LLVM |= {"f4": "float", "f8": "double"}
LETTER = {"1": "c", "2": "h", "4": "r", "8": "l"}


def run(text, result, *arrays):
    """The result array of `text`, whose inputs are $1, $2, ... of the arrays' types."""
    arrays = [np.atleast_1d(a) for a in arrays]
    codes = [a.dtype.str[1:] for a in arrays]
    letters = [("=" if i == 0 else "") + _letter(code) for i, code in enumerate([result, *codes])]
    meaning = ptx.meaning(text, ",".join(letters), LLVM[result], tuple(LLVM[c] for c in codes))
    assert not meaning.needs_thread
    return vectorised(meaning.definition, meaning.name, result, codes)(*arrays)


def _letter(code):
    return {"f4": "f", "f8": "d"}.get(code) or LETTER[code[1]]


def words(seed=0, dtype="u4", count=400):
    rng = np.random.default_rng(seed)
    bits = np.dtype(dtype).itemsize * 8
    values = rng.integers(0, 2**bits, count, dtype=f"u{bits // 8}") >> rng.integers(0, bits, count, dtype="u1")
    values[:6] = np.array([0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 3], values.dtype)
    return values.astype(dtype)


def trunc_div(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "min": min,
    "max": max,
    "div": lambda x, y: trunc_div(x, y) if y else -1,
    "rem": lambda x, y: x - trunc_div(x, y) * y if y else x,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("type_", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_arithmetic(name, type_):
    bits = int(type_[1:])
    dtype = f"{'i' if type_[0] == 's' else 'u'}{bits // 8}"
    x, y = words(1, dtype), np.random.default_rng(9).permutation(words(2, dtype))
    got = run(f"{name}.{type_} $0, $1, $2;", dtype, x, y)
    for value, a, b in zip(got, x, y):
        assert (int(value) - BINARY[name](int(a), int(b))) % 2**bits == 0, (int(a), int(b))


def test_high_and_wide_products():
    x, y = words(3, "i4"), np.random.default_rng(1).permutation(words(4, "i4"))
    exact = [int(a) * int(b) for a, b in zip(x, y)]
    assert run("mul.hi.s32 $0, $1, $2;", "i4", x, y).tolist() == [e >> 32 for e in exact]
    assert run("mul.wide.s32 $0, $1, $2;", "i8", x, y).tolist() == exact
    z = words(5, "i8")
    wide = [(e + int(c) + 2**63) % 2**64 - 2**63 for e, c in zip(exact, z)]
    assert run("mad.wide.s32 $0, $1, $2, $3;", "i8", x, y, z).tolist() == wide
    assert run("add.sat.s32 $0, $1, $2;", "i4", x, y).tolist() == [
        min(max(int(a) + int(b), -(2**31)), 2**31 - 1) for a, b in zip(x, y)
    ]


@pytest.mark.parametrize("table", [0x00, 0xE8, 0x96, 0xFF, 0x2A, 0x80])
def test_lop3_is_its_truth_table(table):
    x, y, z = words(1), words(2)[::-1], words(3)[::2].repeat(2)
    got = run(f"lop3.b32 $0, $1, $2, $3, 0x{table:X};", "u4", x, y, z)
    for value, a, b, c in zip(got, x, y, z):
        bits = (table >> ((int(a) >> i & 1) << 2 | (int(b) >> i & 1) << 1 | (int(c) >> i & 1)) & 1 for i in range(32))
        assert int(value) == sum(bit << i for i, bit in enumerate(bits))


def test_shifts_by_the_width_and_more():
    x, n = words(1), np.random.default_rng(2).choice(np.array([0, 1, 7, 31, 32, 33, 255], "u4"), 400)
    assert run("shl.b32 $0, $1, $2;", "u4", x, n).tolist() == [(int(a) << int(k)) % 2**32 for a, k in zip(x, n)]
    assert run("shr.u32 $0, $1, $2;", "u4", x, n).tolist() == [int(a) >> int(k) for a, k in zip(x, n)]
    assert run("shr.s32 $0, $1, $2;", "i4", x, n).tolist() == [int(np.int32(a)) >> int(k) for a, k in zip(x, n)]
    low, high = x, x[::-1].copy()
    pairs = [int(h) << 32 | int(a) for a, h in zip(low, high)]
    clamped, wrapped = np.minimum(n, 32), n % 32
    for form, amounts in (("clamp", clamped), ("wrap", wrapped)):
        left = run(f"shf.l.{form}.b32 $0, $1, $2, $3;", "u4", low, high, n)
        assert left.tolist() == [(p << int(k)) >> 32 & 0xFFFFFFFF for p, k in zip(pairs, amounts)]
        right = run(f"shf.r.{form}.b32 $0, $1, $2, $3;", "u4", low, high, n)
        assert right.tolist() == [p >> int(k) & 0xFFFFFFFF for p, k in zip(pairs, amounts)]


def field_extracted(x, position, length, bits, signed):
    """The definition in the PTX ISA, bit by bit."""
    position, length = position & 255, length & 255
    sign = x >> min(position + length - 1, bits - 1) & 1 if signed and length else 0
    inside = lambda i: i < length and position + i < bits  # noqa: E731
    return sum((x >> (position + i) & 1 if inside(i) else sign) << i for i in range(bits))


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields(bits):
    dtype = f"u{bits // 8}"
    x, base = words(1, dtype), words(2, dtype)[::-1].copy()
    rng = np.random.default_rng(3)
    position, length = (rng.choice(np.array([0, 1, 5, 31, 32, 40, 63, 64, 255, 256], "u4"), 400) for _ in range(2))
    for sign in "us":
        got = run(f"bfe.{sign}{bits} $0, $1, $2, $3;", dtype, x, position, length)
        expected = [field_extracted(*map(int, row), bits, sign == "s") for row in zip(x, position, length)]
        assert got.tolist() == expected
    got = run(f"bfi.b{bits} $0, $1, $2, $3, $4;", dtype, x, base, position, length)
    for value, f, b, p, n in zip(got, x, base, position & 255, length & 255):
        mask = (2 ** int(n) - 1 << int(p)) % 2**bits
        assert int(value) == int(b) & ~mask | (int(f) << int(p)) & mask


def test_counting():
    x = words(7)
    assert run("popc.b32 $0, $1;", "u4", x).tolist() == [int(v).bit_count() for v in x]
    assert run("clz.b32 $0, $1;", "u4", x).tolist() == [32 - int(v).bit_length() for v in x]
    assert run("bfind.u32 $0, $1;", "i4", x).tolist() == [int(v).bit_length() - 1 for v in x]
    signed = [int(v) ^ (int(v) >> 31) for v in x.view("i4")]
    assert run("bfind.s32 $0, $1;", "i4", x).tolist() == [v.bit_length() - 1 for v in signed]
    assert run("brev.b32 $0, $1;", "u4", x).tolist() == [int(f"{v:032b}"[::-1], 2) for v in x]


@pytest.mark.parametrize(
    ("text", "emit"),
    [
        ("add.rn.f32 $0, $1, $2;", np.add),
        ("sub.f32 $0, $1, $2;", np.subtract),
        ("mul.rn.f32 $0, $1, $2;", np.multiply),
        ("div.rn.f32 $0, $1, $2;", np.divide),
        ("max.f32 $0, $1, $2;", np.fmax),
        ("min.NaN.f32 $0, $1, $2;", np.minimum),
        ("copysign.f32 $0, $2, $1;", np.copysign),
    ],
)
def test_float_arithmetic(text, emit):
    special = np.array([0.0, -0.0, 1.5, -3.25, math.inf, -math.inf, math.nan, 1e-40, 3e38], "f4")
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(text, "f4", x, y), emit(x, y))


def test_modifiers_of_float_arithmetic():
    x, tiny = np.array([1.0, -1.0], "f4"), np.array([2.0**-30] * 2, "f4")
    assert run("add.rp.f32 $0, $1, $2;", "f4", x, tiny).tolist() == [1 + 2**-23, -1 + 2**-24]
    assert run("add.rm.f32 $0, $1, $2;", "f4", x, tiny).tolist() == [1, -1]
    assert run("add.rz.sat.f32 $0, $1, $2;", "f4", x, tiny).tolist() == [1, 0]
    subnormal = np.array([1e-40, -1e-40], "f4")
    assert run("mul.f32 $0, $1, 0f3F800000;", "f4", subnormal).tolist() == subnormal.tolist()
    flushed = run("mul.ftz.f32 $0, $1, 0f3F800000;", "f4", subnormal)
    assert flushed.tolist() == [0, 0]
    assert np.signbit(flushed).tolist() == [False, True]


APPROXIMATE = {  # instruction: (reference, range, documented error, relative or in ulp 2^-23 of the value)
    "ex2": (np.exp2, -126, 127, 2.0**-22),
    "lg2": (np.log2, 2.5, 1e30, 2.0**-22),
    "rcp": (np.reciprocal, 1e-30, 1e30, 2.0**-23),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30, 2.0**-22.9),
    "sqrt": (np.sqrt, 1e-30, 1e30, 2.0**-23),
    "tanh": (np.tanh, -9, 9, 2.0**-11),
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximations_stay_within_the_documented_error(name):
    reference, low, high, error = APPROXIMATE[name]
    x = np.random.default_rng(0).uniform(low, high, 2000).astype("f4")
    np.testing.assert_allclose(run(f"{name}.approx.f32 $0, $1;", "f4", x), reference(x.astype("f8")), rtol=error)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_have_an_absolute_error(name):
    x = np.random.default_rng(0).uniform(-np.pi, np.pi, 2000).astype("f4")
    got = run(f"{name}.approx.ftz.f32 $0, $1;", "f4", x)
    np.testing.assert_allclose(got, getattr(np, name)(x.astype("f8")), rtol=0, atol=2.0**-20.5)


def test_conversions_between_numbers():
    x = np.array([1.0, 2.5, 3.5, -2.5, 65520, 1e-8, 0.1, 300, -7.75], "f8")
    single = x.astype("f4")
    with np.errstate(over="ignore"):
        assert run("cvt.rn.f16.f64 $0, $1;", "u2", x).tolist() == x.astype("f2").view("u2").tolist()
        assert run("cvt.rn.f16.f32 $0, $1;", "u2", single).tolist() == single.astype("f2").view("u2").tolist()
    bits = np.array([1.5, -2.5, 0.1, math.inf], "f2").view("u2")
    assert run("cvt.f32.f16 $0, $1;", "f4", bits).tolist() == bits.view("f2").astype("f4").tolist()
    assert run("cvt.f64.f16 $0, $1;", "f8", bits).tolist() == bits.view("f2").astype("f8").tolist()
    assert run("cvt.rni.f64.f64 $0, $1;", "f8", x[:4]).tolist() == [1, 2, 4, -2]
    assert run("cvt.rzi.s32.f32 $0, $1;", "i4", x.astype("f4")[[1, 3, 7, 8]]).tolist() == [2, -2, 300, -7]
    assert run("cvt.rni.s8.f16 $0, $1;", "i1", x[[1, 2, 3, 7]].astype("f2").view("u2")).tolist() == [2, 4, -2, 127]
    assert run("cvt.rni.u8.f16 $0, $1;", "u1", x[[1, 3, 7]].astype("f2").view("u2")).tolist() == [2, 0, 255]
    big = np.array([2**60 + 1, 70000, -2049], "i8")
    with np.errstate(over="ignore"):
        assert run("cvt.rn.f16.s64 $0, $1;", "u2", big).tolist() == big.astype("f2").view("u2").tolist()
    assert run("cvt.s64.s32 $0, $1;", "i8", np.array([-5], "i4")).tolist() == [-5]
    assert run("cvt.u64.u32 $0, $1;", "i8", np.array([-5], "i4")).tolist() == [2**32 - 5]
    assert run("cvt.sat.u8.s32 $0, $1;", "u4", np.array([-5, 300, 77], "i4")).tolist() == [0, 255, 77]


def test_tf32_rounds_ties_away():
    unit = 2.0**-10
    x = np.array([1 + unit / 2, 1 + unit / 2 - 2.0**-23, -1 - unit / 2, 1 + 1.5 * unit, math.inf], "f4")
    got = run("cvt.rna.tf32.f32 $0, $1;", "u4", x).view("f4")
    assert got.tolist() == [1 + unit, 1, -1 - unit, 1 + 2 * unit, math.inf]
    assert run("cvt.rn.tf32.f32 $0, $1;", "u4", x).view("f4").tolist()[:2] == [1, 1]


def test_pairs():
    x, y = np.array([1.1, -3.3, 1e6], "f4"), np.array([2.2, 70000, 0.3], "f4")
    got = run("cvt.rn.bf16x2.f32 $0, $1, $2;", "u4", x, y).view(ml_dtypes.bfloat16).reshape(-1, 2)
    assert got[:, 1].tolist() == x.astype(ml_dtypes.bfloat16).tolist()
    assert got[:, 0].tolist() == y.astype(ml_dtypes.bfloat16).tolist()
    got = run("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "u2", x, y).view(ml_dtypes.float8_e4m3fn).reshape(-1, 2)
    expected = np.clip(np.stack([y, x], 1), -448, 448).astype(ml_dtypes.float8_e4m3fn)
    assert got.tolist() == expected.tolist()
    pairs = np.array([[1.5, -2.0], [3.0, 0.5]], "f2").view("u4").ravel()
    got = run("fma.rn.f16x2 $0, $1, $1, $2;", "u4", pairs, pairs[::-1].copy()).view("f2")
    assert got.tolist() == [1.5 * 1.5 + 3.0, 4.5, 10.5, 0.25 - 2.0]


def test_every_fp8_encoding_unpacks():
    codes = np.arange(256, dtype=np.uint16)
    for name, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
        got = run(f"cvt.rn.f16x2.{name}x2 $0, $1;", "u4", codes).view("f2")[::2]
        np.testing.assert_array_equal(got, codes.astype("u1").view(dtype).astype("f2"))


def test_every_float16_packs_to_fp8():
    codes = np.arange(2**16, dtype=np.uint32)
    x = codes.astype("u2").view("f2").astype("f4")
    finite = np.isfinite(x)
    for name, dtype, largest in (("e4m3", ml_dtypes.float8_e4m3fn, 448), ("e5m2", ml_dtypes.float8_e5m2, 57344)):
        got = run(f"cvt.rn.satfinite.{name}x2.f16x2 $0, $1;", "u2", codes).astype("u1").view(dtype).astype("f4")
        expected = np.clip(x[finite], -largest, largest).astype(dtype).astype("f4")
        np.testing.assert_array_equal(got[finite], expected)
        assert set(got[np.isinf(x)].tolist()) == {largest, -largest}
        assert np.isnan(got[np.isnan(x)]).all()


def test_selection_and_comparison_in_a_block():
    text = """{
        .reg .pred p, q;   // two predicates
        .reg .s32 t<2>;
        setp.gt.s32 p|q, $1, 3;
        mov.b32 t0, 7;
        @p add.s32 t0, $1, 1;
        @!p sub.s32 t0, t0, $1;
        selp.b32 t1, 100, 200, q;
        add.s32 $0, t0, t1;
    }"""
    assert run(text, "i4", np.array([2, 3, 4, -9], "i4")).tolist() == [7 - 2 + 100, 7 - 3 + 100, 5 + 200, 16 + 100]
    x = np.array([1.0, math.nan, 3.0], "f4")
    text = "{ .reg .pred p; setp.geu.f32 p, $1, 0f40000000; selp.u32 $0, 1, 0, p; }"
    assert run(text, "u4", x).tolist() == [0, 1, 1]
    assert run("slct.s32.f32 $0, 5, 6, $1;", "i4", np.array([-1.0, 0.0], "f4")).tolist() == [6, 5]


def test_registers_are_cut_and_joined():
    x = np.array([0x1122334455667788], "u8")
    assert run("{ .reg .b32 a, b; mov.b64 {a, b}, $1; mov.b64 $0, {b, a}; }", "u8", x).tolist() == [0x5566778811223344]
    assert run("prmt.b32 $0, $1, $2, 0x3210;", "u4", np.array([0x80, 5], "u4"), np.array([1, 2], "u4")).tolist() == [
        0x80,
        5,
    ]
    assert run("prmt.b32 $0, $1, $1, 0x8888;", "u4", np.array([0x80, 5], "u4")).tolist() == [0xFFFFFFFF, 0]
