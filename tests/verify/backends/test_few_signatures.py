"""`few_signatures`: one compilation for all layouts, given up where the kernel compiles for contiguous arrays alone."""

import pytest
from numba import cuda

from refkit.cpu import kernel
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.backends.cpu import CpuBackend
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun

R, C = Dim("R", max=40), Dim("C", max=40)


def doubling():
    """A new kernel, of which nothing is compiled yet."""

    @cuda.jit
    def doubled(x, y):
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            for j in range(x.shape[1]):
                y[i, j] = 2 * x[i, j]

    return doubled


def doubling_flat():
    """The same for contiguous arrays: Numba reshapes no others."""

    @cuda.jit
    def doubled_flat(x, y):
        flat_x, flat_y = x.reshape(x.size), y.reshape(y.size)
        for i in range(cuda.grid(1), flat_x.size, cuda.gridsize(1)):
            flat_y[i] = 2 * flat_x[i]

    return doubled_flat


def spec_of(used):
    def launch(x, y):
        used[2, 32](x, y)

    args = {"x": In(R, C), "y": Out(R, C)}
    return KernelSpec(launch=launch, reference=lambda x: 2 * x, args=args, name=used.py_func.__name__)


@pytest.fixture
def compiled(monkeypatch):
    """The layouts of x that kernels are compiled for, in order."""
    layouts: list[str] = []
    lower = kernel.lower

    def recording(function, kinds, **options):
        layouts.append(kinds[0].layout)
        return lower(function, kinds, **options)

    monkeypatch.setattr(kernel, "lower", recording)
    return layouts


def trials(spec, backend, layouts=("contiguous", "strided", "contiguous")):
    for layout in layouts:
        case = Case(dims={"R": 3, "C": 5}, values="integers", layouts={"x": layout} if layout != "contiguous" else {})
        with backend.active():
            run = CaseRun(spec, case, backend)
            yield run, run.trial()


def test_a_kernel_is_compiled_once_for_all_layouts(compiled):
    for run, trial in trials(spec_of(doubling()), CpuBackend(few_signatures=True)):
        assert trial.fault is None
        assert (trial.outputs["y"] == 2 * run.inputs.arrays["x"]).all()
    assert compiled == ["A"]


def test_otherwise_contiguous_arrays_keep_their_type(compiled):
    for _, trial in trials(spec_of(doubling()), CpuBackend(), ("contiguous", "strided")):
        assert trial.fault is None
    assert compiled == ["C", "A"]


def test_a_kernel_that_compiles_for_contiguous_arrays_alone_gets_them(compiled):
    backend = CpuBackend(few_signatures=True)
    for run, trial in trials(spec_of(doubling_flat()), backend, ("contiguous", "contiguous")):
        assert trial.fault is None
        assert (trial.outputs["y"] == 2 * run.inputs.arrays["x"]).all()
    assert not backend.few_signatures
    assert compiled == ["A", "C"]
