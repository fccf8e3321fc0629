"""Accesses of several elements: what is reported of one that leaves its array, and what is none of the sanitizers'
business."""

import numpy as np
import pytest
from numba import cuda, float32, uint16

import refkit.cpu
from refkit.cuda_kernels import ptx

pytestmark = pytest.mark.cpu


@cuda.jit
def copy_four_kernel(x, first, y):
    values = ptx.ld_global_v4_f32(x, first)
    for k in range(4):
        y[k] = values[k]


@cuda.jit
def copy_four_of_a_row_kernel(x, row, column, y):
    values = ptx.ld_global_v4_f32(x, (row, column))
    for k in range(4):
        y[k] = values[k]


@cuda.jit
def copy_four_of_a_slice_kernel(x, y):
    values = ptx.ld_global_v4_f32(x[:2], 0)
    for k in range(4):
        y[k] = values[k]


@cuda.jit
def row_out_of_shared_kernel(y, first):
    tile = cuda.shared.array((8, 8), uint16)
    lane = cuda.threadIdx.x
    for i in range(lane, 64, 32):
        tile[i // 8, i % 8] = i
    cuda.syncwarp()
    y[lane] = ptx.ldmatrix_x1(ptx.shared_address(tile, (0, 0)) + 16 * (first + lane % 8))


@cuda.jit
def dynamic_tile_kernel(x, y, first):
    head = cuda.shared.array(4, float32)
    tile = cuda.shared.array(0, float32)
    for k in range(6):
        tile[k] = x[k]
    head[0] = x[0]
    values = ptx.ld_shared_v4_f32(tile, first)
    for k in range(4):
        y[k] = values[k]


def finding(launch, sanitize=("memory",)):
    with refkit.cpu.emulate(sanitize=sanitize), pytest.raises(refkit.cpu.SanitizerFault) as caught:
        launch()
    (only,) = caught.value.findings
    assert (only.sanitizer, only.problem) == ("memory", "out-of-bounds")
    return only


def four(x, first=0):
    y = cuda.device_array(4, np.float32)
    copy_four_kernel[1, 1](x, first, y)
    return y.copy_to_host().tolist()


def test_the_report_names_array_element_and_how_far_the_access_goes():
    fault = finding(lambda: four(cuda.to_device(np.arange(10, dtype=np.float32)), 8))
    assert fault.message == (
        "read of 16 bytes at x[8] begins in the array and ends 8 bytes past it (thread (0, 0, 0) of block (0, 0, 0))"
    )
    assert (fault.access, fault.address) == ("read", "x[8]")


def test_a_slice_ends_where_it_ends_though_the_memory_goes_on():
    ramp = np.arange(12, dtype=np.float32)
    with refkit.cpu.emulate(sanitize=("memory",)):
        assert four(cuda.to_device(ramp)[4:], 4) == [8, 9, 10, 11]
    assert finding(lambda: four(cuda.to_device(ramp)[4:10], 4)).address == "x[4]"


def test_rows_with_holes_between_them_end_with_the_last_row():
    table = np.arange(96, dtype=np.float32).reshape(8, 12)

    def four_from(row):
        y = cuda.device_array(4, np.float32)
        copy_four_of_a_row_kernel[1, 1](cuda.to_device(table)[:, :9], row, 8, y)
        return y.copy_to_host().tolist()

    with refkit.cpu.emulate(sanitize=("memory",)):
        assert four_from(6) == [80, 81, 82, 83]
    assert finding(lambda: four_from(7)).address == "x[7, 8]"


def test_a_slice_that_the_kernel_takes_has_the_bounds_of_the_whole():
    with refkit.cpu.emulate(sanitize=refkit.cpu.SANITIZERS):
        y = cuda.device_array(4, np.float32)
        copy_four_of_a_slice_kernel[1, 1](cuda.to_device(np.arange(4, dtype=np.float32)), y)
        assert y.copy_to_host().tolist() == [0, 1, 2, 3]


def test_of_two_arrays_over_the_same_memory_the_longer_counts():
    @cuda.jit
    def kernel(whole, part, y):
        values = ptx.ld_global_v4_f32(part, 0)
        for k in range(4):
            y[k] = values[k] + whole[k]

    with refkit.cpu.emulate(sanitize=("memory",)):
        x, y = cuda.to_device(np.arange(8, dtype=np.float32)), cuda.device_array(4, np.float32)
        kernel[1, 1](x, x[4:6], y)
        assert y.copy_to_host().tolist() == [4, 6, 8, 10]


def test_without_the_memory_sanitizer_nothing_is_said():
    with refkit.cpu.emulate(sanitize=("race",)):
        assert four(cuda.to_device(np.arange(12, dtype=np.float32))[:10], 8) == [8, 9, 10, 11]


def test_a_row_outside_shared_memory_is_named_as_that():
    with refkit.cpu.emulate(sanitize=("memory",)):
        row_out_of_shared_kernel[1, 32](cuda.device_array(32, np.uint32), 0)
    fault = finding(lambda: row_out_of_shared_kernel[1, 32](cuda.device_array(32, np.uint32), 1))
    assert "lies in no shared array (thread (7, 0, 0)" in fault.message


@pytest.mark.parametrize(("first", "size", "fits"), [(4, 8, True), (4, 6, False), (0, 6, True)])
def test_dynamic_shared_memory_ends_with_what_the_launch_asked_for(first, size, fits):
    def launch():
        x, y = cuda.to_device(np.arange(8, dtype=np.float32)), cuda.device_array(4, np.float32)
        dynamic_tile_kernel[1, 1, 0, 4 * size](x, y, first)

    if fits:
        with refkit.cpu.emulate(sanitize=("memory",)):
            launch()
    else:
        assert finding(launch).address == "shared tile[4]"
