"""`optimise`: the same results at every level, one piece of machine code for each, faster or sooner."""

import numpy as np
import pytest
from numba import cuda, float32

from refkit.cpu import emulate, kernel

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
