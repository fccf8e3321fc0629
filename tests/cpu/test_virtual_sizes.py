"""Arrays larger than memory and grids larger than patience: index arithmetic past 2^31 and 2^32 on a small machine."""

import numpy as np
import pytest
from numba import cuda, int32, int64

from refkit.cpu import emulate
from refkit.cpu.sampling import sampled_blocks

pytestmark = pytest.mark.cpu

SIZE = 2**32 + 4096  # elements: past 2^32
ROW, STRIDE = 225_304, 9_728  # c28: row * stride is 2.19e9, past 2^31


@cuda.jit
def fill(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 1 + (i & 127)


@cuda.jit
def fill_by_int32(x):
    i = int32(cuda.grid(1))  # wraps past 2^31, and a negative index wraps again
    if i < x.size:
        x[i] = 1 + (i & 127)


@cuda.jit
def gather_row(flat, row, stride, y):
    i = cuda.threadIdx.x
    y[i] = flat[int64(row) * int64(stride) + i]


@cuda.jit
def gather_row_by_int32(flat, row, stride, y):
    i = cuda.threadIdx.x
    y[i] = flat[int32(int32(row) * int32(stride)) + i]


def test_the_sample_holds_both_ends_and_every_power_of_two():
    blocks, threads = 2**25 + 17, 256
    chosen = set(sampled_blocks(blocks, threads, 500).tolist())
    assert {0, 1, blocks - 1, blocks - 2} <= chosen
    for power in range(25):
        assert {2**power - 1, 2**power, 2**power + 1} <= chosen
    assert {2**31 // threads - 1, 2**31 // threads, 2**32 // threads} <= chosen
    assert len(chosen) <= 500 + 300
    assert sampled_blocks(10, threads, 500).tolist() == list(range(10))


def written(x, start, stop):
    return x[start:stop].copy_to_host()


def test_an_array_past_four_billion_elements_is_indexed_right():
    with emulate(sample=400):
        x = cuda.device_array(SIZE, np.uint8)
        fill[-(-SIZE // 256), 256](x)
        for start in (0, 2**31 - 256, 2**31, 2**32 - 256, 2**32, SIZE - 256):
            index = np.arange(start, start + 256)
            assert (written(x, start, start + 256) == 1 + (index & 127)).all(), start


def test_an_index_kept_in_32_bits_goes_astray():
    with emulate(sample=400):
        x = cuda.device_array(SIZE, np.uint8)
        fill_by_int32[-(-SIZE // 256), 256](x)
        assert (written(x, 2**31 - 256, 2**31) == 1 + (np.arange(2**31 - 256, 2**31) & 127)).all()
        assert not written(x, 2**31, 2**31 + 256).all()


def test_a_large_stride_takes_64_bits():
    with emulate():
        flat = cuda.device_array(ROW * STRIDE + 64, np.uint8)
        flat[ROW * STRIDE : ROW * STRIDE + 32] = np.arange(1, 33, dtype=np.uint8)
        y = cuda.to_device(np.zeros(32, np.uint8))
        gather_row[1, 32](flat, np.int32(ROW), np.int32(STRIDE), y)
        assert (y.copy_to_host() == np.arange(1, 33)).all()


def test_the_memory_sanitizer_names_an_index_that_overflowed():
    from refkit.cpu import SanitizerFault

    with emulate(sanitize=("memory",)):
        flat = cuda.device_array(ROW * STRIDE + 64, np.uint8)
        y = cuda.to_device(np.zeros(32, np.uint8))
        with pytest.raises(SanitizerFault) as caught:
            gather_row_by_int32[1, 32](flat, np.int32(ROW), np.int32(STRIDE), y)
    finding = caught.value.findings[0]
    assert finding.problem == "negative-index"
    assert "flat" in finding.address


def test_a_sample_must_be_a_number_of_blocks():
    with pytest.raises(ValueError, match="sample=0"):
        emulate(sample=0)
