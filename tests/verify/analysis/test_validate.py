"""The model's predictions of every pattern, and what becomes of ncu's tables."""

import csv
import io
import json

import pytest

from refkit.verify.analysis import validate
from refkit.verify.analysis.patterns import PATTERNS
from refkit.verify.analysis.validate import Comparison, compare, predict, read_counters

pytestmark = pytest.mark.cpu


@pytest.fixture(scope="module")
def predictions():
    return predict()


def counters_of(predictions, **changed):
    """ncu's raw page for counters that agree with the predictions, except those of the patterns that are named."""
    names = validate.metrics()
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["ID", "Kernel Name", *names])
    writer.writerow(["", "", *["" for _ in names]])
    for number, (pattern, each) in enumerate(zip(PATTERNS, predictions)):
        suffix = "ld" if each.access == "read" else "st"
        model = changed.get(each.name, each.model)
        values = dict.fromkeys(names, "0")
        if each.space == "global":
            values[f"l1tex__t_requests_pipe_lsu_mem_global_op_{suffix}.sum"] = str(each.model_requests)
            values[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{suffix}.sum"] = f"{round(model * each.model_requests):,}"
        else:
            values[f"smsp__inst_executed_op_shared_{suffix}.sum"] = str(each.model_requests)
            passes = str(round(model * each.model_requests))
            values[f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{suffix}.sum"] = passes
        writer.writerow([number, f"patterns::{pattern.kernel_name}(Array<float, 1>)", *values.values()])
    return "==PROF== Connected\n" + out.getvalue()


def test_there_are_patterns_of_every_kind():
    assert len(PATTERNS) >= 12
    assert {(each.space, each.access) for each in PATTERNS} == {
        (space, access) for space in ("global", "shared") for access in ("read", "write")
    }


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{pattern.space} {pattern.access} {pattern.name}")
def test_predictions_are_the_counts_made_by_hand(pattern, predictions):
    prediction = predictions[PATTERNS.index(pattern)]
    assert prediction.model == pytest.approx(pattern.expected, rel=1e-12)
    assert prediction.model_requests == 64


def test_counters_that_agree(predictions):
    found = compare(predictions, read_counters(counters_of(predictions)))
    assert all(each.agrees for each in found)


def test_a_counter_that_differs_is_told(predictions):
    found = compare(predictions, read_counters(counters_of(predictions, **{"stride 33": 2.0})))
    assert [each.name for each in found if not each.agrees] == ["stride 33"]
    assert "| 1.000 | 2.000 |" in validate.markdown(found, "")
    assert f"{len(PATTERNS) - 1} of {len(PATTERNS)} counted patterns agree" in validate.markdown(found, "")


def test_the_table_with_a_row_per_metric_is_read_as_well():
    rows = ['"0","k","a.sum","1,024"', '"0","k","b.sum","3"', '"1","k","a.sum","5"']
    text = "\n".join(['"ID","Kernel Name","Metric Name","Metric Value"', *rows])
    assert read_counters(text) == [
        {"Kernel Name": "k", "a.sum": "1,024", "b.sum": "3"},
        {"Kernel Name": "k", "a.sum": "5"},
    ]


def test_what_was_not_counted_neither_agrees_nor_differs():
    assert Comparison("x", "global", "read", 4, 4.0, 64).agrees is None


def test_other_requests_do_not_agree():
    assert not Comparison("x", "global", "read", 4, 4.0, 64, 4.0, 65).agrees


def test_launches_of_other_kernels_are_refused(predictions):
    launches = read_counters(counters_of(predictions))
    with pytest.raises(RuntimeError, match="expected"):
        compare(predictions, launches[:-1])
    launches[0]["Kernel Name"] = "memset"
    with pytest.raises(RuntimeError, match="'memset' where global_load was expected"):
        compare(predictions, launches)


def test_without_ncu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(validate.shutil, "which", lambda name: None)
    monkeypatch.setattr(validate, "predict", list)
    assert validate.main([]) == 3
    assert "ncu (Nsight Compute) is not on PATH" in capsys.readouterr().err


def test_files_are_written(tmp_path, predictions, monkeypatch):
    monkeypatch.setattr(validate, "predict", lambda: predictions)
    source = tmp_path / "ncu.csv"
    source.write_text(counters_of(predictions, **{"same word": 3.0}))
    assert validate.main(["--counters", str(source), "--out", str(tmp_path / "out")]) == 1
    data = json.loads((tmp_path / "out" / "memory_model.json").read_text())
    assert [each["name"] for each in data["patterns"] if not each["agrees"]] == ["same word", "same word"]
    assert len(data["counters"]) == len(PATTERNS)
    assert "**no**" in (tmp_path / "out" / "memory_model.md").read_text()
