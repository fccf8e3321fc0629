"""Shared memory: static, dynamic and both; several arrays; structures; blocks that must not see each other's."""

import numpy as np
import pytest
from numba import cuda, float32, float64, int8, int32, int64
from numba.cuda.cudadrv.driver import CudaAPIError

from refkit.cpu import LaunchConfigurationError, emulate
from refkit.cuda_kernels.launch.dynamic_shared import configured

pytestmark = pytest.mark.cpu


@cuda.jit
def several_static(out):
    a = cuda.shared.array(5, int8)
    b = cuda.shared.array((3, 4), float64)
    c = cuda.shared.array(7, int32)
    i = cuda.threadIdx.x
    if i < 5:
        a[i] = 100 + i
    if i < 12:
        b[i // 4, i % 4] = i / 4
    if i < 7:
        c[i] = -i
    cuda.syncthreads()
    if i < 5:
        out[i] = a[4 - i]
    if i < 12:
        out[5 + i] = b[2 - i // 4, 3 - i % 4]
    if i < 7:
        out[17 + i] = c[6 - i]


def test_static_arrays_do_not_overlap():
    out = np.zeros(24)
    with emulate():
        several_static[2, 16](out)
    expected = [*range(104, 99, -1), *(np.arange(12)[::-1] / 4), *range(-6, 1)]
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def dynamic(out):
    buffer = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    buffer[i] = i + 1000 * cuda.blockIdx.x
    cuda.syncthreads()
    out[cuda.blockIdx.x, i] = buffer[cuda.blockDim.x - 1 - i]
    if i == 0:
        out[cuda.blockIdx.x, 0] += buffer.size


@pytest.mark.parametrize("n", [1, 33, 256])
def test_dynamic_array_has_the_size_of_the_launch(n):
    out = np.zeros((3, n), np.float32)
    with emulate():
        dynamic[3, n, 0, 4 * n](out)
    expected = np.arange(n)[::-1] + 1000.0 * np.arange(3)[:, None]
    expected[:, 0] += n
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def dynamic_in_two_types(out):
    """Two dynamic arrays begin at the same address; slices part it."""
    everything = cuda.shared.array(0, int32)
    floats = cuda.shared.array(0, float32)[4:8]
    i = cuda.threadIdx.x
    if i < 4:
        everything[i] = i + 1
        floats[i] = i + 0.5
    cuda.syncthreads()
    if i < 4:
        out[i] = everything[3 - i]
        out[4 + i] = cuda.shared.array(0, float32)[7 - i]


def test_dynamic_arrays_share_one_address():
    out = np.zeros(8)
    with emulate():
        dynamic_in_two_types[1, 32, 0, 32](out)
    np.testing.assert_array_equal(out, [4, 3, 2, 1, 3.5, 2.5, 1.5, 0.5])


@cuda.jit
def static_and_dynamic(out):
    fixed = cuda.shared.array(3, float64)
    flexible = cuda.shared.array(0, float64)
    i = cuda.threadIdx.x
    if i < 3:
        fixed[i] = 100 + i
    flexible[i] = i
    cuda.syncthreads()
    out[i] = flexible[i] + fixed[i % 3]


def test_static_and_dynamic_together():
    out = np.zeros(40)
    with emulate():
        static_and_dynamic[1, 40, 0, 40 * 8](out)
    np.testing.assert_array_equal(out, np.arange(40) + 100 + np.arange(40) % 3)


particle = np.dtype([("mass", np.float32), ("kind", np.int8), ("position", np.float64)], align=True)


@cuda.jit
def structures(x, out):
    cells = cuda.shared.array(32, particle)
    i = cuda.threadIdx.x
    cells[i] = x[i]
    cells[i].kind += 1
    cuda.syncthreads()
    out[i] = cells[31 - i]


def test_structures():
    x = np.zeros(32, particle)
    x["mass"], x["kind"], x["position"] = np.arange(32) / 2, np.arange(32), np.arange(32) * 1e10
    out = np.zeros(32, particle)
    with emulate():
        structures[1, 32](x, out)
    x["kind"] += 1
    np.testing.assert_array_equal(out, x[::-1])


@cuda.jit
def complex_numbers(out):
    cells = cuda.shared.array(4, np.complex64)
    i = cuda.threadIdx.x
    cells[i] = complex(i, -i)
    cuda.syncthreads()
    out[i] = cells[3 - i] * 1j


def test_complex_numbers():
    out = np.zeros(4, np.complex64)
    with emulate():
        complex_numbers[1, 4](out)
    k = np.arange(4)[::-1]
    np.testing.assert_array_equal(out, (k - 1j * k) * 1j)


@cuda.jit(device=True)
def own_scratch(value):
    """Shared memory of a device function: one array for the block, wherever the function is called."""
    scratch = cuda.shared.array(64, int64)
    i = cuda.threadIdx.x
    scratch[i] = value
    cuda.syncthreads()
    result = scratch[63 - i]
    cuda.syncthreads()
    return result


@cuda.jit(device=True)
def fill(buffer, i, value):
    buffer[i] = value


@cuda.jit
def in_functions(out):
    buffer = cuda.shared.array(64, int64)
    i = cuda.threadIdx.x
    fill(buffer, i, 10 * own_scratch(i))
    cuda.syncthreads()
    out[i] = own_scratch(buffer[63 - i])


def test_in_device_functions():
    out = np.zeros(64, np.int64)
    with emulate():
        in_functions[1, 64](out)
    np.testing.assert_array_equal(out, 10 * np.arange(64)[::-1])


@cuda.jit
def aligned(out):
    first = cuda.shared.array(3, int8)
    second = cuda.shared.array(8, float32, alignment=128)
    i = cuda.threadIdx.x
    if i < 3:
        first[i] = i
    second[i] = i + 0.5
    cuda.syncthreads()
    out[i] = second[7 - i] + first[i % 3]


def test_alignment_is_accepted():
    out = np.zeros(8, np.float32)
    with emulate():
        aligned[1, 8](out)
    np.testing.assert_array_equal(out, 7 - np.arange(8) + 0.5 + np.arange(8) % 3)


@cuda.jit
def unwritten(out):
    buffer = cuda.shared.array(4, float32)
    whole = cuda.shared.array(4, int32)
    if cuda.blockIdx.x == 0:
        buffer[0] = 1.0
        whole[0] = 5
    cuda.syncthreads()
    out[cuda.blockIdx.x, 0] = buffer[0]
    out[cuda.blockIdx.x, 1] = whole[0]


def test_unwritten_shared_memory_shows_and_no_block_sees_anothers():
    out = np.zeros((3, 2))
    with emulate(workers=1):
        unwritten[3, 1](out)
    np.testing.assert_array_equal(out, [[1, 5], [np.nan, -1], [np.nan, -1]])


@cuda.jit
def big(out):
    buffer = cuda.shared.array(12 * 1024, float32)
    i = cuda.threadIdx.x
    for k in range(i, buffer.size, cuda.blockDim.x):
        buffer[k] = k
    cuda.syncthreads()
    total = 0.0
    for k in range(i, buffer.size, cuda.blockDim.x):
        total += buffer[buffer.size - 1 - k]
    cuda.atomic.add(out, cuda.blockIdx.x, total)


def test_all_of_48_kilobytes_in_blocks_of_several_workers():
    out = np.zeros(64)
    with emulate(workers=3):
        big[64, 256](out)
    assert (out == sum(range(12 * 1024))).all()


def test_more_dynamic_memory_than_a_device_has_is_refused():
    with emulate(), pytest.raises(LaunchConfigurationError, match="shared memory"):
        dynamic[1, 32, 0, 1 << 20](np.zeros((1, 32), np.float32))


def too_much(n):
    @cuda.jit
    def kernel(out):
        static = cuda.shared.array(n, float32)
        static[cuda.threadIdx.x] = out[0]
        cuda.syncthreads()
        out[cuda.threadIdx.x] = static[0]

    return kernel


@pytest.mark.parametrize(
    ("n", "dynamic_bytes", "refused"),
    [
        (12288, 0, ""),
        (12289, 0, "49156 bytes of static shared memory; the limit is 49152 together"),
        (12000, 1152, ""),
        (12000, 1153, "48000 bytes of static and 1153 of dynamic shared memory; the limit is 49152 together"),
    ],
)
def test_a_block_gets_no_more_than_a_device_gives(n, dynamic_bytes, refused):
    out = np.ones(32, np.float32)
    with emulate():
        if refused:
            with pytest.raises(LaunchConfigurationError, match=refused):
                too_much(n)[1, 32, 0, dynamic_bytes](out)
        else:
            too_much(n)[1, 32, 0, dynamic_bytes](out)


@cuda.jit
def reversed_in_dynamic_memory(x, y):
    tile = cuda.shared.array(0, float32)
    thread, last = cuda.threadIdx.x, x.shape[0] - 1
    for i in range(thread, x.shape[0], cuda.blockDim.x):
        tile[i] = x[i]
    cuda.syncthreads()
    for i in range(thread, x.shape[0], cuda.blockDim.x):
        y[i] = tile[last - i]


def test_a_kernel_that_was_allowed_more_may_use_more_than_48_kilobytes():
    x = np.arange(20_000, dtype=np.float32)
    with emulate():
        y = cuda.device_array(x.shape, x.dtype)
        configured(reversed_in_dynamic_memory, 1, 64, 0, x.nbytes)(cuda.to_device(x), y)
        np.testing.assert_array_equal(y.copy_to_host(), x[::-1])


def test_no_kernel_is_allowed_more_than_a_multiprocessor_has():
    x = np.ones(8, np.float32)
    with emulate(), pytest.raises(CudaAPIError, match="232449 bytes of dynamic shared memory; a block has 232448"):
        configured(reversed_in_dynamic_memory, 1, 8, 0, 227 * 1024 + 1)(cuda.to_device(x), cuda.to_device(x))
