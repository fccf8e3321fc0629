"""`bench`: rows with a ratio to a peer of the same call, wrong calls, and benchmarks that cannot run here."""

import json

import numpy as np
import pytest

from refkit.verify import benchmarks
from refkit.verify.__main__ import main
from refkit.verify.benchmarks import cpu, gemm_shape, pocl, sanitizers

pytestmark = pytest.mark.cpu


def test_cpu_measures_the_executor_beside_the_simulator(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cpu, "SIZE", 128)
    monkeypatch.setattr(cpu, "SIMULATOR_SHAPE", (16, 16, 8))
    monkeypatch.setattr(pocl, "missing", lambda: "not asked for")
    assert main(["bench", "cpu", "--json", str(tmp_path / "b.json"), "--no-progress"]) == 0
    (row,) = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert {"name", "shape", "peer", "median_us", "ratio", "clock_before", "clock_after", "pinned"} <= set(row)
    assert row["ratio"] == pytest.approx(row["rate"] / row["peer_rate"])
    assert row["ratio"] > 100
    assert row["notes"]["error_ratio"] <= 1
    assert "Numba's simulator" in capsys.readouterr().out


def test_sanitizers_are_measured_against_the_same_kernel(monkeypatch, capsys):
    monkeypatch.setattr(sanitizers, "GEMM_SIZE", 128)
    monkeypatch.setattr(sanitizers, "REPEATS", 1)
    from refkit.verify import discovery

    spec = discovery.shipped()["linear_db"]
    monkeypatch.setattr(discovery, "shipped", lambda: {"linear_db": spec})
    rows = list(sanitizers.rows(lambda text: None))
    assert [row.name for row in rows] == ["register_tiled_gemm", "linear_db", "median of the library"]
    assert all(0 < row.ratio < 1 for row in rows[:2])
    assert rows[2].ratio == rows[1].ratio


def test_an_unknown_benchmark_is_a_wrong_call(capsys):
    assert main(["bench", "nothing"]) == 2
    assert "no such benchmark" in capsys.readouterr().err


def test_one_that_cannot_run_here_says_why(monkeypatch, capsys):
    class Missing:
        @staticmethod
        def missing():
            return "no such card"

    monkeypatch.setattr(benchmarks, "available", lambda: {"other": Missing})
    assert main(["bench", "other"]) == 3
    assert "no such card" in capsys.readouterr().err


def test_a_wrong_product_has_no_speed():
    a, b = gemm_shape.operands(8, 8, 8)
    with pytest.raises(AssertionError, match="wrong"):
        gemm_shape.check(a, b, np.zeros((8, 8), np.float32))
    assert gemm_shape.check(a, b, a @ b) <= 1
