"""The file of contract 2 passes as it stands; broken in seven ways the right check fails, with a case that replays."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cpu, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

SHARED_VERSION = """
import numpy as np
from numba import cuda, float32
from refkit.verify import Dim, In, KernelSpec, Out

@cuda.jit
def scale_rows_kernel(x, s, y):
    scale = cuda.shared.array(1, float32)
    row = cuda.blockIdx.x
    if cuda.threadIdx.x == cuda.blockDim.x - 1:
        scale[0] = s[row]
    cuda.syncthreads()
    for col in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[row, col] = x[row, col] * scale[0]

def scale_rows(x, s, y):
    scale_rows_kernel[x.shape[0], 128](x, s, y)

R, C = Dim("R"), Dim("C")

scale_rows_spec = KernelSpec(
    launch=scale_rows,
    reference=lambda x, s: x * s[:, None],
    args=dict(x=In(R, C), s=In(R), y=Out(R, C)),
)
"""


def contract_file() -> str:
    """The example of the README, which is that of contract 2."""
    start = r"```python\n(import numpy as np\nfrom numba import cuda\nfrom refkit.verify .*?)```"
    (code,) = re.findall(start, README.read_text(), re.S)
    return code


def refkit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a folder."""
    command = [sys.executable, "-m", "refkit.verify", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    options = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(command, check=False, **options)


def test_the_contract_file_passes_verbatim(tmp_path: Path) -> None:
    (tmp_path / "scale_rows.py").write_text(contract_file())
    result = refkit(tmp_path, "fuzz", "scale_rows.py", "--no-progress")
    assert result.returncode == 0, result.stdout + result.stderr


# what is replaced, by what, the checks that may name it, and the largest dims that a shrunk case may have
BROKEN = {
    "loop stops one column early": (
        "x.shape[1], cuda",
        "x.shape[1] - 1, cuda",
        {"every_output_written", "accuracy"},
        2,
    ),
    "writes one past the end": (
        "    for col",
        "    if row == x.shape[0] - 1 and cuda.threadIdx.x == 0:\n        y[row + 1, 0] = x[row, 0]\n    for col",
        {"guard_bands", "sanitizers"},
        2,
    ),
    "reads the next row's scale": ("s[row]", "s[row + 1]", {"accuracy", "sanitizers"}, 2),
    "ignores the last row": (
        "[x.shape[0], 128]",
        "[max(x.shape[0] - 1, 1), 128]",
        {"every_output_written", "accuracy"},
        3,
    ),
    "writes into x": (
        "        y[row, col] =",
        "        x[row, col] = 0\n        y[row, col] =",
        {"inputs_unchanged", "accuracy"},
        2,
    ),
    "adds instead of assigns": ("y[row, col] =", "y[row, col] +=", {"accuracy", "second_launch"}, 2),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_each_fault_is_found_shrunk_and_replayed(fault: str, tmp_path: Path) -> None:
    old, new, checks, largest = BROKEN[fault]
    source = contract_file()
    assert source.count(old) == 1
    expect_failure(tmp_path, source.replace(old, new), checks, largest)


def test_a_missing_syncthreads_is_found(tmp_path: Path) -> None:
    (tmp_path / "scale_rows.py").write_text(SHARED_VERSION)
    assert refkit(tmp_path, "fuzz", "scale_rows.py", "--no-progress").returncode == 0
    source = SHARED_VERSION.replace("    cuda.syncthreads()\n", "")
    expect_failure(tmp_path, source, {"determinism", "sanitizers"}, 2)


def expect_failure(folder: Path, source: str, checks: set[str], largest: int) -> None:
    """The file fails with one of the checks and a small case; replay reproduces it, and says so when it is mended."""
    target = folder / "scale_rows.py"
    target.write_text(source)
    result = refkit(folder, "fuzz", "scale_rows.py", "--no-progress", "--json", "out.json")
    assert result.returncode == 1, result.stdout + result.stderr
    (kernel,) = json.loads((folder / "out.json").read_text())["kernels"]
    failed = {check["name"]: check for check in kernel["checks"] if check["status"] == "failed"}
    named = checks & set(failed)
    assert named, (checks, failed)
    case_file = failed[sorted(named)[0]]["case_file"]
    case = json.loads((folder / case_file).read_text())
    dims = case["case"]["dims"]
    assert max(dims.values()) <= largest, dims
    assert refkit(folder, "replay", case_file).returncode == 1
    target.write_text(contract_file())
    assert refkit(folder, "replay", case_file).returncode == 0
