"""A small GEMM with `cp.async`, `ldmatrix` and `mma.sync` together: right, and nothing for the sanitizers to report."""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, types

import refkit.cpu
from refkit.cuda_kernels import ptx

SANITIZERS = ("race", "memory", "uninitialized", "barrier")


@cuda.jit(device=True)
def stage(tile_a, tile_b, a, b, buffer, start):
    """Starts the copy of 16 columns of A (16 x K) and 16 rows of B (K x 16): one 16-byte piece for each thread."""
    piece = cuda.threadIdx.x % 32
    row, column = piece // 2, 8 * (piece % 2)
    if cuda.threadIdx.x < 32:
        destination = ptx.shared_address(tile_a, (buffer, row, column))
        ptx.cp_async_cg(destination, ptx.global_address(a, (row, start + column)))
    else:
        destination = ptx.shared_address(tile_b, (buffer, row, column))
        ptx.cp_async_cg(destination, ptx.global_address(b, (start + row, column)))


def gemm(synchronised: bool, pending: int):
    """C = A B, A (16, K) and B (K, 16) in bfloat16: two warps, two buffers, `pending` groups under way at the wait."""

    @cuda.jit
    def kernel(a, b, c):
        tile_a = cuda.shared.array((2, 16, 16), types.uint16)
        tile_b = cuda.shared.array((2, 16, 16), types.uint16)
        lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
        total = (types.float32(0), types.float32(0), types.float32(0), types.float32(0))
        stage(tile_a, tile_b, a, b, 0, 0)
        ptx.cp_async_commit_group()
        steps = a.shape[1] // 16
        for step in range(steps):
            if step + 1 < steps:
                stage(tile_a, tile_b, a, b, (step + 1) % 2, 16 * (step + 1))
            ptx.cp_async_commit_group()
            ptx.cp_async_wait_group(pending)
            cuda.syncthreads()
            row = lane % 16
            fragment_a = ptx.ldmatrix_x4(ptx.shared_address(tile_a, (step % 2, row, 8 * (lane // 16))))
            fragment_b = ptx.ldmatrix_x2_trans(ptx.shared_address(tile_b, (step % 2, row, 8 * warp)))
            total = ptx.mma_m16n8k16_bf16(fragment_a, fragment_b, total)
            if synchronised:
                cuda.syncthreads()
        for i in range(4):
            c[lane // 4 + 8 * (i // 2), 8 * warp + 2 * (lane % 4) + i % 2] = total[i]

    return kernel


right, without_barrier, waits_too_late = gemm(True, 1), gemm(False, 1), gemm(True, 2)


def operands():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((16, 64), (64, 16)))
    return a.view(np.uint16), b.view(np.uint16), a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.cpu
@pytest.mark.parametrize(("sanitize", "schedule"), [((), None), ((), 1), ((), 2), (SANITIZERS, None), (SANITIZERS, 3)])
def test_a_pipelined_gemm(sanitize, schedule):
    a, b, product = operands()
    c = np.full((16, 16), np.nan, np.float32)
    with refkit.cpu.emulate(sanitize=sanitize, schedule=schedule):
        right[1, 64](a, b, c)
    assert np.array_equal(c, product)


@pytest.mark.cpu
def test_the_barrier_that_protects_a_buffer_from_the_next_copy_is_noticed():
    a, b, _ = operands()
    with refkit.cpu.emulate(sanitize=("race",)), pytest.raises(refkit.cpu.SanitizerFault, match="race on shared tile"):
        without_barrier[1, 64](a, b, np.zeros((16, 16), np.float32))


@pytest.mark.cpu
def test_a_wait_that_leaves_one_group_too_many_is_noticed():
    a, b, _ = operands()
    c = np.zeros((16, 16), np.float32)
    with refkit.cpu.emulate():
        waits_too_late[1, 64](a, b, c)
    assert np.isnan(c).all()
    with (
        refkit.cpu.emulate(sanitize=("uninitialized",)),
        pytest.raises(refkit.cpu.SanitizerFault, match=r"read of shared tile.*nothing has written"),
    ):
        waits_too_late[1, 64](a, b, c)
