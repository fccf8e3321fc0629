"""`analyze` from the outside."""

import json
import textwrap
from pathlib import Path

import pytest

from refkit.planner.occupancy import Cliff, Occupancy
from refkit.verify.__main__ import main
from refkit.verify.analysis import toolchain
from refkit.verify.analysis.resources import Bounded, Resources
from refkit.verify.cli import analysis_table

pytestmark = pytest.mark.cpu

TRANSPOSE = """
    from numba import cuda, float32
    from refkit.verify import Dim, In, KernelSpec, Out

    @cuda.jit
    def transpose_kernel(x, y):
        tile = cuda.shared.array((32, PITCH), float32)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        i, j = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32
        if j + row < x.shape[0] and i + column < x.shape[1]:
            tile[row, column] = x[j + row, i + column]
        cuda.syncthreads()
        if i + row < x.shape[1] and j + column < x.shape[0]:
            y[i + row, j + column] = tile[column, row]  # the column of a tile

    def transpose(x, y):
        transpose_kernel[(-(-x.shape[1] // 32), -(-x.shape[0] // 32)), (32, 32)](x, y)

    R, C = Dim("R"), Dim("C")
    transpose_spec = KernelSpec(launch=transpose, reference=lambda x: x.T, args=dict(x=In(R, C), y=Out(C, R)))
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(toolchain, "missing", lambda: "registers and occupancy need ptxas")

    def write(pitch, *changes):
        text = textwrap.dedent(TRANSPOSE).replace("PITCH", str(pitch))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / f"transpose_{pitch}.py"
        path.write_text(text)
        return str(path)

    return write


def test_bank_conflicts_are_shown_with_their_line_and_the_missing_tools_in_one(file, tmp_path, capsys):
    path = file(32)
    assert main(["analyze", path, "--json", str(tmp_path / "out.json")]) == 0
    shown = capsys.readouterr().out
    (row,) = [
        line for line in shown.splitlines() if "bank conflicts" in line and ":" in line and "kernels;" not in line
    ]
    number = next(
        n for n, line in enumerate(Path(path).read_text().splitlines(), 1) if "# the column of a tile" in line
    )
    assert f"transpose_32.py:{number}" in row
    assert "32.0" in row
    assert shown.splitlines()[-1] == "registers and occupancy need ptxas"
    assert "1 kernel; 0 lines uncoalesced; 1 with bank conflicts" in shown
    data = json.loads((tmp_path / "out.json").read_text())
    (kernel,) = data["kernels"]
    assert kernel["name"] == "transpose"
    worst = kernel["lines"][0]
    assert (worst["line"], worst["problem"], worst["passes"], worst["space"]) == (
        number,
        "bank conflicts",
        32,
        "shared",
    )
    assert data["missing"] == "registers and occupancy need ptxas"


def test_padded_rows_are_clean(file, capsys):
    assert main(["analyze", file(33)]) == 0
    assert "0 lines uncoalesced; 0 with bank conflicts" in capsys.readouterr().out


def test_a_kernel_that_does_not_run_is_told_and_ends_with_1(file, capsys):
    broken = file(33, ("transpose_kernel[(-", "undefined_name[(-"))
    assert main(["analyze", broken]) == 1
    assert "did not run:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--arch", "60"], "'60' is not an architecture; known are 75, 80"),
        (["-k", "nothing"], "matches none"),
        (["--json", "no/such/folder/x.json"], "there is no folder"),
    ],
)
def test_wrong_calls_are_one_line(file, capsys, arguments, told):
    try:
        status = main(["analyze", file(33), *arguments])
    except SystemExit as left:
        status = left.code
    captured = capsys.readouterr()
    assert status == 2
    assert told in captured.err
    assert captured.err.count("\n") == 1


def test_shipped_kernels_are_selected_by_keywords(file, capsys):
    assert main(["analyze", "shipped", "-k", "linear_db_naive"]) == 0
    shown = capsys.readouterr().out
    assert "linear_db_naive" in shown
    assert "1 kernel;" in shown


def test_the_nearest_cliff_and_what_launch_bounds_give_stand_in_the_table():
    now = Occupancy(1, 8, 64, ("registers",), {"registers": 1})
    bounded = Bounded((256, 2), 128, 12, 2)
    each = Resources("k", (9, 0), 256, 142, 0, 0, 0, now, Cliff(128, 2), bounded, bounded)
    free = Resources("free", (9, 0), 64, 40, 0, 0, 0, now, None, None, Bounded((256, 2), 40, 0, 24))
    grown = Resources("grown", (9, 0), 64, 40, 0, 0, 0, now, None, None, Bounded((256, 2), 56, 0, 16))
    wanted = "128 registers would give 2; launch_bounds=(256, 2): 128 registers, 12 B of spills, 2 blocks"
    assert analysis_table._advice(each) == wanted
    assert analysis_table._advice(free) == ""
    assert analysis_table._advice(grown) == "launch_bounds=(256, 2): 56 registers, 16 blocks"
