"""The tables of the tutorial: what they show of a row, and where they are written."""

import pytest

from refkit.verify.analysis import toolchain
from refkit.verify.benchmarks import ladder_table
from refkit.verify.benchmarks.ladder import Rung
from refkit.verify.benchmarks.ladder_analysis import analyze_rung
from refkit.verify.benchmarks.ladder_table import analysis_row, digits, rewritten, shown, speeds, wgmma_speeds

PAGE = "Words.\n<!-- ladder: first -->\n| old |\n<!-- end -->\nMore.\n<!-- ladder: second -->\n<!-- end -->\n"


def row(name, **changes):
    values = {"name": name, "shape": "4096x4096x4096", "median_us": 1234.0, "rate": 111.4, "peer_rate": 370.2}
    return {**values, "ratio": 0.3009, "clock_before": 1980.0, "clock_after": 1755.0, **changes}


def test_three_digits():
    assert [digits(value) for value in (0.01234, 0.352, 1.5, 6.84, 50.66, 370.2, 1328.7)] == [
        "0.0123",
        "0.352",
        "1.50",
        "6.84",
        "50.7",
        "370",
        "1,329",
    ]


def test_speeds_follow_the_order_of_the_rungs():
    rungs = (Rung("matmul_tiled", "matmul"), Rung("matmul_naive", "matmul"))
    table = speeds(rungs, [row("matmul_naive fp32 NN"), row("matmul_tiled fp32 NN", clock_after=1980.0)])
    assert table.splitlines()[2:] == [
        "| tiled | fp32 | 1.23 | 111 | 370 | 30.1 % | 1,980 |",
        "| naive | fp32 | 1.23 | 111 | 370 | 30.1 % | 1,755 to 1,980 |",
    ]


def test_a_rung_that_was_not_measured_is_an_error():
    with pytest.raises(KeyError, match="matmul_tiled bf16 NN"):
        speeds((Rung("matmul_tiled", "matmul", "bf16"),), [row("matmul_tiled fp32 NN")])


def test_wgmma_rows_name_format_orientation_and_size():
    line = wgmma_speeds([row("matmul_wgmma bf16 TN", shape="8192x8192x8192")]).splitlines()[2]
    assert line.startswith("| bf16 | TN | 8192 | 1.23 |")


def test_tables_are_written_between_their_marks_only():
    page = rewritten(PAGE, {"second": "| new |\n"})
    assert shown(page) == {"first": "| old |\n", "second": "| new |\n"}
    assert rewritten(page, {"second": ""}) == PAGE


def test_write_changes_the_pages_and_nothing_is_measured(monkeypatch, tmp_path, capsys):
    path = tmp_path / "tutorial.md"
    path.write_text(PAGE)
    monkeypatch.setattr(ladder_table, "pages", lambda: [path])
    monkeypatch.setattr(ladder_table, "TABLES", {"first": lambda: "| 1 |\n", "analysis of it": lambda: 1 / 0})
    monkeypatch.setattr("sys.argv", ["ladder_table"])
    ladder_table.main()
    assert path.read_text() == PAGE
    monkeypatch.setattr("sys.argv", ["ladder_table", "--write"])
    ladder_table.main()
    assert shown(path.read_text()) == {"first": "| 1 |\n", "second": ""}
    assert "| 1 |" in capsys.readouterr().out


def test_a_measurement_that_is_not_there_leaves_its_table(monkeypatch, tmp_path, capsys):
    path = tmp_path / "tutorial.md"
    path.write_text(PAGE)
    monkeypatch.setattr(ladder_table, "RUN", tmp_path)
    monkeypatch.setattr(ladder_table, "pages", lambda: [path])
    monkeypatch.setattr(ladder_table, "TABLES", {"first": lambda: speeds((), ladder_table.measured("ladder.json"))})
    monkeypatch.setattr("sys.argv", ["ladder_table", "--write"])
    ladder_table.main()
    assert path.read_text() == PAGE
    assert f"first: left as it is, there is no {tmp_path / 'ladder.json'}" in capsys.readouterr().out


@pytest.mark.skipif(not toolchain.missing(), reason="NVIDIA's compilers are installed")
def test_the_analysis_says_what_is_missing():
    with pytest.raises(RuntimeError, match="registers and occupancy need"):
        ladder_table.analysis(())


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("launcher", "sectors", "passes"),
    # Bytes of the warp's sectors over its 32 multiplications; passes: two reads a multiplication, and two stores by
    # each thread of a tile for its 32 multiplications.
    [("matmul_naive", 33, 0), ("matmul_coalesced", 5, 0), ("matmul_tiled", 2 * 4 / 32, 2 + 2 / 32)],
)
def test_traffic_per_multiplication_is_that_of_a_count_by_hand(launcher, sectors, passes):
    found = analyze_rung(Rung(launcher, "matmul"))
    assert found.global_bytes == pytest.approx(sectors)
    assert found.shared_passes == pytest.approx(passes)
    assert found.conflicts == 1
    assert analysis_row(Rung(launcher, "matmul"), found)[2] == f"{sectors:g}"
