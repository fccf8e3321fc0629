"""`probe` from the outside."""

import json

import pytest

from refkit.verify.__main__ import main

pytestmark = pytest.mark.cpu

SWAPPED = """
from numba import cuda
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS
from refkit.verify.probes import Probe

@cuda.jit(device=True)
def swapped(a, b, c):
    return ptx.mma_m16n8k8_tf32((a[0], a[2], a[1], a[3]), b, c)

my_probe = Probe(swapped, LAYOUTS["mma.m16n8k8.tf32"], name="my_mma")
"""

TWO = """
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS
from refkit.verify.probes import Probe

first = Probe(ptx.ldmatrix_x1, LAYOUTS["ldmatrix.x1"])
second = Probe(ptx.cvt_rn_f16x2, LAYOUTS["cvt.rn.f16x2"])
"""


def test_one_name_with_json_and_report(tmp_path, capsys):
    file, folder = tmp_path / "out.json", tmp_path / "report"
    arguments = ["probe", "mma.m16n8k8.tf32", "--backend", "cpu", "--json", str(file), "--report", str(folder)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "mma.m16n8k8.tf32                passed  A B C D" in shown
    assert "terms:              25 fraction bits, cut towards zero" in shown
    record = json.loads(file.read_text())
    assert {each["operand"] for each in record["probes"]} == set("ABCD")
    assert all(each.keys() >= {"name", "operand", "status", "backend", "map"} for each in record["probes"])
    assert record["values"][0]["facts"]["C"] == "aligned with the first products"
    page = (folder / "index.html").read_text()
    assert "1 of 1 layouts agree with the data" in page
    for png in ("mma.m16n8k8.tf32-A.png", "mma.m16n8k8.tf32-B.png", "mma.m16n8k8.tf32-C.png"):
        assert (folder / png).stat().st_size > 5_000
        assert png in page


def test_a_users_file_with_a_mistake_in_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SWAPPED)
    assert main(["probe", "mine.py", "--backend", "cpu", "--report", str(tmp_path / "report")]) == 1
    shown = capsys.readouterr().out
    assert "A: registers a1 and a2 are exchanged: lane 0 a1 holds (0, 4), the layout data says (8, 0)" in shown
    assert "differ from the layout data" in (tmp_path / "report" / "index.html").read_text()


def test_what_was_found_before_ctrl_c_is_kept(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("refkit.verify.probes.probe.lane_facts", interrupt)
    file = tmp_path / "out.json"
    (tmp_path / "mine.py").write_text(TWO)
    assert main(["probe", str(tmp_path / "mine.py"), "--backend", "cpu", "--json", str(file)]) == 130
    record = json.loads(file.read_text())
    assert record["interrupted"]
    assert [each["name"] for each in record["probes"]] == ["ldmatrix.x1"]
    assert "1 probe: 1 passed" in capsys.readouterr().out


def test_against_another_devices_result(tmp_path, capsys):
    file = tmp_path / "out.json"
    arguments = ["probe", "mma.m8n8k4.f64", "--backend", "cpu"]
    assert main([*arguments, "--json", str(file)]) == 0
    assert main([*arguments, "--against", str(file)]) == 0
    assert "agree in everything that both showed" in capsys.readouterr().out
    record = json.loads(file.read_text())
    record["values"][0]["facts"]["sum"] = "52 fraction bits, towards zero"
    record["probes"][0]["map"][5] = "?"
    file.write_text(json.dumps(record))
    assert main([*arguments, "--against", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "mma.m8n8k4.f64, A: cpu and cpu found different elements" in shown
    assert "mma.m8n8k4.f64, sum: cpu 52 fraction bits, to nearest, ties to even; cpu 52 fraction bits, towards" in shown
    file.write_text("[]")
    assert main([*arguments, "--against", str(file)]) == 2
    assert "not a result of `probe --json`" in capsys.readouterr().err


def test_list(capsys):
    assert main(["probe", "stmatrix", "--list"]) == 0
    assert capsys.readouterr().out.split() == [f"stmatrix.x{n}{t}" for t in ("", ".trans") for n in (1, 2, 4)]


def test_a_wrong_call_is_one_line_and_2(capsys, tmp_path):
    assert main(["probe", "mma.m16n8k8.fp4"]) == 2
    assert main(["probe", "--backend", "gpu"]) == 2
    assert main(["probe", "ldmatrix.x1", "--json", str(tmp_path / "no" / "such.json")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 3
    assert "no probe is named 'mma.m16n8k8.fp4'" in lines[0]


def test_no_gpu_is_3(capsys, monkeypatch):
    monkeypatch.setattr("refkit.verify.backends.cuda.gpu_problem", lambda: "no GPU")
    assert main(["probe", "ldmatrix.x1", "--backend", "cuda"]) == 3
    assert "--backend cuda: no GPU" in capsys.readouterr().err
