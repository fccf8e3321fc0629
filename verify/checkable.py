"""A spec used from a user's own tests: `spec.cases()`, `case.check()`, `spec.verify()`, `spec.as_test()`."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from refkit.records import KernelRecord, Verdict
from refkit.verify.arguments import InOut
from refkit.verify.case import Case
from refkit.verify.spec import KernelSpec

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from refkit.verify.backends import Backend

BACKENDS = ("auto", "cpu", "cuda")


class CheckFailed(AssertionError):
    """A kernel does not hold what its spec says; the text is what was found."""


@dataclass(frozen=True)
class CheckableCase:
    """A case of a spec, as `spec.cases()` draws it."""

    case: Case
    spec: KernelSpec = field(repr=False)

    def check(self, backend: str = "auto") -> None:
        """Launch the kernel on this case and judge it; raises `CheckFailed` with the first thing found.

        Judged are the outputs (by equality for `values="integers"`, else by the error model), guard bands, unchanged
        inputs, unwritten elements, a second launch, other orders of threads, and accumulation for an `InOut`.
        """
        __tracebackhide__ = True  # pytest shows the user's own frames
        from refkit.verify.case_run import CaseRun
        from refkit.verify.checks import find_check
        from refkit.verify.describe import describe_case

        opened = _open(check_backend(backend))
        with opened.active():
            run, described = CaseRun(self.spec, self.case, opened), describe_case(self.case)
            for name in _checks_of(self.spec, self.case):
                for finding in find_check(name).examine(run).findings:
                    cause = f" ({finding.diagnosis})" if finding.diagnosis else ""
                    raise CheckFailed(f"{self.spec.name}: {finding.check}: {finding.message}{cause} [{described}]")


def _checks_of(spec: KernelSpec, case: Case) -> Iterator[str]:
    """The names of the checks that judge one case by itself."""
    yield "integer_exact" if case.values == "integers" else "accuracy"
    if case.values in ("integers", "out_of_range"):
        return
    if any(not argument.given for argument in spec.outputs.values()):
        yield "every_output_written"
    yield "second_launch"
    yield "determinism"
    if case.values != "nonfinite" and any(isinstance(argument, InOut) for argument in spec.args.values()):
        yield "accumulation"


@cache
def _open(backend: str) -> Backend:
    from refkit.verify.backends import open_backend

    return open_backend(backend)


def check_backend(backend: str) -> str:
    """`backend`, or ValueError where it is not one of auto, cpu and cuda."""
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; expected one of {', '.join(BACKENDS)}")
    return backend


def checkable_cases(spec: KernelSpec, **options: Any) -> SearchStrategy[CheckableCase]:
    """The strategy of `strategies.cases`, each case with `.check()`; the reference is tried once first."""
    from refkit.verify.strategies import cases

    spec.check_reference()
    return cases(spec, **options).map(lambda case: CheckableCase(case, spec))


def verify(spec: KernelSpec, *, backend: str, cases: int, seed: int) -> KernelRecord:
    """Every check on about `cases` cases; nothing is saved to disk."""
    from refkit.verify.options import Options
    from refkit.verify.profiles import PROFILES
    from refkit.verify.runner import verify_spec

    if cases < 1:
        raise ValueError(f"cases is {cases}; expected at least 1")
    spec.check_reference()
    profile = PROFILES["standard"].with_cases(cases)
    return verify_spec(spec, Options(backend=check_backend(backend), profile=profile, seed=seed))


def as_test(spec: KernelSpec, *, backend: str, cases: int, seed: int) -> Callable[[], None]:
    """A function without parameters, so that pytest neither injects fixtures nor runs hypothesis' health checks."""
    check_backend(backend)

    def test() -> None:
        __tracebackhide__ = True  # pytest shows the text of `CheckFailed`, not this function
        record = verify(spec, backend=backend, cases=cases, seed=seed)
        if record.status is Verdict.SKIPPED:
            raise unittest.SkipTest(record.message or f"{spec.name}: every check was skipped")
        if not record.status.holds:
            raise CheckFailed(summary_of(record))

    test.__name__ = test.__qualname__ = f"test_{spec.name}"
    test.__doc__ = f"{spec.name} holds what its spec at {spec.source} says."
    test.__module__ = getattr(spec.launch, "__module__", __name__)
    return test


def summary_of(record: KernelRecord) -> str:
    """What did not hold, one line per check."""
    lines = [f"{record.name}: {record.status.value}{': ' + record.message if record.message else ''}"]
    for check in record.checks:
        if not check.status.holds:
            cause = f" ({check.diagnosis})" if check.diagnosis else ""
            lines.append(f"  {check.name}: {check.message}{cause}")
    return "\n".join(lines)
