"""The libdevice route, and libdevice as an oracle of the other: every function, compared on the host."""

import re

import numpy as np
import pytest
from numba.cuda import libdevicefuncs

from refkit.cpu.device_library import bitcode, definitions, elementary, find_libdevice, special
from tests.cpu.device_library.jit import vectorised

LIBDEVICE = find_libdevice()
pytestmark = pytest.mark.skipif(LIBDEVICE is None, reason="libdevice.10.bc is not installed")
DTYPES = {"int16": "i2", "int32": "i4", "int64": "i8", "float32": "f4", "float64": "f8", "none": None}
INEXACT = set(elementary.FUNCTIONS) | set(special.FUNCTIONS) | {n for n in libdevicefuncs.functions if "fast_" in n}
ABSOLUTE = re.compile("__nv_([jy][01n]|lgamma)")  # what is promised of these near their zeros
COUNT = 1000


def drawn(rng, dtype, name):
    """Numbers of every size, small ones, and the special ones."""
    if dtype.startswith("i"):
        if name in ("__nv_jn", "__nv_jnf", "__nv_yn", "__nv_ynf"):
            return rng.integers(0, 8, COUNT).astype(dtype)
        if any(word in name for word in ("powi", "scalbn", "ldexp")):
            return rng.integers(-8, 9, COUNT).astype(dtype)
        bits = 8 * int(dtype[1])
        wild = rng.integers(0, 2**bits, COUNT, dtype=f"u{dtype[1]}")
        return (wild >> rng.integers(0, bits, COUNT, dtype="u1").astype(wild.dtype)).view(dtype)
    x = rng.integers(0, 2 ** (8 * int(dtype[1])), COUNT, dtype=f"u{dtype[1]}").view(dtype)
    x[: COUNT // 2] = rng.normal(size=COUNT // 2) * 4
    x[COUNT // 2 : COUNT // 2 + 11] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2.5, 1e30]
    return x


def outputs(text, name, dtypes, result, arrays):
    """Everything that the function returns or writes."""
    arrays = [np.zeros_like(a) if d.startswith("*") else a for a, d in zip(arrays, dtypes)]
    returned = vectorised(text, name, result, dtypes)(*arrays)
    return [returned] * (result is not None) + [a for a, d in zip(arrays, dtypes) if d.startswith("*")]


@pytest.mark.slow
def test_every_function_agrees_with_libdevice():
    """Exact functions to the bit, but for a NaN's payload; the others to 2e-6 and 1e-14 of the value."""
    rng = np.random.default_rng(0)
    for name, (result, parameters) in libdevicefuncs.functions.items():
        if name == "__nv_half2float":
            continue  # LLVM lowers theirs to a call of compiler-rt, which no Python process has
        dtypes = ["*" * p.is_ptr + DTYPES[str(p.ty)] for p in parameters]
        arrays = [drawn(rng, d.lstrip("*"), name) for d in dtypes]
        own = outputs(definitions([name]), name, dtypes, DTYPES[str(result)], arrays)
        theirs = outputs(bitcode.definitions([name], LIBDEVICE), name, dtypes, DTYPES[str(result)], arrays)
        for mine, other in zip(own, theirs):
            same = (mine == other) | ((mine != mine) & (other != other))
            if name in INEXACT:
                with np.errstate(all="ignore"):
                    least = np.finfo(mine.dtype).tiny
                    scale = np.maximum(np.abs(other.astype("f8")), least)
                    error = np.abs(mine.astype("f8") - other.astype("f8")) / scale
                if ABSOLUTE.match(name):
                    error = np.where(np.isfinite(scale), error * (scale / np.maximum(scale, 1)), error)
                    # Far out the Bessel functions hang on the argument's remainder by pi; libdevice's jn(n, 0) is NaN.
                    usual = (np.abs(arrays[-1]) < 100) & (np.abs(arrays[-1]) > 1e-3)
                    error[~usual] = 0 if "lgamma" not in name else error[~usual]
                double = 1e-11 if ABSOLUTE.match(name) else 1e-14  # libdevice's jn goes by recurrence
                if "powi" in name:  # libdevice's overflows on the way to a tiny result
                    same |= np.abs(mine) < least
                same |= error < (2e-6 if mine.dtype == np.float32 else double)
            assert same.all(), (name, [a[~same][:3] for a in arrays], mine[~same][:3], other[~same][:3])


def test_the_route_takes_their_elementary_functions_and_our_exact_ones():
    text = definitions(["__nv_tanhf", "__nv_fadd_rd", "__nv_sinf"], libdevice=LIBDEVICE)
    assert "ex2.approx" in text  # libdevice's tanhf is made of it
    assert "@tanh(" not in text
    x = np.random.default_rng(1).uniform(-4, 4, 1000).astype("f4")
    got = vectorised(text, "__nv_tanhf", "f4", ["f4"])(x)
    np.testing.assert_allclose(got, np.tanh(x.astype("f8")), rtol=2 * 2.0**-23)
    assert np.any(got != np.tanh(x.astype("f8")).astype("f4"))  # 2 ulp is what a GPU's has, not 0.5
    big = (x * 1e6).astype("f4")  # through inline PTX with a carry chain
    got = vectorised(text, "__nv_sinf", "f4", ["f4"])(big)
    np.testing.assert_allclose(got, np.sin(big.astype("f8")), rtol=2e-6, atol=2e-7)


def test_functions_that_only_libdevice_has():
    text = definitions(["__nv_cyl_bessel_i0"], libdevice=LIBDEVICE)
    got = vectorised(text, "__nv_cyl_bessel_i0", "f8", ["f8"])(np.array([0.0, 1.0]))
    np.testing.assert_allclose(got, [1, 1.2660658777520084], rtol=1e-15)
