"""One kernel verified: every check on its cases, the faults found laid out, made small and saved, and summed up in
one record.

The order of things is fixed by the spec and the seed alone. Every check that comes to a verdict is told at once, and
told again if a later check brings a fault against it to light, or when its failing case has been made small.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refkit.records import CheckRecord, KernelRecord, Verdict, WorstRecord, worst_verdict
from refkit.verify import store
from refkit.verify.backends import Backend, open_backend
from refkit.verify.backends.architecture import lacking
from refkit.verify.backends.faults import one_line
from refkit.verify.case import Case
from refkit.verify.case_record import case_record, sensitivity, ulp_totals, weakest_bound
from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check, Plan, all_checks, find_check
from refkit.verify.describe import describe_case, precision_label
from refkit.verify.discovery import find_spec
from refkit.verify.drawing import seed_of
from refkit.verify.economy import Variant, economise
from refkit.verify.errors import SpecError
from refkit.verify.events import CaseStarted, CheckDone, KernelDone, KernelStarted, Listener, ignore
from refkit.verify.findings import Examination, Finding
from refkit.verify.options import Options
from refkit.verify.reduction import reduction_lengths
from refkit.verify.shrink import shrink
from refkit.verify.spec import KernelSpec

if TYPE_CHECKING:
    from refkit.verify.pool import Task

LATER_SHRINKS = 0.25
"""The part of the shrinking time that each failing check after the first gets."""

FUTILE = ("compile", "unsupported", "internal")
"""Kinds of launch fault that no other case would do without."""
SOFT = ("launcher", "configuration", "exception")
"""Kinds of launch fault that end quickly and that other cases may do without; the check goes on to those."""
MOST_SOFT = 5
"""Soft faults after which a check ends all the same."""
HURRY = 3.0
"""Seconds allowed to a launch while a case that makes no progress is made small."""
DIAGNOSED_SIZE = 24
"""Elements of a case, over its dims, from which the pattern of an error shows; smaller failures are looked at on a
larger case too."""


def verify_spec(
    spec: KernelSpec, options: Options | None = None, on_event: Listener = ignore, backend: Backend | None = None
) -> KernelRecord:
    """Run every check on `spec` and return the record; `backend` overrides the one that `options` names.

    Raises `backends.Unavailable` where the backend cannot run here. Whatever is wrong with the kernel or the spec is
    in the record.
    """
    options = options or Options()
    backend = backend or _backend(options)
    with backend.active():
        return _KernelRun(spec, options, on_event, backend).record()


def _backend(options: Options) -> Backend:
    return open_backend(
        options.backend,
        workers=options.workers,
        timeout=options.timeout,
        few_signatures=options.profile.few_signatures,
    )


def verify_target(task: Task, options: Options, on_event: Listener) -> KernelDone:
    """Find the spec that `task` names, verify it, and say whether this process can go on launching."""
    backend = _backend(options)
    with backend.active():
        spec = find_spec(task.target, task.name)
        run = _KernelRun(replace(spec, name=task.name), options, on_event, backend)
        return KernelDone(run.record(), broken=run.broken)


def examine_case(spec: KernelSpec, case: Case, backend: Backend, check: str = "accuracy") -> Examination:
    """One case as `check` examines it, launched on `backend`; raises `SpecError` where the spec is wrong."""
    with backend.active():
        return find_check(check).examine(CaseRun(spec, case, backend))


@dataclass(frozen=True)
class _Found:
    """The first finding against a check, the case that showed it, and the check that came upon it."""

    finding: Finding
    case: Case
    examined_by: str
    number: int
    shrunk: bool = False
    case_file: str = ""
    pattern: WorstRecord | None = None


@dataclass
class _Progress:
    """One check as far as it has come."""

    plan: Plan
    examinations: list[tuple[Case, Examination]] = field(default_factory=list)
    stopped: str = ""
    error: str = ""


class _KernelRun:
    def __init__(self, spec: KernelSpec, options: Options, on_event: Listener, backend: Backend) -> None:
        self.spec = spec
        self.options = options
        self.tell = on_event
        self.backend = backend
        self.progress: dict[str, _Progress] = {}
        self.found: dict[str, _Found] = {}
        self.judged: dict[Case, None] = {}
        self.reductions: dict[Case, Mapping[str, int]] = {}
        self.variants: dict[Variant, None] = {}
        self.launches_fail = ""
        self.lacking = lacking(backend.name, spec.needs)
        self.wrong_spec = ""
        self.broken = False

    def record(self) -> KernelRecord:
        started = time.monotonic()
        self._plan()
        if self.wrong_spec:
            self.progress["accuracy"].error = self.wrong_spec
        for check in all_checks():
            self._run(check)
        for position, name in enumerate(list(self.found)):
            if self.options.shrink:
                self._shrink(name, self.options.profile.shrink_seconds * (1.0 if position == 0 else LATER_SHRINKS))
        checks = tuple(self._check_record(check) for check in all_checks())
        return KernelRecord(
            name=self.spec.name,
            operator=self.spec.operator,
            precision=precision_label(self.spec),
            status=worst_verdict([check.status for check in checks]),
            cases=len(self.judged),
            seconds=round(time.monotonic() - started, 3),
            checks=checks,
            direction=self.spec.direction,
            deterministic=self.spec.deterministic,
            target=self.spec.target,
            source=self.spec.source,
            message=self.wrong_spec or self.lacking,
            wrong_call=bool(self.wrong_spec),
            analysis=self._analysis() if self.options.analyze and not self.wrong_spec and not self.broken else None,
        )

    def _analysis(self) -> dict[str, Any]:
        """Memory traffic and, where the compilers are installed, resources of the representative case."""
        from refkit.verify.analysis.subject import analysis_record

        return analysis_record(self.spec, timeout=self.options.timeout)

    # -- planning and running -----------------------------------------------------------------------------------

    def _plan(self) -> None:
        try:
            self.spec.check_reference()
        except SpecError as error:
            self.wrong_spec = str(error)
        for check in all_checks():
            try:
                plan = self._plan_of(check)
                if check.name not in ("derivative", "trust"):  # they launch nothing
                    most = self.options.profile.variants
                    plan = replace(plan, cases=economise(self.spec, plan.cases, self.variants, most))
                self.progress[check.name] = _Progress(plan)
            except SpecError as error:
                self.wrong_spec = str(error)
                self.progress[check.name] = _Progress(Plan(), error=str(error))
            except Exception as error:
                self.progress[check.name] = _Progress(Plan(), error=self._own_error(error))
        # `trust` launches nothing and mostly ends after a few cases.
        planned = sum(len(self.progress[check.name].plan.cases) for check in all_checks() if check.name != "trust")
        self.tell(KernelStarted(self.spec.name, planned))

    def _plan_of(self, check: Check) -> Plan:
        if self.wrong_spec:
            return Plan()
        reason = self.lacking or check.inapplicable(self.spec)
        return Plan(skip=reason) if reason else check.plan(self.spec, self.options.profile, self.options.seed)

    def _run(self, check: Check) -> None:
        progress = self.progress[check.name]
        if self.wrong_spec or self.broken:
            progress.stopped = "the reference is wrong" if self.wrong_spec else "no launch is possible any more"
        elif self.launches_fail and check.name not in ("trust", "derivative"):
            progress.stopped = f"the launch failed in {self.launches_fail}"
        elif check.name not in self.found and not progress.error:
            try:
                self._examine_all(check, progress)
            except SpecError as error:
                self.wrong_spec = progress.error = str(error)
            except Exception as error:
                progress.error = self._own_error(error)
        self._announce(check)

    def _own_error(self, error: Exception) -> str:
        if self.options.traceback:
            traceback.print_exc(file=sys.stderr)
        return f"the check itself failed: {one_line(error)}"

    def _examine_all(self, check: Check, progress: _Progress) -> None:
        soft = 0
        for case in progress.plan.cases:
            number = len(self.judged)
            self.tell(CaseStarted(self.spec.name, check.name, describe_case(case), number, case.to_json()))
            run = CaseRun(self.spec, case, self.backend)
            examination = check.examine(run)
            self.judged[case] = None
            if check.name == "accuracy" and examination.bound not in ("", "exact"):
                self.reductions[case] = reduction_lengths(self.spec, run.inputs)
            progress.examinations.append((case, examination))
            for finding in examination.findings:
                self._note(_Found(finding, case, check.name, number))
            decisive = examination.decisive
            if decisive is not None and decisive.fault is not None and decisive.fault.kind in SOFT and soft < MOST_SOFT:
                soft += 1
                continue
            if decisive is not None:
                if decisive.check != check.name:
                    progress.stopped = (
                        f"an output was wrong or missing in case {len(progress.examinations)}: see {decisive.check}"
                    )
                return
            if check.enough([seen for _, seen in progress.examinations]):
                break
        conclusion = check.conclude([seen for _, seen in progress.examinations])
        if conclusion is not None:
            self._note(_Found(conclusion, progress.plan.cases[0], check.name, 0, shrunk=True))

    def _note(self, found: _Found) -> None:
        finding = found.finding
        if finding.fault is not None:
            if finding.fault.kind not in SOFT:
                self.launches_fail = finding.check
            self.broken = self.broken or finding.fault.fatal
        if finding.check in self.found:
            return
        self.found[finding.check] = self._saved(found)
        self._announce(find_check(finding.check))

    # -- failing cases ------------------------------------------------------------------------------------------

    def _saved(self, found: _Found) -> _Found:
        if self.options.cases_dir is None or found.finding.verdict is Verdict.MISTRUSTED:
            return found
        failing = store.FailingCase.of(
            target=self.spec.target,
            name=self.spec.name,
            check=found.finding.check,
            examined_by=found.examined_by,
            case=found.case,
            seed=self.options.seed,
            backend=self.backend.name,
            message=found.finding.message,
        )
        return replace(found, case_file=store.try_to_save(failing, self.options.cases_dir))

    def _shrink(self, name: str, seconds: float) -> None:
        found = self.found[name]
        fault = found.finding.fault
        if found.shrunk or self.broken or (fault is not None and (fault.fatal or fault.kind in FUTILE)):
            return
        found = self.found[name] = self._diagnosed(found)
        examined_by = find_check(found.examined_by)
        findings: dict[Case, Finding] = {}

        def fails(case: Case) -> bool:
            self.tell(CaseStarted(self.spec.name, name, f"{describe_case(case)} (shrinking)", len(self.judged)))
            try:
                finding = examined_by.examine(CaseRun(self.spec, case, self.backend)).finding(name)
            except SpecError:
                return False
            if finding is not None:
                findings[case] = finding
            return finding is not None and _kind(finding) == _kind(found.finding)

        with self._hurried(fault is not None and fault.kind == "no_progress"):
            case = shrink(self.spec, found.case, fails, seconds, seed_of(self.options.seed, self.spec.name, name))
        if case != found.case:
            smaller = replace(found, case=case, finding=findings[case], shrunk=True)
            diagnosis = found.finding.diagnosis or smaller.finding.diagnosis
            smaller = self._saved(replace(smaller, finding=replace(smaller.finding, diagnosis=diagnosis)))
            if found.case_file and found.case_file != smaller.case_file:
                with suppress(FileNotFoundError):
                    Path(found.case_file).unlink()
            self.found[name] = smaller
            self._announce(find_check(name))

    def _diagnosed(self, found: _Found) -> _Found:
        """The same finding with the pattern and the diagnosis of a case that is large enough to show them, the same or
        another one that fails likewise."""
        if found.finding.worst is None:
            return found
        if _size(found.case) >= DIAGNOSED_SIZE:
            return replace(found, pattern=_of_launch(found.finding.worst, found.case))
        check = find_check(found.examined_by)
        larger = [case for case in self.progress[check.name].plan.cases if _size(case) >= DIAGNOSED_SIZE]
        for case in sorted(larger, key=lambda case: (min(case.dims.values()) < 3, _size(case)))[:3]:
            finding = check.examine(CaseRun(self.spec, case, self.backend)).finding(found.finding.check)
            if finding is not None and finding.worst is not None:
                diagnosis = finding.diagnosis or found.finding.diagnosis
                pattern = _of_launch(finding.worst, case)
                return replace(found, finding=replace(found.finding, diagnosis=diagnosis), pattern=pattern)
        return found

    @contextmanager
    def _hurried(self, hurry: bool) -> Iterator[None]:
        """A shorter watchdog, where the backend has one and `hurry` says so."""
        before = getattr(self.backend, "timeout", None)
        if hurry and before is not None:
            self.backend.timeout = min(before, HURRY)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            if hurry and before is not None:
                self.backend.timeout = before  # type: ignore[attr-defined]

    # -- records ------------------------------------------------------------------------------------------------

    def _announce(self, check: Check) -> None:
        self.tell(CheckDone(self.spec.name, self._check_record(check)))

    def _check_record(self, check: Check) -> CheckRecord:
        progress = self.progress[check.name]
        seen = progress.examinations
        cases = len(self.judged) if check.notices else len(seen)
        judged = [(case, e) for case, e in seen if e.worst is not None]
        best = max(judged, key=lambda pair: pair[1].ratio or 0.0, default=None)
        record = CheckRecord(
            check.name,
            Verdict.PASSED,
            cases=cases,
            worst_ratio=max((e.ratio for _, e in seen if e.ratio is not None), default=None),
            bound=weakest_bound(e.bound for _, e in seen),
            sensitivity=sensitivity(e.sensitivity for _, e in seen),
            cases_data=tuple(case_record(case, e, reductions=self.reductions.get(case)) for case, e in seen),
            worst=_of_launch(best[1].worst, best[0]) if best is not None else None,
            findings=tuple(dict.fromkeys(source for _, e in seen for source in e.sources)),
            ulps=ulp_totals(e.worst for _, e in seen),
            orders=getattr(check, "orders", None),
        )
        found = self.found.get(check.name)
        if found is not None:
            return self._failed(record, found)
        if progress.error:
            return replace(record, status=Verdict.ERROR, message=progress.error)
        if progress.plan.skip or progress.stopped:
            return replace(record, status=Verdict.SKIPPED, message=progress.plan.skip or progress.stopped)
        return record

    def _failed(self, record: CheckRecord, found: _Found) -> CheckRecord:
        finding = found.finding
        where = f" [{describe_case(found.case)}]" if finding.verdict is not Verdict.MISTRUSTED else ""
        shown = case_record(found.case, ratio=finding.worst.ratio if finding.worst else None)
        return replace(
            record,
            status=finding.verdict,
            cases=max(record.cases, 1),
            worst_ratio=max(filter(None, (record.worst_ratio, shown.ratio)), default=None),
            message=f"{finding.message}{where}",
            diagnosis=finding.diagnosis,
            case_file=found.case_file,
            worst=_of_launch(finding.worst, found.case) or record.worst,
            pattern=found.pattern,
            case=shown,
        )


def _of_launch(worst: WorstRecord | None, case: Case) -> WorstRecord | None:
    """The worst element with the configuration that it was computed in."""
    return None if worst is None else replace(worst, config=dict(case.config))


def _size(case: Case) -> int:
    return math.prod(case.dims.values())


def _kind(finding: Finding) -> str:
    return finding.fault.kind if finding.fault is not None else ""
