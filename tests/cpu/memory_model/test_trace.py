"""Kernels traced on the executor, their lines against counts made by hand."""

import os

import numpy as np
import pytest
from numba import cuda, float32, int32

import refkit.cpu
from refkit.cuda_kernels import ptx

pytestmark = pytest.mark.cpu
THREADS = 128


@cuda.jit
def copy_with_stride(x, y, stride):
    i = cuda.grid(1)
    y[i] = x[i * stride]


@cuda.jit
def columns_of_a_tile(x, y, pitch):
    tile = cuda.shared.array(32 * 33, float32)
    lane, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row * pitch + lane] = x[row * 32 + lane]
    cuda.syncthreads()
    y[row * 32 + lane] = tile[lane * pitch + row]


@cuda.jit
def triangle(x, y):
    i = cuda.grid(1)
    total = float32(0)
    for outer in range(3):
        for inner in range(i % 4):
            total += x[outer * 1024 + inner * 32 + i]
    y[i] = total


@cuda.jit
def sum_of_columns(x, y):
    """A reduction over columns whose threads walk along rows: every lane is a row of its own."""
    row = cuda.grid(1)
    total = float32(0)
    for column in range(x.shape[1]):
        total += x[row, column]
    y[row] = total


@cuda.jit
def half_a_warp(x, y):
    i = cuda.threadIdx.x
    if i % 32 < 16:
        y[i] = x[i]


@cuda.jit(device=True)
def element(x, i):
    return x[i] * x[i]


@cuda.jit
def through_a_function(x, y):
    for turn in range(2):
        y[cuda.grid(1)] += element(x, cuda.threadIdx.x + turn)


@cuda.jit
def counts(keys, bins):
    mine = cuda.shared.array(64, int32)
    i = cuda.threadIdx.x
    if i < 64:
        mine[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(mine, keys[i], 1)
    cuda.syncthreads()
    if i < 64:
        cuda.atomic.add(bins, i, mine[i])


def line_of(function, text):
    """The line of the kernel's source that holds `text`."""
    code = function.py_func.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    return next(n + 1 for n in range(code.co_firstlineno, len(lines)) if text in lines[n])


def traced(launch):
    with refkit.cpu.trace() as tracer:
        launch()
    return tracer.report()


def one(report, **wanted):
    """The only line of a report that has all the wanted values."""
    found = [line for line in report.lines if all(getattr(line, name) == value for name, value in wanted.items())]
    assert len(found) == 1, [(line.line, line.space, line.access) for line in report.lines]
    return found[0]


def floats(count):
    return cuda.to_device(np.arange(count, dtype=np.float32))


@pytest.mark.parametrize(("stride", "expected"), [(1, 4), (2, 8), (4, 16), (32, 32), (0, 1)])
def test_strides_of_global_loads(stride, expected):
    report = traced(
        lambda: copy_with_stride[4, THREADS](floats(4 * THREADS * max(stride, 1)), floats(4 * THREADS), stride)
    )
    line = one(report, space="global", access="read")
    assert (line.sectors, line.ideal_sectors) == (expected, 1 if stride == 0 else 4)
    assert (line.requests, line.lanes, line.bytes_per_lane) == (16, 32, 4)
    assert bool(line.problem) == (stride > 1)
    assert one(report, access="write").sectors == 4


def test_the_source_line_is_that_of_the_access():
    report = traced(lambda: copy_with_stride[1, 32](floats(64), floats(32), 2))
    line = one(report, access="read")
    assert os.path.basename(line.file) == os.path.basename(__file__)
    assert line.line == line_of(copy_with_stride, "y[i] = x[i * stride]")
    assert line.kernel == "copy_with_stride"


def test_an_array_that_starts_off_a_sector_takes_one_more():
    report = traced(lambda: copy_with_stride[1, 32](floats(64)[1:], floats(32), 1))
    assert one(report, access="read").sectors == 5
    assert not report.flagged


@pytest.mark.parametrize(("pitch", "expected"), [(32, 32), (33, 1)])
def test_a_column_of_a_tile_conflicts_unless_rows_are_padded(pitch, expected):
    report = traced(lambda: columns_of_a_tile[1, (32, 32)](floats(1024), floats(1024), pitch))
    line = one(report, space="shared", access="read")
    assert (line.passes, line.worst_passes, line.ideal_passes) == (expected, expected, 1)
    assert line.line == line_of(columns_of_a_tile, "tile[lane * pitch + row]")
    assert line.problem == ("bank conflicts" if pitch == 32 else "")
    assert one(report, space="shared", access="write").passes == 1


def test_lanes_of_a_divergent_loop_are_aligned_by_the_turns_of_every_loop():
    # per turn of the outer loop: turn 0 of the inner with the 24 lanes whose i % 4 > 0, turn 1 with 16, turn 2 with 8
    report = traced(lambda: triangle[1, 32](floats(4096), floats(32)))
    line = one(report, access="read")
    assert line.requests == 9
    assert line.lanes == (24 + 16 + 8) / 3
    assert line.sectors == 4  # the lanes that take part lie in all four sectors of their row


def test_the_uncoalesced_column_reduction_is_flagged():
    report = traced(lambda: sum_of_columns[2, 64](floats(128 * 64).reshape(128, 64), floats(128)))
    line = one(report, access="read")
    assert (line.sectors, line.problem) == (32, "uncoalesced")
    assert report.flagged == (line,)
    assert report.lines[0] is line


def test_only_active_lanes_count():
    line = one(traced(lambda: half_a_warp[1, 64](floats(64), floats(64))), access="read")
    assert (line.requests, line.lanes, line.sectors, line.ideal_sectors) == (2, 16, 2, 2)


def test_device_functions_are_traced_where_they_stand_and_equal_reads_once():
    report = traced(lambda: through_a_function[1, 32](floats(64), floats(32)))
    line = one(report, access="read", line=line_of(element, "return x[i] * x[i]"))
    assert line.requests == 2
    assert line.sectors == (4 + 5) / 2


def test_atomics_in_shared_memory_conflict_on_the_same_word():
    keys = np.repeat(np.arange(8), 4).astype(np.int32)

    def launch():
        counts[1, 64](cuda.to_device(np.tile(keys, 2)), cuda.to_device(np.zeros(64, np.int32)))

    report = traced(launch)
    line = one(report, space="shared", access="atomic")
    assert (line.passes, line.ideal_passes, line.problem) == (4, 1, "bank conflicts")
    assert one(report, space="global", access="atomic").sectors == 4


def test_launches_add_up_and_are_told():
    with refkit.cpu.trace() as tracer:
        for blocks in (1, 2):
            copy_with_stride[blocks, THREADS](floats(256), floats(256), 1)
    assert one(tracer.report(), access="read").requests == 3 * THREADS // 32
    assert [(launch.kernel, launch.grid, launch.block) for launch in tracer.launches] == [
        ("copy_with_stride", (1, 1, 1), (THREADS, 1, 1)),
        ("copy_with_stride", (2, 1, 1), (THREADS, 1, 1)),
    ]


def test_of_a_large_grid_eight_blocks_are_looked_at():
    report = traced(lambda: copy_with_stride[1000, 32](floats(32000), floats(32000), 1))
    assert one(report, access="read").requests == 8


def test_long_loops_are_recorded_in_part_and_counted_whole():
    report = traced(lambda: sum_of_columns[1, 32](floats(32 * 1000).reshape(32, 1000), floats(32)))
    line = one(report, access="read")
    assert (line.requests, line.executions) == (256, 1000)


def test_results_are_those_of_an_untraced_launch():
    with refkit.cpu.trace():
        x, y = floats(4096), floats(32)
        triangle[1, 32](x, y)
        got = y.copy_to_host()
    lanes = np.arange(32)
    wanted = sum(np.where(t < lanes % 4, o * 1024 + t * 32 + lanes, 0) for o in range(3) for t in range(3))
    assert got.tolist() == wanted.tolist()


@cuda.jit
def vectors(x, y, step):
    tile = cuda.shared.array(1024, float32, alignment=16)
    i = cuda.threadIdx.x
    ptx.st_shared_v4_f32(tile, 4 * i, ptx.ld_global_v4_f32(x, 4 * i))
    cuda.syncthreads()
    ptx.st_global_v4_f32(y, 4 * i, ptx.ld_shared_v4_f32(tile, step * i % 1024))


@pytest.mark.parametrize(("step", "expected"), [(4, 4), (8, 8), (32, 32)])
def test_vector_loads_written_as_inline_ptx(step, expected):
    report = traced(lambda: vectors[1, 32](floats(1024), floats(1024), step))
    line = one(report, space="shared", access="read")
    assert (line.bytes_per_lane, line.passes, line.ideal_passes) == (16, expected, 4)
    assert line.line == line_of(vectors, "ld_shared_v4_f32")
    assert one(report, space="global", access="read").sectors == 16
    assert one(report, space="shared", access="write").passes == 4


@cuda.jit
def swizzled(x, y, key_shift):
    """Rows of 128 bytes; the 16-byte chunk of a row is exchanged by a key made of its row number."""
    tile = cuda.shared.array(32 * 64, "uint16", alignment=128)
    lane = cuda.threadIdx.x
    for chunk in range(8):
        for k in range(8):
            place = chunk ^ (lane >> key_shift & 7)
            tile[lane * 64 + place * 8 + k] = x[lane * 64 + chunk * 8 + k]
    cuda.syncwarp()
    for chunk in range(0, 8, 2):
        row = lane & 15
        place = (chunk + (lane >> 4)) ^ (row >> key_shift & 7)
        a, b, c, d = ptx.ldmatrix_x4(ptx.shared_address(tile, row * 64 + place * 8))
        y[chunk * 32 + lane] = a + b + c + d


@pytest.mark.parametrize(("key_shift", "expected"), [(0, 4), (1, 8), (3, 32)])
def test_the_wrongly_keyed_swizzle_of_ldmatrix_is_flagged(key_shift, expected):
    # keyed by the row the 8 rows of a matrix lie in 8 different groups of banks; by row / 2 in 4; by row / 8 in one
    data = np.arange(32 * 64, dtype=np.uint16)
    report = traced(lambda: swizzled[1, 32](cuda.to_device(data), cuda.to_device(np.zeros(256, np.uint32)), key_shift))
    line = one(report, space="shared", access="read")
    assert (line.bytes_per_lane, line.passes, line.ideal_passes) == (16, expected, 4)
    assert (line in report.flagged) == (expected > 8)


@cuda.jit
def copied(x, y, step, count):
    tile = cuda.shared.array(1024, float32, alignment=16)
    i = cuda.threadIdx.x
    size = 16 if i < count else 0
    ptx.cp_async_cg_zfill(ptx.shared_address(tile, step * i % 1024), ptx.global_address(x, 4 * i), size)
    ptx.cp_async_commit_group()
    ptx.cp_async_wait_group(0)
    cuda.syncthreads()
    y[i] = tile[i]


@pytest.mark.parametrize(("step", "passes"), [(4, 4), (32, 32)])
@pytest.mark.parametrize("count", [32, 6])
def test_asynchronous_copies_read_global_and_write_shared_memory(step, passes, count):
    report = traced(lambda: copied[1, 32](floats(1024), floats(32), step, count))
    read, write = one(report, space="global", access="read"), one(report, space="shared", access="write")
    assert (read.lanes, read.sectors, read.bytes_per_lane) == (count, count / 2, 16)  # lanes of zeros read nothing
    assert (write.lanes, write.passes, write.ideal_passes) == (32, passes, 4)
    assert read.line == write.line == line_of(copied, "cp_async_cg_zfill")


TABLE = np.arange(8, dtype=np.float32) ** 2


@cuda.jit
def from_constants_and_local_memory(y):
    table = cuda.const.array_like(TABLE)
    mine = cuda.local.array(4, float32)
    i = cuda.threadIdx.x
    for k in range(4):
        mine[k] = table[(i + k) % 8]
    y[i] = mine[i % 4]


def test_constants_and_local_arrays_are_no_traffic():
    report = traced(lambda: from_constants_and_local_memory[1, 32](floats(32)))
    assert [(line.space, line.access) for line in report.lines] == [("global", "write")]
