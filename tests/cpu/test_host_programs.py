"""Whole host programs, unchanged, under emulation: what Numba builds on top of kernels, and every kind of argument."""

import threading
from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, guvectorize, vectorize
from numba.cuda.kernels.transpose import transpose
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

from refkit.cpu import DeviceArray, KernelException, emulate

pytestmark = pytest.mark.cpu

Pair = namedtuple("Pair", ["first", "second"])


@pytest.fixture(autouse=True)
def emulated():
    with emulate(timeout=30):
        yield


@cuda.jit
def scale_rows_kernel(x, s, y):
    row = cuda.blockIdx.x
    for col in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[row, col] = x[row, col] * s[row]


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def ramp(*shape: int, dtype="float32") -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("where", ["host", "device"])
def test_scale_rows(where):
    x, s, y = ramp(5, 7), ramp(5) - 2, np.full((5, 7), np.nan, np.float32)
    if where == "host":
        scale_rows_kernel[5, 32](x, s, y)
    else:
        d = cuda.to_device(y)
        scale_rows_kernel[5, 32, cuda.stream()](cuda.to_device(x), cuda.to_device(s), d)
        d.copy_to_host(y)
    np.testing.assert_array_equal(y, x * s[:, None])


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2, 1::3],
        lambda a: a.T,
        lambda a: a[::-1, ::-1],
        lambda a: np.asfortranarray(a),
        lambda a: a[:, :0],
    ],
    ids=["strided", "transposed", "reversed", "F order", "empty"],
)
def test_layouts_of_host_and_device_arrays(view):
    x = view(ramp(6, 9))
    want = x * 3
    y = np.empty_like(x)
    scale_rows_kernel[x.shape[0], 32](x, np.full(9, 3, np.float32), y)
    np.testing.assert_array_equal(y, want)
    d = view(cuda.to_device(ramp(6, 9)).host)
    out = cuda.device_array(x.shape, np.float32)
    scale_rows_kernel[x.shape[0], 32](DeviceArray.wrap(d), np.full(9, 3, np.float32), out)
    np.testing.assert_array_equal(out.copy_to_host(), want)


def test_broadcast_upstream_gradient():
    x = np.broadcast_to(ramp(4)[:, None], (4, 6))
    y = np.zeros((4, 6), np.float32)
    scale_rows_kernel[4, 32](x, np.ones(4, np.float32), y)
    np.testing.assert_array_equal(y, x)


def test_scalars_tuples_and_records():
    @cuda.jit
    def kernel(flag, small, z, pair, record, out):
        out[0] = small + (10 if flag else 20)
        out[1] = z.real - z.imag
        out[2] = pair.first[1] + pair.second[0] * pair.second[1][0]
        out[3] = record.a + record.b[1]
        pair.first[0] = 50
        record.a = 7

    record = np.zeros(1, [("a", "f4"), ("b", "i4", (2,))])[0]
    record["a"], record["b"] = 1.5, [2, 3]
    first, out = ramp(2), np.zeros(4)
    kernel[1, 1](np.bool_(True), np.int8(-3), 5 + 2j, Pair(first, (2, ramp(3) + 4)), record, out)
    np.testing.assert_array_equal(out, [7, 3, 1 + 2 * 4, 4.5])
    assert first[0] == 50
    assert record["a"] == 7


def test_arrays_of_records():
    dtype = np.dtype([("a", "f4"), ("b", "i8")], align=True)

    @cuda.jit
    def kernel(items):
        i = cuda.threadIdx.x
        items[i].a = items[i].b * 2

    items = np.zeros(4, dtype)
    items["b"] = [1, 2, 3, 4]
    d = cuda.to_device(items)
    kernel[1, 4](d)
    np.testing.assert_array_equal(d.copy_to_host()["a"], [2, 4, 6, 8])
    assert d[3]["a"] == 8


def test_bfloat16_and_its_bits():
    @cuda.jit
    def copy(x, bits):
        i = cuda.threadIdx.x
        bits[i] = bits[i] + 1
        x[i] = x[i + 1] if i == 0 else x[i]

    x = cuda.to_device(np.array([1, 2], ml_dtypes.bfloat16))
    copy[1, 2](x, cuda.to_device(np.zeros(2, np.int32)))
    np.testing.assert_array_equal(x.view(np.uint16).copy_to_host(), [0x4000, 0x4000])


def test_eager_signatures():
    @cuda.jit("void(float32[:], int32, float32)")
    def axpy(x, n, a):
        i = cuda.grid(1)
        if i < n:
            x[i] = a * x[i] + n

    x = ramp(4)
    axpy[1, 32](x, 3, 2)
    np.testing.assert_array_equal(x, [3, 5, 7, 3])


def test_device_functions_eager_and_lazy():
    @cuda.jit("float32(float32)", device=True)
    def double(v):
        return v * 2

    @cuda.jit(device=True)
    def shifted(v):
        return double(v) + 1

    @cuda.jit
    def kernel(x):
        i = cuda.threadIdx.x
        x[i] = shifted(x[i])

    for sanitize in ((), ("memory",)):
        with emulate(sanitize=sanitize):
            x = ramp(4)
            kernel[1, 4](x)
            np.testing.assert_array_equal(x, [1, 3, 5, 7])


total = cuda.reduce(lambda a, b: a + b)
largest = cuda.Reduce(lambda a, b: a if a > b else b)


@pytest.mark.parametrize("n", [1, 31, 128, 129, 1000])
def test_reduce(n):
    assert total(ramp(n, dtype="float64")) == n * (n - 1) / 2
    assert total(cuda.to_device(ramp(n, dtype="int64")), init=5) == n * (n - 1) // 2 + 5
    assert largest(ramp(n, dtype="float64")) == n - 1
    res = cuda.device_array(1, np.float64)
    assert total(cuda.to_device(ramp(n, dtype="float64")), res=res) is None
    assert res[0] == n * (n - 1) / 2


@pytest.mark.filterwarnings("ignore:Could not find source")
def test_vectorize():
    @vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
    def hypotenuse_squared(a, b):
        return a * a + b * b

    x = ramp(3, 4)
    np.testing.assert_array_equal(hypotenuse_squared(x, x), 2 * x * x)
    np.testing.assert_array_equal(hypotenuse_squared(x, np.float32(2)), x * x + 4)
    out = hypotenuse_squared(cuda.to_device(x), cuda.to_device(x))
    assert isinstance(out, DeviceArray)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * x * x)
    row = hypotenuse_squared(cuda.to_device(x), cuda.to_device(ramp(1, 4)))
    np.testing.assert_array_equal(row.copy_to_host(), x * x + ramp(4) ** 2)
    assert hypotenuse_squared.reduce(np.array([1.0, 2.0, 1.0])) == 1 + (1 + 4) ** 2


@pytest.mark.filterwarnings("ignore:Could not find source")
def test_guvectorize():
    @guvectorize(["void(float32[:,:], float32[:,:], float32[:,:])"], "(m,n),(n,p)->(m,p)", target="cuda")
    def matmul(a, b, c):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                total = np.float32(0)
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    a, b = ramp(5, 2, 3), ramp(5, 3, 4)
    np.testing.assert_array_equal(matmul(a, b), a @ b)


def test_random_states():
    @cuda.jit
    def draw(states, out):
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

    states = create_xoroshiro128p_states(64, seed=3)
    first, second = np.zeros(64, np.float32), np.zeros(64, np.float32)
    draw[2, 32](states, first)
    draw[2, 32](states, second)
    assert len(set(first) | set(second)) == 128
    assert 0 <= first.min() < first.max() < 1


def test_transpose_kernel():
    x = ramp(33, 40)
    np.testing.assert_array_equal(transpose(cuda.to_device(x)).copy_to_host(), x.T)


def test_forall_and_mapped_memory():
    x = cuda.mapped_array(1000, np.int32)
    x[:] = 4
    add_one.forall(x.size)(x)
    assert set(x.tolist()) == {5}
    host = np.zeros(10, np.int64)
    with cuda.mapped(host) as d:
        add_one.forall(10)(d)
    assert set(host.tolist()) == {1}


def test_hints():
    a, b, c = ramp(3), ramp(3), ramp(3)
    add_one[1, 32](cuda.In(a))
    add_one[1, 32](cuda.InOut(b))

    @cuda.jit
    def fill(x):
        x[cuda.threadIdx.x] = 9

    fill[1, 3](cuda.Out(c))
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0, 1, 2], [1, 2, 3], [9, 9, 9])


def test_dynamic_shared_memory_and_events():
    @cuda.jit
    def reverse(x):
        buffer = cuda.shared.array(0, np.float32)
        i = cuda.threadIdx.x
        buffer[i] = x[i]
        cuda.syncthreads()
        x[i] = buffer[x.size - 1 - i]

    x = cuda.to_device(ramp(64))
    start, end = cuda.event(), cuda.event()
    s = cuda.stream()
    start.record(s)
    reverse[1, 64, s, 64 * 4](x)
    end.record(s)
    end.synchronize()
    assert start.elapsed_time(end) > 0
    np.testing.assert_array_equal(x.copy_to_host(stream=s), ramp(64)[::-1])


def test_kernels_launched_from_several_threads():
    arrays = [cuda.to_device(np.zeros(256, np.int64)) for _ in range(4)]

    def work(d):
        for _ in range(20):
            add_one[2, 128](d)

    threads = [threading.Thread(target=work, args=(d,)) for d in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(d.copy_to_host().tolist()) for d in arrays] == [{20}] * 4


def test_an_exception_in_a_kernel_leaves_host_arrays_alone():
    @cuda.jit
    def kernel(x):
        x[0] = 5
        if x.size == 3:
            raise ValueError("three")

    x = ramp(3)
    with pytest.raises(KernelException, match="ValueError: three"):
        kernel[1, 1](x)
    assert x[0] == 0
    kernel[1, 1](ramp(4))
