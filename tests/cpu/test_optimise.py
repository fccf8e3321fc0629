"""`optimise`: the same results at every level, one piece of machine code for each, faster or sooner."""

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import types

from refkit.cpu import SanitizerFault, emulate, kernel
from refkit.cuda_kernels.ptx import mma_m16n8k16_f16

pytestmark = pytest.mark.cpu


@cuda.jit
def rotated_products(x, y, out):
    shared = cuda.shared.array(64, float32)
    lane, total = cuda.threadIdx.x, float32(0)
    shared[lane] = x[lane]
    cuda.syncthreads()
    for i in range(64):
        total += shared[(lane + i) % 64] * y[i]
    out[lane] = cuda.shfl_down_sync(0xFFFFFFFF, total, 1)


def test_every_level_gives_the_same_bits_and_code_of_its_own(monkeypatch, tmp_path):
    levels = []
    original = kernel._machine_code
    monkeypatch.setattr(kernel, "_machine_code", lambda *parts: levels.append(parts[-1]) or original(*parts))
    monkeypatch.setenv("REFKIT_CACHE_DIR", str(tmp_path))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 64), np.float32)
    results = []
    for level in (1, 2, 3, 1):
        with emulate(optimise=level):
            out = cuda.device_array(64, np.float32)
            rotated_products[1, 64](x, y, out)
            results.append(out.copy_to_host())
    assert levels == [1, 2, 3]
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    assert results[0][0] == pytest.approx(float(np.roll(x, -1).astype(float) @ y), rel=1e-5)


@cuda.jit
def racing_products(a, b, out):
    """A product on tensor cores, whose library is large, and a race."""
    lane = cuda.threadIdx.x
    zero = float32(0)
    fragment_a, fragment_b = (a[lane, 0], a[lane, 1], a[lane, 2], a[lane, 3]), (b[lane, 0], b[lane, 1])
    registers = mma_m16n8k16_f16(fragment_a, fragment_b, (zero, zero, zero, zero))
    for i in range(4):
        out[lane, i] = registers[i]
    out[32, lane % 2] = lane


@pytest.mark.parametrize("level", [1, 3])
def test_libraries_are_found_whether_apart_or_inlined(level):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((32, n)).astype(np.float16).view(np.uint32) for n in (8, 4))
    with emulate(optimise=level):
        out = cuda.to_device(np.zeros((33, 4), np.float32))
        racing_products[1, 32](a, b, out)
        assert np.abs(out.copy_to_host()[:32]).sum() > 1
        with pytest.raises(SanitizerFault, match="race"), emulate(optimise=level, sanitize=["race", "memory"]):
            racing_products[1, 32](a, b, out)


def test_stacks_hold_the_local_arrays_of_libraries_that_stay_apart(monkeypatch):
    apart = kernel._apart
    monkeypatch.setattr(kernel, "_apart", lambda library: (apart(library)[0], 1 << 20))
    words, numbers = types.uint32[:, ::1], types.float32[:, ::1]
    with emulate():
        lowered = kernel.lower(racing_products.py_func, (words, words, numbers))
        assert kernel.generate(lowered, optimise=1).stack_bytes > 1 << 20 > kernel.generate(lowered).stack_bytes
