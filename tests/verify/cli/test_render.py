"""What a user sees: failures first, no colour where none is wanted, narrow terminals; and JUnit XML that holds any
text."""

import io
from xml.etree import ElementTree

import pytest
from rich.console import Console

from refkit.records import CheckRecord, KernelRecord, RunRecord, Verdict
from refkit.verify.cli import render
from refkit.verify.cli.junit import to_xml
from refkit.verify.cli.verification import exit_status
from refkit.verify.events import CaseStarted, KernelDone, KernelStarted


def kernel(name: str, status: Verdict, **more) -> KernelRecord:
    failing = not status.holds
    check = CheckRecord(
        "accuracy",
        status,
        cases=3,
        worst_ratio=2.0,
        message="y[0] is [bold]wrong\x00" if failing else "",
        diagnosis="only the last row is wrong" if failing else "",
        case_file="a/b.json" if failing else "",
        sensitivity=1e-6,
    )
    return KernelRecord(name, "op", "float32", status, 3, 0.5, (check,), **more)


def run_of(*kernels: KernelRecord, interrupted: bool = False) -> RunRecord:
    return RunRecord("0", "cpu", "quick", 0, kernels, 1.0, interrupted=interrupted)


RUN = run_of(kernel("good", Verdict.PASSED), kernel("bad", Verdict.FAILED), kernel("odd", Verdict.MISTRUSTED))


def shown(monkeypatch, **options) -> str:
    out = io.StringIO()
    monkeypatch.setattr(render, "console", lambda: Console(file=out, highlight=False, **options))
    render.print_summary(RUN)
    return out.getvalue()


@pytest.mark.parametrize("width", [30, 160])
def test_failures_come_first_with_their_cause_and_the_command_that_replays_them(monkeypatch, width):
    text = shown(monkeypatch, width=width)
    assert text.index("bad") < text.index("odd") < text.index("good")
    assert "failed bad: accuracy: y[0] is [bold]wrong" in text
    assert "looks like: only the last row is wrong" in text
    assert "-m refkit.verify replay a/b.json" in text
    assert "1 failed, 1 mistrusted, 1 passed; 9 cases in 1.0 s" in text
    assert ("sensitivity" in text) == (width == 160)


def test_no_color_is_respected(monkeypatch):
    assert "\x1b[1;31m" in shown(monkeypatch, width=100, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(monkeypatch, width=100, force_terminal=True, color_system="standard")
    assert "31m" not in plain


def test_bars_follow_the_events_and_vanish(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(render, "console", lambda: Console(file=out, force_terminal=True, width=50))
    with render.progress(2, enabled=True) as show:
        show(KernelStarted("bad", 10))
        show(CaseStarted("bad", "accuracy", "R=1", 4))
        show(KernelDone(RUN.kernels[1]))
    assert "failed" in out.getvalue()
    assert "bad" in out.getvalue()


def test_exit_statuses():
    good, bad, odd = RUN.kernels
    wrong = kernel("wrong", Verdict.ERROR, wrong_call=True)
    crashed = kernel("crashed", Verdict.ERROR)
    assert exit_status(run_of(good)) == 0
    assert exit_status(run_of(good, kernel("left out", Verdict.SKIPPED))) == 0
    assert exit_status(run_of(good, bad)) == 1
    assert exit_status(run_of(good, odd)) == 1
    assert exit_status(run_of(good, crashed)) == 1
    assert exit_status(run_of(good, wrong)) == 2
    assert exit_status(run_of(bad, wrong)) == 1
    assert exit_status(run_of(good, interrupted=True)) == 130
    assert exit_status(run_of(bad, interrupted=True)) == 1


def test_junit_counts_and_holds_any_text():
    root = ElementTree.fromstring(to_xml(RUN))
    assert {key: root.attrib[key] for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "2",
        "errors": "0",
        "skipped": "0",
    }
    failure = root.find("./testsuite[@name='bad']/testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "y[0] is [bold]wrong?"
    assert "refkit.verify replay a/b.json" in failure.text


def test_a_ratio_below_one_is_not_shown_as_one():
    for ratio, shown in ((0.9999, ">0.99"), (1.0, "1"), (0.98, "0.98"), (0.321, "0.32"), (None, "")):
        assert render._ratio(ratio) == shown


def test_one_of_a_thing_is_one_thing():
    assert [render.counted(number, "case") for number in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]


@pytest.mark.parametrize("width", [80, 160])
def test_a_listing_keeps_names_whole(monkeypatch, width):
    out = io.StringIO()
    monkeypatch.setattr(render, "console", lambda: Console(file=out, width=width, highlight=False))
    row = {"operator": "layer_norm", "direction": "backward", "precision": "bfloat16 -> float32", "checks": ["a", "b"]}
    name = "layer_norm_dgamma_dbeta_two_stage_bf16"
    render.print_listing([{**row, "name": name, "deterministic": False}], [{"name": "a", "summary": "what a does"}])
    lines = out.getvalue().splitlines()
    assert name in lines[1]
    assert "bfloat16 -> float32" in lines[1]
    assert ("deterministic" in lines[0]) == (width == 160)
