"""`wgmma` on the executor: every layout of its operands, and its arithmetic against the oracle, bit for bit.

The layouts are stated here once more, as the place of each element in a byte image (PTX ISA 9.1, "Asynchronous
Warpgroup Level Matrix Shared Memory Layout"), so that neither the executor's nor the kernels' statement is its own
test.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest
from numba import cuda, float32, uint8, uint32, uint64

import refkit.cpu
from refkit.cuda_kernels import ptx
from tests.cpu.tensor_core import oracle

pytestmark = pytest.mark.cpu
B_START = 1 << 14
WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}  # bytes of a line, by the swizzle field of a descriptor
BYTES = {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}


@dataclass(frozen=True)
class Placed:
    """An operand in shared memory: its bytes, and its descriptor's address, leading offset, stride and swizzle."""

    image: np.ndarray
    address: int
    leading: int
    stride: int
    swizzle: int

    @property
    def descriptor(self) -> np.ndarray:
        return np.array([self.address, self.leading, self.stride, self.swizzle], np.uint64)


def along_k(encoded: np.ndarray, swizzle: int, step: int = 0) -> Placed:
    """Rows (of M or N) with K contiguous; `step` says in which 32 bytes of a line they lie."""
    rows, size = encoded.shape[0], encoded.dtype.itemsize
    row, byte = np.divmod(np.arange(rows * 32), 32)
    width = WIDTHS[swizzle]
    image = np.full(1 << 16, 0xEE, np.uint8)
    if swizzle == 0:
        leading, stride = 16 * rows, 128
        place = byte // 16 * leading + row // 8 * stride + row % 8 * 16 + byte % 16
    else:
        leading, stride = 16, 8 * width
        piece = (32 * step + byte) // 16 ^ (row % 8 * width // 128)
        place = row // 8 * stride + row % 8 * width + piece * 16 + byte % 16
    image[place] = encoded.view(np.uint8).reshape(rows, 32 // size * size).reshape(-1)
    return Placed(image, 32 * step, leading, stride, swizzle)


def across_k(encoded: np.ndarray, swizzle: int) -> Placed:
    """The same matrix (rows of M or N, 16 of K), 2 bytes an element, with M or N contiguous."""
    rows = encoded.shape[0]
    row, k = (index.reshape(-1) for index in np.indices(encoded.shape))
    width = WIDTHS[swizzle]
    if swizzle == 0:
        leading, stride = 128, 256
        place = row // 8 * stride + k // 8 * leading + k % 8 * 16 + row % 8 * 2
    else:
        stride, leading = 8 * width, 16 * width
        line = width // 2
        piece = row % line // 8 ^ (k % 8 * width // 128)
        place = row // line * leading + k // 8 * stride + k % 8 * width + piece * 16 + row % 8 * 2
    image = np.full(1 << 16, 0xEE, np.uint8)
    image[place] = encoded.view(np.uint8).reshape(rows * 16, 2)[:, 0]
    image[place + 1] = encoded.view(np.uint8).reshape(rows * 16, 2)[:, 1]
    return Placed(image, 0, leading, stride, swizzle)


@functools.cache
def product(kind: str, n: int, majors: tuple[int, int] | None, in_registers: bool):
    """The kernel y = a b + c of one instruction; the operands' images come to shared memory by ordinary stores."""
    registers = n // 2
    name = f"wgmma_m64k{32 // BYTES[kind]}_{kind}" + "_register_a" * in_registers
    wgmma = getattr(ptx, name)
    a_major, b_major = majors or (0, 0)

    @cuda.jit(device=True)
    def issue(sums, fragment, a, b, adds):
        if in_registers:
            if majors is None:
                wgmma(sums, fragment, b, n, adds)
            else:
                wgmma(sums, fragment, b, n, adds, b_major)
        elif majors is None:
            wgmma(sums, a, b, n, adds)
        else:
            wgmma(sums, a, b, n, adds, a_major, b_major)

    @cuda.jit
    def kernel(image, fragments, a_form, b_form, adds, c, y):
        shared = cuda.shared.array(0, uint8)
        sums = cuda.local.array(registers, float32)
        t = cuda.threadIdx.x
        for i in range(t, image.size, 128):
            shared[i] = image[i]
        row, column = 16 * (t // 32) + t % 32 // 4, 2 * (t % 4)
        for i in range(registers):
            sums[i] = c[row + 8 * (i // 2 % 2), column + 8 * (i // 4) + i % 2]
        ptx.fence_proxy_async()
        cuda.syncthreads()
        start = ptx.shared_address(shared, 0)
        a = ptx.matrix_descriptor(start + a_form[0], a_form[1], a_form[2], a_form[3])
        b = ptx.matrix_descriptor(start + uint64(B_START) + b_form[0], b_form[1], b_form[2], b_form[3])
        fragment = fragments[t, 0], fragments[t, 1], fragments[t, 2], fragments[t, 3]
        ptx.wgmma_fence()
        issue(sums, fragment, a, b, uint32(adds))
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for i in range(registers):
            y[row + 8 * (i // 2 % 2), column + 8 * (i // 4) + i % 2] = sums[i]

    return kernel


def a_fragments(encoded: np.ndarray) -> np.ndarray:
    """A (64, K) as each thread's four registers: rows as in `mma.sync`, 16 a warp."""
    words = np.ascontiguousarray(encoded).view(np.uint32)  # (64, 8)
    t = np.arange(128)[:, None]
    register = np.arange(4)[None, :]
    return words[16 * (t // 32) + t % 32 // 4 + 8 * (register % 2), 4 * (register // 2) + t % 4]


def run(kind, n, a: Placed, b: Placed, c, *, majors=None, fragments=None, adds=1, sanitize=()):
    image = np.concatenate([a.image[:B_START], b.image[: B_START * 2]])
    with refkit.cpu.emulate(sanitize=sanitize):
        y = cuda.device_array((64, n), np.float32)
        given = np.zeros((128, 4), np.uint32) if fragments is None else fragments
        kernel = product(kind, n, majors, fragments is not None)
        kernel[1, 128, 0, image.size](image, given, a.descriptor, b.descriptor, adds, c, y)
        return y.copy_to_host()


def wanted(kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D as float32 bits by the oracle: one block of the whole K, 25 fraction bits, 13 for fp8."""
    bits = 13 if kind in ("e4m3", "e5m2") else 25
    x, y = oracle.values(a, kind), oracle.values(b, kind)
    total = oracle.fused_sum(x[None], y.T[None], c.astype(np.float64)[None], (kind, kind, "f32"), bits)
    return oracle._float_bits(total + 0.0, min(bits, 23))[0]


def draw(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Encodings of normal numbers over a wide range of exponents."""
    rng = np.random.default_rng(seed)
    scale = 2.0 ** rng.integers(-6, 7, shape) if BYTES[kind] > 1 else 2.0 ** rng.integers(-3, 4, shape)
    encoded = (rng.normal(size=shape) * scale).astype(oracle.NUMPY[kind])
    return encoded.view(np.dtype(f"uint{8 * BYTES[kind]}"))


CASES = [("bf16", 8), ("bf16", 256), ("f16", 24), ("tf32", 16), ("e4m3", 32), ("e5m2", 8)]


@pytest.mark.parametrize(("kind", "n"), CASES)
def test_sums_are_those_of_the_oracle(kind, n):
    k = 32 // BYTES[kind]
    a, b = draw(kind, (64, k), 1), draw(kind, (n, k), 2)
    c = np.random.default_rng(3).normal(size=(64, n)).astype(np.float32)
    majors = (0, 0) if BYTES[kind] == 2 else None
    got = run(kind, n, along_k(a, 1), along_k(b, 1), c, majors=majors)
    np.testing.assert_array_equal(got.view(np.uint32), wanted(kind, a, b, c))


@pytest.mark.parametrize("swizzle", WIDTHS)
def test_k_contiguous_in_every_swizzle_and_at_every_step_of_a_line(swizzle):
    a, b, c = draw("bf16", (64, 16), 4), draw("bf16", (8, 16), 5), np.ones((64, 8), np.float32)
    for step in range(max(1, WIDTHS[swizzle] // 32)):
        got = run("bf16", 8, along_k(a, swizzle, step), along_k(b, swizzle, step), c, majors=(0, 0))
        np.testing.assert_array_equal(got.view(np.uint32), wanted("bf16", a, b, c))


@pytest.mark.parametrize("swizzle", WIDTHS)
@pytest.mark.parametrize("majors", [(1, 1), (0, 1), (1, 0)])
def test_m_or_n_contiguous_in_every_swizzle(swizzle, majors):
    n = 128
    a, b, c = draw("f16", (64, 16), 6), draw("f16", (n, 16), 7), np.zeros((64, n), np.float32)
    placed = [across_k(x, swizzle) if major else along_k(x, swizzle) for x, major in zip((a, b), majors)]
    got = run("f16", n, *placed, c, majors=majors)
    np.testing.assert_array_equal(got.view(np.uint32), wanted("f16", a, b, c))


@pytest.mark.parametrize("kind", ["bf16", "tf32", "e4m3"])
def test_a_from_registers(kind):
    k, n = 32 // BYTES[kind], 16
    a, b, c = draw(kind, (64, k), 8), draw(kind, (n, k), 9), np.ones((64, n), np.float32)
    majors = (0, 0) if BYTES[kind] == 2 else None
    b_placed = along_k(b, 1)
    got = run(kind, n, b_placed, b_placed, c, majors=majors, fragments=a_fragments(a))
    np.testing.assert_array_equal(got.view(np.uint32), wanted(kind, a, b, c))


def test_the_accumulator_is_left_out_on_demand():
    a, b = draw("bf16", (64, 16), 10), draw("bf16", (8, 16), 11)
    c = np.full((64, 8), np.nan, np.float32)
    got = run("bf16", 8, along_k(a, 1), along_k(b, 1), c, majors=(0, 0), adds=0)
    np.testing.assert_array_equal(got.view(np.uint32), wanted("bf16", a, b, np.zeros_like(c)))


def test_a_matrix_that_does_not_begin_with_an_atom_is_reported():
    a, b, c = draw("bf16", (64, 16), 12), draw("bf16", (8, 16), 13), np.zeros((64, 8), np.float32)
    shifted = along_k(a, 1)
    shifted = Placed(np.roll(shifted.image, 256), 256, shifted.leading, shifted.stride, 1)
    with pytest.raises(refkit.cpu.SanitizerFault) as caught:
        run("bf16", 8, shifted, along_k(b, 1), c, majors=(0, 0), sanitize=("memory",))
    assert [finding.problem for finding in caught.value.findings] == ["misaligned"]
    assert "multiples of 1024 bytes" in caught.value.message


def test_a_matrix_outside_of_shared_memory_is_reported():
    a, b, c = draw("bf16", (64, 16), 14), draw("bf16", (8, 16), 15), np.zeros((64, 8), np.float32)
    outside = Placed(along_k(a, 1).image, 1 << 17, 16, 1024, 1)
    with pytest.raises(refkit.cpu.SanitizerFault) as caught:
        run("bf16", 8, outside, along_k(b, 1), c, majors=(0, 0), sanitize=("memory",))
    assert caught.value.findings[0].problem == "out-of-bounds"


def test_a_warp_that_does_not_come_is_a_deadlock_that_names_the_instruction():
    @cuda.jit
    def kernel(y):
        sums = cuda.local.array(4, float32)
        if cuda.threadIdx.x < 96:
            ptx.wgmma_m64k16_bf16(sums, uint64(0), uint64(0), 8, uint32(0), 0, 0)
            y[cuda.threadIdx.x] = sums[0]

    with refkit.cpu.emulate(), pytest.raises(refkit.cpu.Deadlock) as caught:
        kernel[1, 128](cuda.device_array(128, np.float32))
    assert "96 threads" in caught.value.message
    assert "all 128 threads of the warpgroup at wgmma.mma_async" in caught.value.message
