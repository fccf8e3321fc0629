"""The whole library under all sanitizers and twenty seeded orders of threads: no report."""

import pytest

from refkit.verify.backends.cpu import CpuBackend
from refkit.verify.case_run import CaseRun
from refkit.verify.discovery import shipped
from refkit.verify.drawing import draw_cases
from refkit.verify.judge import judge
from refkit.verify.sizes import Budget
from refkit.verify.strategies import cases

pytestmark = [pytest.mark.cpu, pytest.mark.slow]

SCHEDULES = 20
SPECS = shipped()


@pytest.mark.parametrize("name", SPECS)
def test_no_sanitizer_reports_a_shipped_kernel(name):
    spec = SPECS[name]
    backend = CpuBackend(timeout=60.0, sanitize=True)
    drawn = draw_cases(cases(spec, layouts=("contiguous",), budget=Budget(2**11, 2**14)), 12, seed=7)
    # one configuration, so that one compilation serves all schedules; the largest of its cases
    same = [case for case in drawn if case.config == drawn[0].config and case.absent == drawn[0].absent]
    case = max(same, key=lambda case: sum(case.dims.values()))
    with backend.active():
        run = CaseRun(spec, case, backend)
        for schedule in range(SCHEDULES):
            trial = run.trial(schedule=schedule)
            assert trial.fault is None, f"schedule {schedule}: {trial.fault}"
            assert judge(run.expectation, trial.outputs).holds
