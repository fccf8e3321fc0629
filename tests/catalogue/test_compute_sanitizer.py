"""Reading compute-sanitizer's output and writing the table, without a GPU."""

from __future__ import annotations

import pytest

from tests.catalogue.compute_sanitizer import main, markdown, row_of
from tests.catalogue.entry import Entry, Mark
from tests.catalogue.sanitizer_output import read

LINES = Mark("/somewhere/tests/catalogue/memory.py", (23,), (20,))

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at global_past_the_end::double+0x230 in /elsewhere/tests/catalogue/memory.py:23
=========     by thread (100,0,0) in block (0,0,0)
=========     Address 0x7f0000000190 is out of bounds
=========         Host Frame: main in memory.py:20
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: launch in memory.py:20
=========
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reverse+0x120 in /elsewhere/tests/catalogue/memory.py:20
=========     and Read access at reverse+0x190 in /elsewhere/tests/catalogue/memory.py:23 [128 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNSUPPORTED = """\
========= COMPUTE-SANITIZER
========= Error: Device not supported. Please refer to the documentation.
========= ERROR SUMMARY: 0 errors
"""
QUIET = "========= COMPUTE-SANITIZER\nsome output of the program\n========= RACECHECK SUMMARY: 0 hazards displayed\n"


def test_a_report_is_read_with_its_line():
    output = read(MEMCHECK, LINES)
    assert output.reports == ("Invalid __global__ read of size 4 bytes",)
    assert output.at_marked_line
    assert output.failure == ""


def test_a_race_is_a_report_although_it_begins_with_a_severity():
    output = read(RACECHECK, LINES)
    assert len(output.reports) == 1
    assert output.at_marked_line
    assert output.failure == ""


def test_an_error_of_the_tool_is_no_report():
    output = read(UNSUPPORTED, LINES)
    assert not output.seen
    assert output.failure == "Error: Device not supported. Please refer to the documentation."


def test_a_line_counts_only_where_it_is_marked_and_in_the_report_itself():
    elsewhere = MEMCHECK.replace("catalogue/memory.py:23", "catalogue/memory.py:24")
    assert read(elsewhere, LINES).seen
    assert not read(elsewhere, LINES).at_marked_line  # line 20 stands only in frames of the host program
    assert not read(MEMCHECK, Mark("/somewhere/barriers.py", (23,), ())).at_marked_line


def test_no_report_is_not_a_failure_but_a_broken_run_is():
    assert not read(QUIET, LINES).seen
    assert read(QUIET, LINES).failure == ""
    assert read("Traceback (most recent call last)", LINES).failure == "the tool printed no summary"
    stopped = "========= COMPUTE-SANITIZER\n========= Stopped: no end within 60 s"
    assert read(stopped, LINES).first_line == "Stopped: no end within 60 s"


@pytest.fixture
def entry() -> Entry:
    return Entry("past", "memory", "out-of-bounds", tuple, lambda: ((), ()), LINES, "Too far.", True)


def test_the_table_has_a_row_per_entry_and_sums(entry):
    refkit = {"seen": True, "at_marked_line": True, "first_line": "x[100] is out of bounds"}
    rows = [
        row_of(entry, refkit, (read(MEMCHECK, LINES), 3.0), read(QUIET, LINES)),
        row_of(entry, refkit, (read(QUIET, LINES), 3.0), None),
        row_of(entry, refkit, None, None),
    ]
    text = markdown({"device": "a GPU", "compute_sanitizer": "2025.3", "date": "2026-01-01", "rows": rows})
    assert "| memory | 3 | 3 | 2 | 1 (memcheck) |" in text
    table = [line for line in text.splitlines() if line.startswith("| `past`")]
    reported = "| `past` | memory | out-of-bounds | yes, line | memcheck | yes, line |"
    assert table[0] == f"{reported} Invalid __global__ read of size 4 bytes | quiet |"
    assert "| memcheck | no |" in table[1]
    assert "| memcheck | not run |" in table[2]


def test_without_a_gpu_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--out", str(tmp_path)]) == 3
    assert capsys.readouterr().err == "no NVIDIA GPU found\n"
    assert not list(tmp_path.iterdir())
