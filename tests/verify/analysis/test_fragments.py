"""Warp-matrix instructions are found in a kernel's IR and named as the layouts are."""

import numpy as np
import pytest
from numba import cuda, float32, uint32

from refkit.cpu import trace
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS
from refkit.verify.analysis.fragments import fragments_of, instructions_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$0}, {$1};", ["mma.m16n8k8.tf32"]),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 x", ["mma.m16n8k16.f16.f16"]),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 x", ["mma.m16n8k32.e4m3.e5m2"]),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 x", ["mma.m16n8k32.s8.satfinite"]),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 x", ["mma.m16n8k32.s8"]),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 x", ["mma.m8n8k4.f64"]),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 x", []),
    ],
)
def test_instructions_are_named(text, names):
    assert instructions_in(text) == names


@cuda.jit
def plain_kernel(y):
    y[cuda.threadIdx.x] = float32(1)


@cuda.jit
def product_kernel(y):
    one, zero = uint32(0x3F800000), float32(0)
    d = ptx.mma_m16n8k8_tf32((one, one, one, one), (one, one), (zero, zero, zero, zero))
    y[cuda.threadIdx.x] = d[0]


@pytest.mark.cpu
@pytest.mark.parametrize(("kernel", "value", "letters"), [(plain_kernel, 1, ""), (product_kernel, 8, "ABC")])
def test_the_fragments_of_a_launched_kernel_are_those_of_its_instructions(kernel, value, letters):
    with trace() as tracer:
        y = cuda.to_device(np.zeros(32, np.float32))
        kernel[1, 32](y)
        assert (y.copy_to_host() == value).all()
    found = fragments_of(tracer.launches)
    assert [(each.name, each.operand) for each in found] == [("mma.m16n8k8.tf32", letter) for letter in letters]
    if letters:
        assert list(found[0].map) == list(LAYOUTS["mma.m16n8k8.tf32"].a.to_text())
