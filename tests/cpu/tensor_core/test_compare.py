"""The comparison with a GPU, with the executor in the GPU's place: what differs is found and listed with its inputs."""

import json
from pathlib import Path

import numpy as np
import pytest

from . import compare


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Results of one form, saved as by a GPU."""
    monkeypatch.setattr(compare, "on_gpu", compare.on_executor)
    monkeypatch.setattr(compare, "device", lambda: {"name": "executor", "capability": [9, 0]})
    path = tmp_path / "gpu.npz"
    assert compare.main(["--fragments", "40", "-k", "m16n8k8_tf32", "--save", str(path)]) == 0
    return path


@pytest.mark.cpu
def test_saved_results_are_compared_without_a_gpu(saved, tmp_path):
    output = tmp_path / "report.json"
    assert (
        compare.main(["--fragments", "40", "-k", "m16n8k8_tf32", "--against", str(saved), "--output", str(output)]) == 0
    )
    (form,) = json.loads(output.read_text())["forms"]
    assert sum(record["fragments"] for record in form["classes"]) == 40


@pytest.mark.cpu
def test_a_bit_that_differs_is_listed_with_its_inputs(saved, tmp_path):
    results = dict(np.load(saved))
    results["mma_m16n8k8_tf32/cancelling"][3, 5, 2] ^= 1
    np.savez(saved, **results)
    output = tmp_path / "report.json"
    assert (
        compare.main(["--fragments", "40", "-k", "m16n8k8_tf32", "--against", str(saved), "--output", str(output)]) == 1
    )
    (form,) = json.loads(output.read_text())["forms"]
    wrong = {record["class"]: record for record in form["classes"] if record["mismatches"]}
    assert list(wrong) == ["cancelling"]
    (example,) = wrong["cancelling"]["examples"]
    assert (example["fragment"], example["row"], example["column"]) == (3, 5, 2)
    assert len(example["a"]) == len(example["b"]) == 8
    assert example["executor"] != example["gpu"]


@pytest.mark.cpu
def test_the_executor_gives_the_bits_that_an_h200_gave(tmp_path):
    recorded = Path(__file__).with_name("h200_mma.npz")  # written by `compare --save` on that machine
    assert compare.main(["--against", str(recorded), "--output", str(tmp_path / "mma.json")]) == 0
    report = json.loads((tmp_path / "mma.json").read_text())
    assert report["device"]["name"] == "NVIDIA H200"
    assert len(report["forms"]) == 19
    assert all(record["fragments"] == 40 for form in report["forms"] for record in form["classes"])
