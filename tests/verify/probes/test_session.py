"""Which probes a name stands for, and what a run of them says."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS
from refkit.verify.backends import open_backend
from refkit.verify.errors import TargetError
from refkit.verify.probes import Probe
from refkit.verify.probes.session import find_probes, run_probes


def names(wanted):
    return [each.name for each in find_probes(wanted)]


def test_names_beginnings_and_patterns():
    assert names("mma.m16n8k8.tf32") == ["mma.m16n8k8.tf32"]
    assert names("ldmatrix.x4") == ["ldmatrix.x4", "ldmatrix.x4.trans"]
    assert names("mma.*.bf16") == ["mma.m16n8k8.bf16", "mma.m16n8k16.bf16"]
    assert names(None) == list(LAYOUTS)


def test_a_name_that_is_none():
    with pytest.raises(TargetError, match=r"no probe is named 'mma.m16n8k8.tf3'; did you mean mma.m16n8k8.tf32\?"):
        find_probes("mma.m16n8k8.tf3")


USERS = """
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS
from refkit.verify.probes import Probe

{line}
"""


def test_a_users_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(USERS.format(line='p = Probe(ptx.ldmatrix_x1, LAYOUTS["ldmatrix.x1"], name="mine")'))
    assert names(str(path)) == ["mine"]
    path.write_text(USERS.format(line=""))
    with pytest.raises(TargetError, match="no Probe in it"):
        find_probes(str(path))
    with pytest.raises(TargetError, match="no such file"):
        find_probes(str(tmp_path / "other.py"))


@pytest.mark.cpu
def test_values_are_measured_of_layouts_that_hold():
    tf32 = LAYOUTS["mma.m8n8k4.f64"]
    right = Probe(ptx.mma_m8n8k4_f64, tf32)
    wrong = Probe(ptx.mma_m8n8k4_f64, replace(tf32, c=tf32.c.exchanged(0, 1)), name="wrong")
    shown = []
    run = run_probes([right, wrong], [open_backend("cpu")], shown.append)
    assert run.failed
    assert [each.status for each in shown] == ["passed", "failed"]
    assert [each.name for each in run.values] == ["mma.m8n8k4.f64"]
    record = run.to_json()
    assert {**record["summary"], "seconds": 0} == {
        "passed": 1, "failed": 1, "skipped": 0, "error": 0, "differences": 0, "seconds": 0,
    }  # fmt: skip
    assert [(each["name"], each["operand"], each["status"]) for each in record["probes"]] == [
        *(("mma.m8n8k4.f64", operand, "passed") for operand in "ABCD"),
        *(("wrong", operand, "failed" if operand in "CD" else "passed") for operand in "ABCD"),
    ]
    assert record["probes"][0]["map"] == list(tf32.a.to_text())
    assert record["probes"][7]["map"] != record["probes"][7]["claimed"]


@pytest.mark.cpu
def test_two_backends_are_compared():
    """The second backend is the same executor under another name."""
    cpu = open_backend("cpu")
    other = SimpleNamespace(name="other", schedules=True, active=cpu.active, launch=cpu.launch)
    layout = LAYOUTS["mma.m8n8k4.f64"]
    run = run_probes([Probe(ptx.mma_m8n8k4_f64, layout)], [cpu, other])
    assert (run.backend, run.differences) == ("cpu", ())
    assert len(run.on("other")[0]) == len(run.on("cpu")[0]) == 1


@pytest.mark.cpu
def test_a_map_that_differs_between_backends_is_listed(monkeypatch):
    """What `run` gives on the second backend is the result of another intrinsic, two registers exchanged."""
    cpu = open_backend("cpu")
    layout = LAYOUTS["ldmatrix.x2"]
    right = Probe(ptx.ldmatrix_x2, layout).run(cpu)
    (found,) = right.operands
    exchanged = replace(found.found, row=found.found.row[:, ::-1])
    wrong = replace(right, backend="other", operands=(replace(found, found=exchanged),))
    results = {"cpu": right, "other": wrong}
    monkeypatch.setattr(Probe, "run", lambda probe, backend: results[backend.name])
    other = SimpleNamespace(name="other", schedules=True, active=cpu.active, launch=cpu.launch)
    run = run_probes([Probe(ptx.ldmatrix_x2, layout)], [cpu, other])
    assert run.differences == ("ldmatrix.x2, registers: cpu and other found different elements",)
