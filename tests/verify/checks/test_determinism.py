"""Determinism judges the order of threads, not the compilation that an order of threads happens to run."""

import numpy as np
import pytest
from numba import cuda, float32

from refkit.verify import Dim, In, KernelSpec, Out, Scalar
from refkit.verify.attribution import order_finding
from refkit.verify.backends.cpu import CpuBackend
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks.determinism import CHECK
from tests.verify import kernels
from tests.verify.numpy_backend import NumpyBackend

pytestmark = pytest.mark.cpu
N = Dim("N", max=100)


@cuda.jit
def add_product_kernel(x, a, b, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * b + x[i]


def add_product(x, a, b, y):
    add_product_kernel[2, 64](x, a, b, y)


@cuda.jit
def sum_kernel(x, total):
    i = cuda.grid(1)
    if i == 0:
        total[0] = float32(0)
    cuda.syncthreads()
    if i < x.shape[0]:
        cuda.atomic.add(total, 0, x[i])


def float_sum_by_atomics(x, total):
    sum_kernel[1, 128](x, total)


@cuda.jit
def clear_kernel(total):
    total[0] = float32(0)


@cuda.jit
def add_kernel(x, total):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(total, 0, x[i])


def float_sum_without_a_barrier(x, total):
    clear_kernel[1, 1](total)
    add_kernel[1, 128](x, total)


@cuda.jit
def first_block_in_line_kernel(x, ticket, y):
    if cuda.threadIdx.x == 0 and cuda.atomic.add(ticket, 0, 1) == 0:
        y[0] = x[cuda.blockIdx.x]


def first_block_in_line(x, y):
    first_block_in_line_kernel[x.shape[0], 32](x, cuda.to_device(np.zeros(1, np.int32)), y)


product_spec = KernelSpec(
    launch=add_product,
    reference=lambda x, a, b: a * b + x,
    args={"x": In(N), "a": Scalar([1.1]), "b": Scalar([0.3]), "y": Out(N)},
)


def sum_spec(launch) -> KernelSpec:
    return KernelSpec(launch=launch, reference=lambda x: x.sum(keepdims=True), args={"x": In(N), "total": Out(1)})


def run_of(spec: KernelSpec, backend=None, **scalars) -> CaseRun:
    return CaseRun(spec, Case({"N": 100}, values="normal", scalars=scalars), backend or CpuBackend())


def test_a_kernel_whose_compilations_could_round_differently_is_deterministic():
    run = run_of(product_spec, a=np.float32(1.1), b=np.float32(0.3))
    with run.backend.active():
        # Compiled apart, the plain order would multiply once for all threads and a seeded one fuse product and sum.
        assert not run.trial().same_bits(run.trial(schedule=0))
        examination = CHECK.examine(run)
    assert not examination.findings
    assert 0 < examination.ratio <= 1


@pytest.mark.parametrize("launch", [float_sum_by_atomics, float_sum_without_a_barrier])
def test_a_float_sum_in_the_order_of_threads_is_not(launch):
    run = run_of(sum_spec(launch))
    with run.backend.active():
        (finding,) = CHECK.examine(run).findings
    assert finding.check == "determinism"
    assert finding.message.startswith("total[0] changes when the same case is launched in thread order ")


def test_what_the_plain_order_alone_gets_right_is_not():
    spec = KernelSpec(launch=first_block_in_line, reference=lambda x: x[:1], args={"x": In(N), "y": Out(1)})
    run = run_of(spec)
    with run.backend.active():
        (finding,) = CHECK.examine(run).findings
    assert finding.message == "y[0] changes when the same case is launched in thread order 0"


def test_a_wrong_output_is_laid_at_the_door_of_the_order_only_where_it_changes():
    off = KernelSpec(
        launch=add_product,
        reference=lambda x, a, b: a * b + x + 1,
        args={"x": In(N), "a": Scalar([1.1]), "b": Scalar([0.3]), "y": Out(N)},
    )
    run = run_of(off, a=np.float32(1.1), b=np.float32(0.3))
    with run.backend.active():
        (finding,) = CHECK.examine(run).findings
    assert finding.check == "accuracy"


def test_where_the_order_cannot_be_chosen_launches_are_compared_with_the_first():
    backend = NumpyBackend()
    backend.schedules = False
    run = CaseRun(kernels.spec_of(kernels.depends_on_the_order), Case({"R": 3, "C": 3}), backend)
    finding = order_finding(run, run.trial(), 2)
    assert finding is not None
    assert finding.message == "y[2, 2] changes when the same case is launched again"
