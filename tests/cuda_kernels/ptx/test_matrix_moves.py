"""`ldmatrix` and `stmatrix` on the executor, against the PTX ISA's own picture of who holds what."""

import numpy as np
import pytest
from numba import cuda, types

import refkit.cpu
from refkit.cuda_kernels import ptx

LOADS = {
    (1, False): ptx.ldmatrix_x1,
    (2, False): ptx.ldmatrix_x2,
    (4, False): ptx.ldmatrix_x4,
    (1, True): ptx.ldmatrix_x1_trans,
    (2, True): ptx.ldmatrix_x2_trans,
    (4, True): ptx.ldmatrix_x4_trans,
}
STORES = {
    (1, False): ptx.stmatrix_x1,
    (2, False): ptx.stmatrix_x2,
    (4, False): ptx.stmatrix_x4,
    (1, True): ptx.stmatrix_x1_trans,
    (2, True): ptx.stmatrix_x2_trans,
    (4, True): ptx.stmatrix_x4_trans,
}
SANITIZERS = ("race", "memory", "uninitialized", "barrier")  # a watched kernel takes a second to compile: x4 alone
ORDER = np.random.default_rng(5).permutation(32)  # where each lane's row lies: rows need not follow one another


def held(matrices: np.ndarray, count: int, trans: bool) -> np.ndarray:
    """The registers, (32, count), that hold matrices (4, 8, 8): row lane / 4, columns 2 (lane % 4) and the next."""
    lane = np.arange(32)
    source = matrices.transpose(0, 2, 1) if trans else matrices
    low = source[:count, lane // 4, 2 * (lane % 4)].astype(np.uint32)
    high = source[:count, lane // 4, 2 * (lane % 4) + 1].astype(np.uint32)
    return (low | high << 16).T


def _loading(load, count):
    if count == 1:

        @cuda.jit(device=True)
        def take(address, registers, lane):
            registers[lane, 0] = load(address)
    else:

        @cuda.jit(device=True)
        def take(address, registers, lane):
            result = load(address)
            for i in range(count):
                registers[lane, i] = result[i]

    return take


@pytest.mark.cpu
@pytest.mark.parametrize(("count", "trans"), LOADS)
def test_load(count, trans):
    take = _loading(LOADS[count, trans], count)

    @cuda.jit
    def kernel(rows, order, registers):
        tile = cuda.shared.array((32, 8), types.uint16)
        lane = cuda.threadIdx.x
        for i in range(8):
            tile[order[lane], i] = rows[lane, i]
        cuda.syncthreads()
        take(ptx.shared_address(tile, (order[lane], 0)), registers, lane)

    rows = np.arange(256, dtype=np.uint16).reshape(32, 8) * 37
    registers = np.zeros((32, count), np.uint32)
    with refkit.cpu.emulate(sanitize=SANITIZERS if count == 4 else ()):
        kernel[1, 32](rows, ORDER, registers)
    assert np.array_equal(registers, held(rows.reshape(4, 8, 8), count, trans))


def _storing(store, count):
    if count == 1:

        @cuda.jit(device=True)
        def give(address, registers, lane):
            store(address, registers[lane, 0])
    elif count == 2:

        @cuda.jit(device=True)
        def give(address, registers, lane):
            store(address, (registers[lane, 0], registers[lane, 1]))
    else:

        @cuda.jit(device=True)
        def give(address, registers, lane):
            store(address, (registers[lane, 0], registers[lane, 1], registers[lane, 2], registers[lane, 3]))

    return give


@pytest.mark.cpu
@pytest.mark.parametrize(("count", "trans"), STORES)
def test_store(count, trans):
    give = _storing(STORES[count, trans], count)

    @cuda.jit
    def kernel(registers, order, rows):
        tile = cuda.shared.array((32, 8), types.uint16)
        lane = cuda.threadIdx.x
        give(ptx.shared_address(tile, (order[lane], 0)), registers, lane)
        cuda.syncthreads()
        if lane < 8 * count:
            for i in range(8):
                rows[lane, i] = tile[order[lane], i]

    wanted = np.arange(256, dtype=np.uint16).reshape(32, 8) * 41
    rows = np.zeros((32, 8), np.uint16)
    with refkit.cpu.emulate(sanitize=SANITIZERS if count == 4 else ()):
        kernel[1, 32](held(wanted.reshape(4, 8, 8), count, trans), ORDER, rows)
    assert np.array_equal(rows[: 8 * count], wanted[: 8 * count])
    assert not rows[8 * count :].any()


@cuda.jit
def absent_lane(x):
    if cuda.threadIdx.x != 7:
        x[cuda.threadIdx.x] = ptx.ldmatrix_x1(ptx.generic_address(x, 0))


@cuda.jit
def two_places(x):
    address = ptx.generic_address(x, 0)
    if cuda.threadIdx.x < 16:
        value = ptx.ldmatrix_x1(address)
    else:
        value = ptx.ldmatrix_x1(address)
    x[cuda.threadIdx.x] = value


@cuda.jit
def misaligned(x):
    tile = cuda.shared.array(80, types.uint32)
    lane = cuda.threadIdx.x
    tile[lane] = tile[lane + 32] = lane
    cuda.syncthreads()
    x[lane] = ptx.ldmatrix_x1(ptx.shared_address(tile, (lane & 7) * 4 + 1))


@pytest.mark.cpu
@pytest.mark.parametrize(("kernel", "lanes"), [(absent_lane, 31), (two_places, 32)])
def test_lanes_that_do_not_come_together_are_reported_with_instruction_and_line(kernel, lanes):
    with (
        refkit.cpu.emulate(),
        pytest.raises(refkit.cpu.Deadlock, match=r"waits? for all 32 lanes of the warp at ldmatrix") as caught,
    ):
        kernel[1, 32](np.zeros(32, np.uint32))
    assert len(caught.value.threads) == lanes
    assert caught.value.line == kernel.py_func.__code__.co_firstlineno + (3 if kernel is absent_lane else 4)


@pytest.mark.cpu
def test_a_row_that_is_not_aligned_is_reported():
    with refkit.cpu.emulate(sanitize=("memory",)), pytest.raises(refkit.cpu.SanitizerFault, match="not aligned"):
        misaligned[1, 32](np.zeros(32, np.uint32))
