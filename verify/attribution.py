"""From a trial to findings, each laid at the door of the check that it speaks against.

A wrong output has one cause but shows in every check. Once an output is wrong, the same case is launched a few more
times: on other poison (were the elements ever written?) and in other orders of threads (does the result depend on
them?). What remains is the fault of the check that came upon it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from refkit.records import Verdict
from refkit.verify import suspects
from refkit.verify.case_run import CaseRun
from refkit.verify.diagnosis import Evidence, diagnose
from refkit.verify.expectation import Expectation, plain_values
from refkit.verify.findings import Examination, Finding
from refkit.verify.judge import Judgement, OutputJudgement, judge
from refkit.verify.trial import MODERATE, MODERATE_VALUE, Trial, element_name

LANES = ("accuracy", "integer_exact", "accumulation")
"""Checks whose own judgement of values a wrong output speaks against."""

ORDERS = 6
"""Seeded orders of threads that a wrong output is tried in before its cause is sought elsewhere; of two threads that
race, all six let the same one win once in 32 times."""


def examine_trial(run: CaseRun, check: str, trial: Trial, expectation: Expectation | None = None) -> Examination:
    """Everything that `trial`, launched by `check`, shows; the outputs are judged where an expectation is given."""
    if trial.fault is not None:
        return Examination((launch_finding(_culprit(run, check), trial),))
    findings = passive_findings(run, trial)
    if expectation is None or any(finding.decisive for finding in findings):
        return Examination(tuple(findings))
    judgement = judge(expectation, trial.outputs)
    if not judgement.holds and findings:
        # An input that the launch wrote to explains a wrong output well enough.
        findings = [replace(finding, decisive=True) for finding in findings]
    elif not judgement.holds:
        findings.append(_attributed(run, check, trial, judgement))
    worst = judgement.worst
    return Examination(
        tuple(findings),
        ratio=judgement.worst_ratio,
        bound=judgement.bound,
        worst=None if worst is None or not worst.ratio.size else worst.worst(),
        sensitivity=judgement.sensitivity(),
    )


def launch_finding(check: str, trial: Trial) -> Finding:
    """The finding for a launch that failed; what the executor cannot run, or breaks on, is an error and no fault of
    the kernel."""
    fault = trial.fault
    assert fault is not None
    verdict = Verdict.ERROR if fault.kind in ("unsupported", "internal") else Verdict.FAILED
    return Finding(check, str(fault), fault.cause, verdict=verdict, fault=fault)


def _culprit(run: CaseRun, check: str) -> str:
    """The check that a wrong or failed plain launch speaks against: its own lane, else `layouts` or `accuracy`.

    It is `layouts` where the same case with contiguous arrays holds.
    """
    if check in LANES:
        return check
    if not run.case.layouts:
        return "accuracy"
    twin = CaseRun(run.spec, replace(run.case, layouts={}), run.backend)
    trial = twin.trial()
    holds = trial.fault is None and not trial.guards and judge(twin.expectation, trial.outputs).holds
    return "layouts" if holds else "accuracy"


def passive_findings(run: CaseRun, trial: Trial) -> list[Finding]:
    """What any trial shows whatever it was made for: guard bytes written, inputs changed."""
    from refkit.verify.checks import passive_checks

    return [finding for check in passive_checks() for finding in check.notice(run, trial)]


def _attributed(run: CaseRun, check: str, trial: Trial, judgement: Judgement) -> Finding:
    again = run.trial(poison=MODERATE)
    if again.fault is None and not adds_to_old_contents(run, again):
        unwritten = unwritten_finding(run, trial, again)
        if unwritten is not None:
            return unwritten
    unsteady = order_finding(run, trial)
    if unsteady is not None:
        return unsteady
    worst = judgement.worst
    assert worst is not None
    culprit = "accumulation" if _forgets_old_value(run, worst) else _culprit(run, check)
    return Finding(culprit, worst.describe(), explain(run, worst, trial, again), worst.worst())


def _forgets_old_value(run: CaseRun, output: OutputJudgement) -> bool:
    """True where an `InOut` array came out as if it had held zeros before."""
    old = run.inputs.arrays.get(output.name)
    if old is None or not np.any(old.astype(np.float64)[output.wrong]):
        return False
    arguments = run.inputs.for_reference()
    if output.name not in arguments:
        return False
    blank = {**arguments, output.name: np.zeros_like(arguments[output.name])}
    fresh = plain_values(run.spec, run.case, blank)[output.name].astype(np.float64)
    with np.errstate(all="ignore"):
        agrees = np.abs(np.asarray(output.got).astype(np.float64) - fresh) <= np.maximum(output.bounded.allowed, 0)
    return bool(agrees[output.wrong].all())


def adds_to_old_contents(run: CaseRun, again: Trial) -> bool:
    """True where every pure output of a trial on moderate poison is what is expected plus the poison.

    Elements whose expected value is 0 then keep the poison, though something was added to each.
    """
    added = False
    for name in again.unwritten:
        bounded = run.expectation[name]
        expected = np.asarray(bounded.value, np.float64)
        got = np.asarray(again.outputs[name]).astype(np.float64)
        with np.errstate(all="ignore"):
            # What was added is itself rounded once more, next to the poison.
            slack = bounded.allowed + 2.0**-7 * MODERATE_VALUE
            if not np.all(np.abs(got - expected - MODERATE_VALUE) <= slack):
                return False
            added = added or bool(np.any(np.abs(expected) > 2 * slack))
    return added


def unwritten_finding(run: CaseRun, trial: Trial, again: Trial) -> Finding | None:
    """The finding for elements that hold their poison to the bit in two trials of different poison."""
    for name, first in trial.unwritten.items():
        missing = first & again.unwritten[name]
        if not missing.any():
            continue
        index = tuple(int(i) for i in np.argwhere(missing)[0])
        count = int(missing.sum())
        where = element_name(run.spec.arrays[name], name, index)
        message = f"{where} was never written; {count} of {missing.size} elements hold what stood there before"
        evidence = _evidence(run, name, trial, wrong=missing, unwritten=missing)
        worst = None
        if name in run.expectation:
            worst = judge({name: run.expectation[name]}, trial.outputs).outputs[0].worst()
        return Finding("every_output_written", message, diagnose(evidence), worst)
    return None


def order_finding(run: CaseRun, trial: Trial, orders: int = ORDERS) -> Finding | None:
    """The finding for outputs that change from those of `trial` with the order of threads, where the backend can choose
    it or the hardware does."""
    for schedule in range(0 if run.backend.schedules else 1, orders + 1):
        other = run.trial(poison=trial.poison, schedule=schedule)
        how = f"thread order {schedule}" if run.backend.schedules else "again"
        if other.fault is not None:
            return _fault_finding(other, how)
        place = difference(run, trial, other)
        if place:
            promised = "" if run.spec.deterministic else " by more than the error model allows"
            return _changed(f"{place} changes{promised}", how)
    return None


def _changed(what: str, how: str) -> Finding:
    message = f"{what} when the same case is launched {how if how == 'again' else f'in {how}'}"
    return Finding("determinism", message, "a barrier is missing, or threads write the same element without an atomic")


def _fault_finding(other: Trial, how: str) -> Finding:
    message = f"the launch fails in {how}: {other.fault}"
    return Finding("determinism", message, "an outcome that depends on the order of threads", fault=other.fault)


def difference(run: CaseRun, trial: Trial, other: Trial) -> str:
    """The first output in which two launches of one case differ more than the spec allows; empty where none does.

    Bit for bit where the spec is deterministic, else beyond what two launches may differ by: twice the allowed error.
    """
    return trial.same_bits(other) if run.spec.deterministic else _apart(run, trial, other)


def _apart(run: CaseRun, trial: Trial, other: Trial) -> str:
    """The first output in which two launches differ by more than twice the allowed error; empty where none does."""
    for name, bounded in run.expectation.items():
        first = np.asarray(trial.outputs[name]).astype(np.float64)
        second = np.asarray(other.outputs[name]).astype(np.float64)
        with np.errstate(all="ignore"):
            agree = (np.abs(first - second) <= 2 * bounded.allowed) | (first == second)
            agree |= np.isnan(first) & np.isnan(second)
        if not agree.all():
            index = tuple(int(i) for i in np.argwhere(~agree)[0])
            return element_name(run.spec.arrays[name], name, index)
    return ""


def explain(run: CaseRun, output: OutputJudgement, trial: Trial, again: Trial) -> str:
    """The diagnosis of a wrong output: a known pattern, and the input that seems to be read wrongly."""
    if again.fault is None and adds_to_old_contents(run, again):
        return "the output is added to what its memory held before, not assigned"
    unwritten = _unwritten_twice(trial, again, output.name)
    evidence = _evidence(run, output.name, trial, wrong=output.wrong, unwritten=unwritten)
    return "; ".join(part for part in (suspects.suspect(run, output), diagnose(evidence)) if part)


def _unwritten_twice(trial: Trial, again: Trial, name: str) -> np.ndarray | None:
    if again.fault is not None or name not in trial.unwritten:
        return None
    return trial.unwritten[name] & again.unwritten[name]


def _evidence(run: CaseRun, name: str, trial: Trial, *, wrong: np.ndarray, unwritten: np.ndarray | None) -> Evidence:
    bounded = run.expectation[name]
    old = run.inputs.arrays.get(name)
    arrays = {key: array.astype(np.float64) for key, array in run.inputs.arrays.items() if array is not None}
    return Evidence(
        got=np.asarray(trial.outputs[name]).astype(np.float64),
        expected=np.asarray(bounded.value, np.float64),
        allowed=bounded.allowed,
        wrong=wrong,
        unwritten=unwritten,
        old=None if old is None else old.astype(np.float64),
        inputs=arrays,
        config=run.case.config,
    )
