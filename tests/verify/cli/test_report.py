"""`report` from the outside: one run, two runs, files that are none; and `--analyze` of `fuzz`."""

from __future__ import annotations

import json
import textwrap

import pytest

from refkit.verify.__main__ import main
from refkit.verify.analysis import toolchain


def _run(**verdicts):
    kernels = [
        {
            "name": name,
            "status": status,
            "checks": [{"name": "accuracy", "status": status, "message": f"{status} here"}],
        }
        for name, status in verdicts.items()
    ]
    return {"schema": 1, "kernels": kernels}


@pytest.fixture
def save(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, run):
        (tmp_path / name).write_text(json.dumps(run))
        return name

    return write


def test_what_broke_ends_with_1_and_is_named_with_its_check(save, capsys, tmp_path):
    first = save("a.json", _run(norm="passed", linear="failed", old="passed"))
    second = save("b.json", _run(norm="failed", linear="passed", fresh="passed"))
    assert main(["report", first, second, "--out", "page", "--json", "found.json"]) == 1
    shown = capsys.readouterr().out
    assert "broke: norm (passed → failed)" in shown
    assert "accuracy: passed → failed: failed here" in shown
    assert "improved: linear (failed → passed)" in shown
    assert "new: fresh (passed)" in shown
    assert "gone: old (passed)" in shown
    assert "1 broke, 1 improved, 1 new, 1 gone" in shown
    assert "report: page/index.html" in shown
    assert "What broke" in (tmp_path / "page" / "index.html").read_text()
    found = json.loads((tmp_path / "found.json").read_text())
    assert [kernel["name"] for kernel in found["broke"]] == ["norm"]
    assert found["broke"][0]["checks"][0]["before"] == "passed"


def test_nothing_broken_ends_with_0(save, capsys):
    first, second = save("a.json", _run(norm="failed")), save("b.json", _run(norm="passed", linear="failed"))
    assert main(["report", first, second]) == 0
    assert main(["report", first, first]) == 0
    assert capsys.readouterr().out.endswith("No verdict changed\n")


def test_one_run_gives_its_report(save, capsys, tmp_path):
    assert main(["report", save("a.json", _run(norm="passed")), "--out", "page"]) == 0
    assert "1 kernel passed" in (tmp_path / "page" / "index.html").read_text()
    assert capsys.readouterr().out == "report: page/index.html\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["good.json"], "needs a second run to compare with, or --out"),
        (["good.json", "none.json"], "none.json: No such file"),
        (["good.json", "text.json"], "text.json: not JSON: "),
        (["bad.json", "good.json"], "bad.json: kernels[0].status is the JSON string 'fine'"),
        (["good.json", "old.json"], "old.json: schema is 0, this refkit reads 1"),
        (["bad.json", "--out", "page"], "bad.json: kernels[0].status is"),
        (["good.json", "good.json", "--json", "no/such/x.json"], "there is no folder"),
        (["good.json", "good.json", "--out", "good.json"], "this is a file; expected a folder"),
    ],
)
def test_wrong_calls_are_one_line_and_2(save, capsys, arguments, told, tmp_path):
    save("good.json", _run(norm="passed"))
    save("bad.json", _run(norm="fine"))
    save("old.json", {**_run(), "schema": 0})
    (tmp_path / "text.json").write_text("no json")
    assert main(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.err.count("\n") == 1


KERNEL = """
    from numba import cuda
    from refkit.verify import Dim, In, KernelSpec, Out

    @cuda.jit
    def double_kernel(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = x[i] + x[i]

    def double(x, y):
        double_kernel[-(-x.shape[0] // 64), 64](x, y)

    double_spec = KernelSpec(launch=double, reference=lambda x: 2 * x, args=dict(x=In(Dim("N")), y=Out(Dim("N"))))
"""


@pytest.mark.cpu
@pytest.mark.parametrize("asked", [False, True])
def test_analyze_of_a_verification_is_in_its_json_and_its_report(save, tmp_path, monkeypatch, asked):
    monkeypatch.setattr(toolchain, "missing", lambda: "registers need ptxas")
    (tmp_path / "double.py").write_text(textwrap.dedent(KERNEL))
    call = ["fuzz", "double.py", "--backend", "cpu", "--profile", "quick", "-j", "1", "--no-progress"]
    assert main([*call, "--json", "out.json", "--report", "page", *["--analyze"] * asked]) == 0
    (kernel,) = json.loads((tmp_path / "out.json").read_text())["kernels"]
    page = (tmp_path / "page" / "index.html").read_text()
    assert (kernel["analysis"] is not None) is asked
    assert ("y[i] = x[i] + x[i]" in page) is asked
    assert ("<code>--analyze</code> adds it" in page) is not asked
    (accuracy,) = [check for check in kernel["checks"] if check["name"] == "accuracy"]
    assert sum(accuracy["ulps"].values()) > 0
    assert {case["reduction"] for case in accuracy["cases_data"]} <= {1, None}
