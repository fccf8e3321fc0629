"""What the sanitizers find is recorded with the lines of source around it."""

import pytest
from numba import cuda, float32

from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.backends.cpu import CpuBackend
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks.sanitizers import CHECK

pytestmark = pytest.mark.cpu


@cuda.jit
def reversed_kernel(x, y):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    # no barrier here
    y[i] = tile[63 - i]


def test_a_race_shows_the_lines_around_it():
    spec = KernelSpec(
        launch=lambda x, y: reversed_kernel[1, 64](x, y),
        reference=lambda x: x[::-1],
        args={"x": In(Dim("N", min=64, max=64)), "y": Out(Dim("N", min=64, max=64))},
        name="reversed_rows",
    )
    case = Case(dims={"N": 64}, config={}, values="normal", scalars={}, seed=3)
    found = CHECK.examine(CaseRun(spec, case, CpuBackend()))
    assert found.findings
    for source in found.sources:
        shown = dict(enumerate(source.code, source.code_start))
        assert any(text.strip() in ("tile[i] = x[i]", "y[i] = tile[63 - i]") for text in [shown[source.line]])
        assert "    # no barrier here" in source.code
    assert any("race" in source.kind or "uninitialized" in source.kind for source in found.sources)
