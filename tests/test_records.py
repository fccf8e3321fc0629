"""Records survive the way to strict JSON and back, and a run's summary counts what its kernels say."""

import json
import math

import numpy as np
import pytest

from refkit.records import (
    CaseRecord,
    CheckRecord,
    KernelRecord,
    RunRecord,
    SourceFinding,
    Verdict,
    WorstRecord,
    worst_verdict,
)


def make_run() -> RunRecord:
    worst = WorstRecord("y", (1, 2), 3.0, math.nan, 1e-7, math.inf, (2, 3), ((0.0, math.inf),), (2, 3))
    failed = CheckRecord(
        "accuracy",
        Verdict.FAILED,
        cases=2,
        worst_ratio=math.inf,
        message="y[1, 2] is nan",
        bound="tracked",
        cases_data=(CaseRecord({"R": 2}, {"x": "strided"}, {"block": 64}, np.float64(0.5), "random", "normal", 7),),
        worst=worst,
        findings=(SourceFinding("race", "two threads", "k.py", 12),),
    )
    kernels = (
        KernelRecord("a", "op", "float32", Verdict.FAILED, 2, 0.5, (failed,)),
        KernelRecord("b", "op", "float32", Verdict.PASSED, 5, 0.25, (CheckRecord("accuracy", Verdict.PASSED, 5, 0.3),)),
    )
    return RunRecord("0.1.0", "cpu", "quick", 3, kernels, 1.5, {"python": "3.11"}, "all")


def test_a_run_survives_strict_json():
    run = make_run()
    text = json.dumps(run.to_json(), allow_nan=False)
    again = RunRecord.from_json(json.loads(text))
    assert json.dumps(again.to_json(), allow_nan=False) == text
    assert again.kernels[0].checks[0].status is Verdict.FAILED
    assert again.kernels[0].checks[0].worst is not None
    assert math.isnan(again.kernels[0].checks[0].worst.got)
    assert again.kernels[0].checks[0].worst_ratio == math.inf
    assert again.kernels[0].checks[0].findings[0].line == 12


def test_the_json_has_the_fields_of_the_contract():
    data = make_run().to_json()
    assert list(data)[:7] == ["schema", "refkit", "backend", "profile", "seed", "environment", "summary"]
    assert data["summary"] == {
        "kernels": 2,
        "checks": 2,
        "cases": 7,
        "seconds": 1.5,
        "passed": 1,
        "failed": 1,
        "skipped": 0,
        "mistrusted": 0,
        "error": 0,
    }
    assert {"name", "operator", "precision", "status", "cases", "seconds", "checks"} <= set(data["kernels"][0])
    check = data["kernels"][0]["checks"][0]
    assert {
        "name",
        "status",
        "cases",
        "worst_ratio",
        "message",
        "diagnosis",
        "case_file",
        "bound",
        "sensitivity",
    } <= set(check)
    assert check["status"] == "failed"


def test_unknown_fields_are_ignored_and_another_schema_is_refused():
    data = make_run().to_json()
    data["kernels"][0]["invented_later"] = 1
    assert RunRecord.from_json(data).kernels[0].name == "a"
    with pytest.raises(ValueError, match="schema 1"):
        RunRecord.from_json({**data, "schema": 2})


def test_the_worst_verdict_wins():
    assert worst_verdict([Verdict.PASSED, Verdict.SKIPPED]) is Verdict.PASSED
    assert worst_verdict([Verdict.PASSED, Verdict.MISTRUSTED]) is Verdict.MISTRUSTED
    assert worst_verdict([Verdict.ERROR, Verdict.FAILED, Verdict.PASSED]) is Verdict.FAILED
    assert worst_verdict([]) is Verdict.SKIPPED
    assert Verdict.SKIPPED.holds
    assert not Verdict.MISTRUSTED.holds
