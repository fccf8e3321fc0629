"""What is wrong with a run is said in one line that names the field."""

from __future__ import annotations

import re
from copy import deepcopy

import pytest

from refkit.reports import ReportError, read_file, write
from refkit.reports.schema import check_run
from tests.reports.synthetic import synthetic_run


@pytest.fixture(scope="module")
def run():
    return synthetic_run(kernels=2, cases=2, failing=(1,))


def test_a_run_holds(run):
    check_run(run)


def test_unknown_fields_and_nulls_of_optional_ones_hold(run):
    changed = deepcopy(run)
    changed["kernels"][0].update(later={"x": 1}, seconds=None, checks=None)
    check_run(changed)


def _set(run, path, value):
    changed = deepcopy(run)
    *keys, last = path
    place = changed
    for key in keys:
        place = place[key]
    place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["kernels"], {}, "kernels is a JSON object, expected a list"),
        (["kernels", 1], None, "kernels[1] is a JSON null, expected an object"),
        (["kernels", 1, "name"], 3, "kernels[1].name is the JSON number 3, expected a string"),
        (["kernels", 0, "status"], "fine", "kernels[0].status is the JSON string 'fine', expected one of passed,"),
        (["kernels", 0, "cases"], -1, "kernels[0].cases is the JSON number -1, expected a whole number from 0"),
        (["kernels", 0, "cases"], True, "kernels[0].cases is the JSON boolean True, expected a whole number"),
        (["kernels", 0, "seconds"], "long", "kernels[0].seconds is the JSON string 'long', expected a number"),
        (["kernels", 0, "deterministic"], 1, "kernels[0].deterministic is the JSON number 1, expected true or false"),
        (["kernels", 0, "checks", 2, "worst_ratio"], "x", "kernels[0].checks[2].worst_ratio is the JSON string 'x'"),
        (["kernels", 0, "checks", 0, "cases_data", 1, "dims"], {"T": 1.5}, "kernels[0].checks[0].cases_data[1].dims.T"),
        (
            ["kernels", 0, "checks", 0, "worst", "error_map"],
            [[0.1], 2],
            "checks[0].worst.error_map[1] is the JSON number 2",
        ),
        (["kernels", 0, "checks", 0, "ulps"], {"0": "many"}, "kernels[0].checks[0].ulps.0 is the JSON string 'many'"),
        (["kernels", 1, "checks", 0, "findings"], [7], "kernels[1].checks[0].findings[0] is the JSON number 7"),
        (["kernels", 1, "analysis", "lines", 0, "line"], "31", "kernels[1].analysis.lines[0].line is the JSON string"),
        (["kernels", 1, "analysis", "resources", 1, "cliff"], {"registers": 3}, "resources[1].cliff.blocks is missing"),
        (["kernels", 0, "mutation"], {"mutants": 3}, "kernels[0].mutation.killed is missing"),
        (["environment"], "linux", "environment is the JSON string 'linux', expected an object"),
        (["summary", "seconds"], [], "summary.seconds is a JSON list, expected a number"),
        (["schema"], 2, "schema is 2, this refkit reads 1"),
        (["seed"], [1], "seed is a JSON list, expected a string or a number"),
    ],
)
def test_a_field_of_another_type_is_named(run, path, value, message, tmp_path):
    with pytest.raises(ReportError, match=re.escape(message)) as caught:
        write(_set(run, path, value), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (["schema"], "schema is missing"),
        (["kernels"], "kernels is missing"),
        (["kernels", 1, "name"], "kernels[1].name is missing"),
        (["kernels", 1, "checks", 3, "status"], "kernels[1].checks[3].status is missing"),
    ],
)
def test_a_field_that_is_missing_is_named(run, path, message):
    changed = deepcopy(run)
    *keys, last = path
    place = changed
    for key in keys:
        place = place[key]
    del place[last]
    with pytest.raises(ReportError, match=re.escape(message)):
        check_run(changed)


@pytest.mark.parametrize(
    ("value", "message"), [([], "the run is a JSON list"), (None, "a JSON null"), ({"probes": []}, "schema is missing")]
)
def test_what_is_no_run_is_refused(value, message):
    with pytest.raises(ReportError, match=message):
        check_run(value)


def test_a_long_value_is_shortened(run):
    with pytest.raises(ReportError) as caught:
        check_run(_set(run, ["kernels", 0, "status"], "x" * 500))
    assert len(str(caught.value)) < 160


def test_a_packed_file_is_read_and_a_cut_one_refused(tmp_path):
    import gzip

    packed = tmp_path / "run.json.gz"
    packed.write_bytes(gzip.compress(b'{"schema": 1}'))
    assert read_file(packed) == {"schema": 1}
    packed.write_bytes(packed.read_bytes()[:-6])
    with pytest.raises(ReportError, match="not a whole gzip file"):
        read_file(packed)
