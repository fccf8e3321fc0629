"""The memory traffic of a spec's representative case, on the CPU executor under the memory model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from refkit.cpu import MemoryReport, Tracer, trace
from refkit.cpu.memory_model.tracing import TracedLaunch
from refkit.verify.backends import LaunchFault, faults
from refkit.verify.backends.cpu import CpuBackend
from refkit.verify.case import Case
from refkit.verify.inputs import draw_inputs
from refkit.verify.spec import KernelSpec
from refkit.verify.trial import place_inputs, run_trial


@dataclass(frozen=True)
class Traffic:
    """What one case moved, and the launches that it made."""

    report: MemoryReport
    launches: tuple[TracedLaunch, ...]


class _TracingBackend(CpuBackend):
    """The CPU backend whose launches are traced."""

    def __init__(self, timeout: float | None) -> None:
        super().__init__(timeout=timeout)
        self.tracer = Tracer()

    def launch(self, call: Callable[[], Any], *, schedule: int | None = None) -> None:
        try:
            with trace(workers=self.workers, timeout=self.timeout) as self.tracer:
                call()
        except Exception as error:
            raise faults.from_exception(error) from error


def trace_case(spec: KernelSpec, case: Case, *, timeout: float | None = None) -> Traffic:
    """The traffic of one case. Raises `LaunchFault` where the launch fails; results are not judged here."""
    backend = _TracingBackend(timeout)
    with backend.active():
        inputs = draw_inputs(spec, case)
        trial = run_trial(spec, case, inputs, place_inputs(spec, case, inputs), backend)
    if trial.fault is not None:
        raise LaunchFault(trial.fault.kind, trial.fault.message, trial.fault.location)
    return Traffic(backend.tracer.report(), tuple(backend.tracer.launches))
