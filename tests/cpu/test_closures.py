"""What a kernel takes from around it: closures, constants, device functions, overloads, vector types, math, None."""

import cmath
import enum
import math
import textwrap
import warnings
from collections import namedtuple

import numpy as np
import pytest
from numba import cuda, float32, int32, types
from numba.cuda.extending import overload

from refkit.cpu import KernelException, emulate

pytestmark = pytest.mark.cpu

TABLE = np.array([3.0, 1.5, -2.0, 8.0], np.float32)
MATRIX = np.arange(6, dtype=np.int64).reshape(2, 3)
SCALE = np.float32(0.25)
OFFSETS = (1, 2.5, 4)
Range = namedtuple("Range", ["low", "high"])
LIMITS = Range(2, 5)


class Kind(enum.IntEnum):
    PLUS = 1
    MINUS = 7


class Level(enum.Enum):
    LOW = 10
    HIGH = 20


@cuda.jit
def from_globals(out):
    i = cuda.threadIdx.x
    out[i] = TABLE[i] * SCALE + MATRIX[i % 2, 2] + OFFSETS[1] + LIMITS.high


def test_global_arrays_scalars_and_tuples():
    out = np.zeros(4)
    with emulate():
        from_globals[1, 4](out)
    np.testing.assert_array_equal(out, TABLE * 0.25 + MATRIX[np.arange(4) % 2, 2] + 7.5)


@cuda.jit
def constant_memory(out):
    table = cuda.const.array_like(TABLE)
    matrix = cuda.const.array_like(MATRIX)
    records = cuda.const.array_like(RECORDS)
    i = cuda.threadIdx.x
    out[i] = table[3 - i] + matrix[1, i % 3] + records[i % 2].weight * records[i % 2].count


RECORDS = np.array([(2, 0.5), (-3, 4.0)], np.dtype([("count", np.int32), ("weight", np.float64)], align=True))


@pytest.mark.parametrize("schedule", [None, 1])
def test_constant_memory(schedule):
    out = np.zeros(4)
    with emulate(schedule=schedule):
        constant_memory[1, 4](out)
    i = np.arange(4)
    np.testing.assert_array_equal(out, TABLE[::-1] + MATRIX[1, i % 3] + (RECORDS["weight"] * RECORDS["count"])[i % 2])


def scaled_kernel(factor, table, size, function):
    """A factory as libraries write them: numbers, arrays, sizes and functions from the closure."""

    @cuda.jit
    def kernel(x):
        buffer = cuda.shared.array(size, float32)
        local = cuda.local.array((size, 2), int32)
        i = cuda.threadIdx.x
        for k in range(size):
            local[k, 0], local[k, 1] = k, -k
        buffer[i % size] = i % size
        cuda.syncthreads()
        x[i] = function(x[i], table[i % table.size]) * factor + buffer[(i + 1) % size] + local[i % size, 1]

    return kernel


def test_kernels_from_a_factory_keep_their_own_closures():
    @cuda.jit(device=True)
    def add(a, b):
        return a + b

    @cuda.jit(device=True)
    def subtract(a, b):
        return a - b

    kernels = [scaled_kernel(2, TABLE, 4, add), scaled_kernel(0.5, TABLE[::-1].copy(), 8, subtract)]
    i = np.arange(16)
    with emulate():
        for _ in range(2):
            for kernel, (factor, table, size, sign) in zip(kernels, [(2, TABLE, 4, 1), (0.5, TABLE[::-1], 8, -1)]):
                x = np.arange(16, dtype=np.float32)
                kernel[1, 16](x)
                expected = (i + sign * table[i % 4]) * factor + (i + 1) % size - i % size
                np.testing.assert_array_equal(x, expected.astype(np.float32))


def test_device_functions_of_another_module(tmp_path, monkeypatch):
    (tmp_path / "shared_functions.py").write_text(
        textwrap.dedent(
            """
            from numba import cuda

            BIAS = 100

            @cuda.jit(device=True)
            def inner(x):
                return x * x + BIAS

            @cuda.jit(device=True, inline="always")
            def outer(x, y):
                return inner(x) - inner(y)
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    import shared_functions

    outer = shared_functions.outer

    @cuda.jit
    def kernel(x):
        i = cuda.threadIdx.x
        x[i] = outer(x[i], i) + shared_functions.inner(1)

    x = np.arange(8) * 3
    with emulate():
        kernel[1, 8](x)
    np.testing.assert_array_equal(x, 9 * np.arange(8) ** 2 - np.arange(8) ** 2 + 101)


def test_a_generated_kernel_without_a_file():
    namespace = {"cuda": cuda}
    body = "\n".join(f"    x[{k}] += {k}" for k in range(6))
    exec(f"@cuda.jit\ndef unrolled(x):\n{body}", namespace)
    x = np.zeros(6)
    with emulate(), warnings.catch_warnings():
        warnings.simplefilter("error")
        namespace["unrolled"][1, 1](x)
    np.testing.assert_array_equal(x, np.arange(6))


def kind_of(x):
    raise NotImplementedError


@overload(kind_of, target="cuda")
def kind_of_overload(x):
    if isinstance(x, types.Integer):
        return lambda x: 1
    if isinstance(x, types.Float):
        return lambda x: 2
    if isinstance(x, types.Array):
        return lambda x: 3 + x.ndim
    return None


@cuda.jit
def specialised(a, b, out):
    out[0] = kind_of(a)
    out[1] = kind_of(b)
    out[2] = kind_of(out)


def test_overloads_by_type():
    out = np.zeros(3, np.int64)
    with emulate():
        specialised[1, 1](1, 2.0, out)
        assert out.tolist() == [1, 2, 4]
        specialised[1, 1](np.float32(1), np.zeros((2, 2)), out)
        assert out.tolist() == [2, 5, 4]


@cuda.jit(device=True)
def doubled(x):
    return x + x


@cuda.jit
def by_signature(x):
    x[cuda.grid(1)] = doubled(x[cuda.grid(1)])


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float32", "float64", "complex64"])
def test_one_kernel_for_many_types(dtype):
    x = np.arange(10).astype(dtype)
    with emulate():
        by_signature[1, 10](x)
    np.testing.assert_array_equal(x, 2 * np.arange(10).astype(dtype))


@cuda.jit
def vectors(x, out):
    i = cuda.threadIdx.x
    v = cuda.float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3])
    w = cuda.float2(v.x + v.w, v.y * v.z)
    u = cuda.int3(i, -i, 2 * i)
    d = cuda.double2(0.5, w.x)
    out[i] = w.x + 10 * w.y + u.y + u.z + d.y * d.x


def test_vector_types():
    x = np.arange(16, dtype=np.float32)
    out = np.zeros(4)
    with emulate():
        vectors[1, 4](x, out)
    v = x.reshape(4, 4)
    first, second = v[:, 0] + v[:, 3], v[:, 1] * v[:, 2]
    np.testing.assert_array_equal(out, first + 10 * second + np.arange(4) + first / 2)


MATH = [
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "erf", "erfc", "gamma", "lgamma", "fabs", "ceil", "floor",
]  # fmt: skip


@pytest.mark.parametrize("name", MATH)
def test_math_functions(name):
    function = getattr(math, name)
    kernel = math_kernel(name)
    for dtype, tolerance in (("float32", 4e-7), ("float64", 1e-15)):
        x = np.array([0.1, 0.25, 0.5, 0.75, 0.99], dtype)
        out = np.zeros_like(x)
        with emulate():
            kernel[1, 5](x, out)
        exact = np.array([function(float(value)) for value in x])
        np.testing.assert_allclose(out, exact, rtol=4 * tolerance, atol=tolerance)


def math_kernel(name):
    namespace = {"cuda": cuda, "math": math}
    exec(f"@cuda.jit\ndef kernel(x, out):\n    i = cuda.grid(1)\n    out[i] = math.{name}(x[i])", namespace)
    return namespace["kernel"]


@cuda.jit
def more_math(x, y, out):
    i = cuda.grid(1)
    out[0, i] = math.atan2(x[i], y[i])
    out[1, i] = math.pow(abs(x[i]), y[i])
    out[2, i] = math.fmod(x[i], y[i])
    out[3, i] = math.copysign(x[i], y[i])
    out[4, i] = math.hypot(x[i], y[i])
    fraction, exponent = math.frexp(x[i])
    out[5, i] = math.ldexp(fraction, exponent + 1)
    out[6, i] = math.isnan(x[i]) + 2 * math.isinf(x[i]) + 4 * math.isfinite(x[i])
    out[7, i] = math.modf(x[i])[0]
    out[8, i] = round(x[i])
    out[9, i] = int(x[i]) if math.isfinite(x[i]) else 0
    out[10, i] = x[i] // y[i]
    out[11, i] = x[i] % y[i]
    out[12, i] = cuda.fma(x[i], y[i], 1.0)
    out[13, i] = math.degrees(math.radians(x[i]))
    out[14, i] = min(x[i], y[i]) + 2 * max(x[i], y[i])


def test_math_of_two_arguments_and_python_operators():
    x, y = np.array([2.5, -3.5, 7.0, -0.5]), np.array([1.5, 2.0, -3.0, 0.25])
    out = np.zeros((15, 4))
    with emulate():
        more_math[1, 4](x, y, out)
    expected = [
        np.arctan2(x, y), abs(x) ** y, np.fmod(x, y), np.copysign(x, y), np.hypot(x, y), 2 * x, np.full(4, 4.0),
        np.modf(x)[0], np.round(x), np.trunc(x), x // y, x % y, x * y + 1, x, np.minimum(x, y) + 2 * np.maximum(x, y),
    ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-15)


@cuda.jit
def integer_operators(a, b, out):
    i = cuda.grid(1)
    out[0, i] = a[i] // b[i]
    out[1, i] = a[i] % b[i]
    out[2, i] = a[i] >> 2
    out[3, i] = (a[i] << 3) ^ ~b[i]
    out[4, i] = abs(a[i])
    out[5, i] = a[i] ** 2
    out[6, i] = cuda.popc(a[i])
    out[7, i] = cuda.clz(a[i])
    out[8, i] = cuda.ffs(a[i])
    out[9, i] = cuda.brev(np.uint32(i))
    out[10, i] = cuda.selp(a[i] > 0, 5, 6)


def test_integer_operators_follow_python():
    a, b = np.array([7, -7, 8, -1], np.int32), np.array([2, 2, -3, 5], np.int32)
    out = np.zeros((11, 4), np.int64)
    with emulate():
        integer_operators[1, 4](a, b, out)
    wide = a.astype(np.int64)
    bits = [int(value) & 0xFFFFFFFF for value in a]
    expected = [
        wide // b, wide % b, wide >> 2, (wide << 3) ^ ~b, abs(wide), wide**2,
        [value.bit_count() for value in bits], [32 - value.bit_length() for value in bits],
        [(value & -value).bit_length() for value in bits], [int(f"{i:032b}"[::-1], 2) for i in range(4)],
        np.where(a > 0, 5, 6),
    ]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def complex_arithmetic(z, out):
    i = cuda.grid(1)
    out[0, i] = z[i] * z[i].conjugate()
    out[1, i] = z[i] / (1 + 2j)
    out[2, i] = complex(abs(z[i]), z[i].imag)
    out[3, i] = cmath.exp(z[i])
    out[4, i] = cmath.sqrt(z[i])
    out[5, i] = z[i] ** 2


@pytest.mark.parametrize(("dtype", "tolerance"), [("complex64", 1e-6), ("complex128", 1e-14)])
def test_complex_arithmetic(dtype, tolerance):
    z = np.array([1 + 2j, -0.5 + 0.25j, 3j, -2], dtype)
    out = np.zeros((6, 4), dtype)
    with emulate():
        complex_arithmetic[1, 4](z, out)
    expected = [z * z.conj(), z / (1 + 2j), abs(z) + 1j * z.imag, np.exp(z), np.sqrt(z), z**2]
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


@cuda.jit
def numpy_scalars(x, out):
    i = cuda.grid(1)
    out[0, i] = np.float32(x[i]) / np.float32(3)
    out[1, i] = np.int8(x[i] * 100)
    out[2, i] = np.uint16(70000 + i)
    out[3, i] = np.float16(x[i])
    out[4, i] = np.sin(x[i]) + np.log(x[i])
    out[5, i] = np.minimum(x[i], 1.0) + np.maximum(x[i], 0.5)


def test_numpy_scalars_and_ufuncs():
    x = np.array([0.1, 0.5, 1.2])
    out = np.zeros((6, 3))
    with emulate():
        numpy_scalars[1, 3](x, out)
    i = np.arange(3)
    expected = [
        x.astype(np.float32) / np.float32(3), (x * 100).astype(np.int64).astype(np.int8), (70000 + i).astype(np.uint16),
        x.astype(np.float16), np.sin(x) + np.log(x), np.minimum(x, 1) + np.maximum(x, 0.5),
    ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-15)


@cuda.jit
def with_enums(kinds, out):
    i = cuda.grid(1)
    if kinds[i] == Kind.PLUS:
        out[i] = Level.HIGH.value
    elif kinds[i] == Kind.MINUS:
        out[i] = -Kind.MINUS
    else:
        out[i] = Level.LOW.value


def test_enumerations():
    out = np.zeros(3, np.int64)
    with emulate():
        with_enums[1, 3](np.array([1, 7, 0]), out)
    assert out.tolist() == [20, -7, 10]


def maybe_biased(bias):
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        if bias is not None:
            x[i] += bias[i]
        else:
            x[i] -= 1

    return kernel


@cuda.jit(device=True)
def scaled_or_not(x, scale=None, shift=0.0):
    if scale is None:
        return x + shift
    return x * scale + shift


@cuda.jit
def optional_arguments(x, out):
    i = cuda.grid(1)
    out[0, i] = scaled_or_not(x[i])
    out[1, i] = scaled_or_not(x[i], 3.0)
    out[2, i] = scaled_or_not(x[i], None, 5.0)
    out[3, i] = scaled_or_not(x[i], shift=2.0, scale=2.0)


def test_none_in_closures_and_optional_arguments_of_device_functions():
    with emulate():
        x = np.arange(4.0)
        maybe_biased(np.full(4, 10.0))[1, 4](x)
        maybe_biased(None)[1, 4](x)
        np.testing.assert_array_equal(x, np.arange(4) + 9)
        out = np.zeros((4, 4))
        optional_arguments[1, 4](x, out)
        np.testing.assert_array_equal(out, [x, 3 * x, x + 5, 2 * x + 2])


@cuda.jit
def array_methods(x, out):
    i = cuda.threadIdx.x
    rows = x.reshape(4, 3)
    flat = rows[1:, :2].T
    if i < 3:
        out[i] = flat[0, i] + flat[1, i] * 100
    bits = x.view(np.int64)
    if i == 3:
        out[i] = bits[0] >> 52
        for row in range(rows.shape[0]):
            for value in rows[row]:
                out[4] += value
    if i == 4:
        for k, (a, b) in enumerate(zip(rows[0], rows[1])):
            out[5] += k * a * b


def test_views_of_arrays_in_a_kernel():
    x = np.arange(1, 13, dtype=np.float64)
    out = np.zeros(6)
    with emulate():
        array_methods[1, 5](x, out)
    rows = x.reshape(4, 3)
    expected = [*(rows[1:, 0] + 100 * rows[1:, 1]), 1023, x.sum(), (np.arange(3) * rows[0] * rows[1]).sum()]
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def reshaped(x, shape, out):
    view = x.reshape(shape)
    for i in range(view.shape[0]):
        for j in range(view.shape[1]):
            out[i, j] = view[i, j]


@pytest.mark.parametrize("shape", [(6, 8), (48, 1), (1, 48), (4, -1)])
def test_reshape_to_a_shape_that_is_an_argument(shape):
    x = np.arange(48).reshape(2, 3, 8)
    view = x.reshape(shape)
    out = np.full(view.shape, -1)
    with emulate():
        reshaped[1, 1](x, shape, out)
        np.testing.assert_array_equal(out, view)
        with pytest.raises(KernelException, match="reshape"):
            reshaped[1, 1](x, (7, 7), out)


@cuda.jit
def control_flow(x, out):
    i = cuda.grid(1)
    total = 0
    for k in range(10):
        if k == i:
            continue
        if k > 7:
            break
        total += k
    else:
        total = -1
    n = i + 1
    while True:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        total += 1
        if n == 1:
            break
    values = (1, 2, 3)
    for value in values:
        total += value if value != 2 else 0
    out[i] = total if i > 1 or x[0] > 5 else total * 2


def test_control_flow():
    def python(i, x0):
        total = sum(k for k in range(8) if k != i)
        n = i + 1
        while True:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            total += 1
            if n == 1:
                break
        total += 4
        return total if i > 1 or x0 > 5 else total * 2

    for x0 in (0, 9):
        out = np.zeros(12, np.int64)
        with emulate():
            control_flow[1, 12](np.array([x0]), out)
        assert out.tolist() == [python(i, x0) for i in range(12)]
