"""`optimise`: the same results at every level, one piece of machine code for each, faster or sooner."""

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import types

from refkit.cpu import SanitizerFault, emulate, kernel
from refkit.cpu.signatures import serving
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


C, F, A = (types.Array(types.float32, 2, layout) for layout in "CFA")


@pytest.mark.parametrize(
    ("wanted", "known", "used"),
    [
        ((C, C), [], (C, C)),
        ((C, F), [], (C, A)),
        ((C, F), [(C, F)], (C, F)),
        ((C, A), [(A, A)], (A, A)),
        ((C, C), [(A, C), (C, C)], (C, C)),
        ((A, C), [(C, C), (C, A)], (A, C)),
        ((C, types.int32), [(A, types.int64)], (C, types.int32)),
    ],
)
def test_a_signature_of_any_strides_serves_contiguous_arrays(wanted, known, used):
    assert serving(wanted, known) == used


def test_few_signatures_are_compiled_and_all_give_the_same(monkeypatch):
    compiled = []
    lower = kernel.lower
    monkeypatch.setattr(
        kernel, "lower", lambda f, kinds, **o: compiled.append("".join(k.layout for k in kinds)) or lower(f, kinds, **o)
    )

    @cuda.jit
    def copied(x, y):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            y[i, j] = x[i, j]

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    with emulate(optimise=1):
        for x in (values, np.asfortranarray(values), values.repeat(2, axis=1)[:, ::2], values):
            y = cuda.device_array((3, 4), np.float32)
            copied[(1, 1), (4, 4)](cuda.to_device(x), y)
            assert np.array_equal(y.copy_to_host(), values)
    assert compiled == ["CC", "AC"]


@cuda.jit
def flattened(x, y):
    y[cuda.threadIdx.x] = x.T.reshape(4)[cuda.threadIdx.x]


def test_what_only_fortran_order_allows_is_compiled_for_it():
    x = np.asfortranarray([[1, 2], [3, 4]], np.float32)
    with emulate(optimise=1):
        y = cuda.to_device(np.zeros(4, np.float32))
        flattened[1, 4](cuda.to_device(x), y)
        assert y.copy_to_host().tolist() == [1, 3, 2, 4]
