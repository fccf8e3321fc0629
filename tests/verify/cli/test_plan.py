"""`plan`: what the terminal shows, what the JSON holds, and wrong calls."""

import json
import re
import shlex
from pathlib import Path

import pytest

from refkit.verify.__main__ import main
from tests.test_docs import matches

PAGE = Path(__file__).parents[3] / "docs" / "planner.md"

LINEAR = ["plan", "linear", "-T", "8192", "-K", "4096", "-N", "14336"]
LAYERS = {
    "linear": LINEAR[2:],
    "attention": ["-B", "4", "-H", "32", "-L", "4096", "-D", "128", "--causal"],
    "swiglu": ["-T", "8192", "-K", "768", "-I", "9216"],
    "cross_entropy": ["-T", "8192", "-V", "128256"],
    "occupancy": ["--registers", "142", "--threads", "256"],
}


def line(printed, label):
    """The values of the first line that begins with a label."""
    (found,) = [each for each in printed.splitlines() if each.startswith(f"  {label}  ")][:1]
    return found[len(label) + 2 :].split("  ")


def test_a_linear_layer_shows_the_worked_example(capsys):
    assert main([*LINEAR, "--tflops", "490"]) == 0
    printed = capsys.readouterr().out
    assert "Three products of 0.962 TFLOP each, 2.886 TFLOP in all: 5.89 ms at 490 TFLOP/s." in printed
    assert [value.strip() for value in line(printed, "output tiles") if value] == ["7,168", "2,048", "3,584"]
    assert "given: tflops" in printed
    assert "2 · m · n · k" not in printed


def test_formulas_on_demand(capsys):
    assert main([*LINEAR, "--formulas"]) == 0
    printed = capsys.readouterr().out
    assert "FLOPs: 2 · m · n · k = 2 · 4,096 · 14,336 · 8,192 = 0.962 TFLOP" in printed
    assert "slices of k" in printed


@pytest.mark.parametrize("layer", LAYERS)
def test_every_number_that_is_printed_is_in_the_json(layer, tmp_path, capsys):
    file = tmp_path / "plan.json"
    assert main(["plan", layer, *LAYERS[layer], "--formulas", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    data = json.loads(file.read_text())
    assert {"schema", "refkit", "gemms", "ledger", "operator", "device", "inputs"} <= set(data)
    assert data["operator"] == layer
    rows = [row for table in ("gemms", "ledger", "ways", "totals", "blocks") for row in data[table]]
    known = {value for row in rows for value in row["shown"].values()}
    tables = printed[: printed.index("\nFormulas")]
    cells = [
        cell for each in tables.splitlines() if each.startswith("  ") and ": " not in each for cell in each.split("  ")
    ]
    numbers = [cell.strip() for cell in cells if re.match(r"\d", cell.strip())]
    assert len(numbers) > 5
    assert set(numbers) <= known


def test_the_json_of_a_linear_layer(tmp_path, capsys):
    file = tmp_path / "plan.json"
    assert main([*LINEAR, "--dtype", "bf16", "--device", "h100", "--json", str(file)]) == 0
    data = json.loads(file.read_text())
    forward, dx, dw = data["gemms"]
    assert [gemm["name"] for gemm in data["gemms"]] == ["forward", "dX", "dW"]
    assert dw["flops"] == 2 * 8192 * 4096 * 14_336
    assert dw["tiles"] == 3584
    assert forward["formulas"]["flops"] == "2 · m · n · k"
    assert dx["with_numbers"]["tiles"] == "⌈8,192 / 128⌉ · ⌈4,096 / 128⌉"
    assert data["dtype"] == "bfloat16"
    assert (data["device"]["rate"], data["device"]["bandwidth"]) == (989.4e12, 3.35e12)
    assert [row["name"] for row in data["ledger"]] == ["x", "y", "transposes", "accumulator"]


def test_rates_by_hand_need_no_device(tmp_path, capsys):
    file = tmp_path / "plan.json"
    options = ["--dtype", "float8", "--tflops", "11.1", "--bandwidth", "256", "--sms", "36"]
    assert main([*LINEAR, *options, "--device", "a100", "--json", str(file)]) == 0
    data = json.loads(file.read_text())
    (machine,) = (row for row in data["totals"] if row["name"] == "machine")
    assert machine["ridge"] == 11.1e12 / 256e9
    assert data["device"]["given"] == {"tflops": 11.1, "bandwidth": 256.0, "multiprocessors": 36}


def test_devices_are_listed_with_their_sources(capsys):
    assert main(["plan", "devices"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"h200-measured .* 132 +4,230 +141 +50.7 +370 +789 +789 +1,329", printed)
    assert "rtx4070-laptop: 36 SMs" in printed


def test_the_page_is_written(tmp_path, capsys):
    file = tmp_path / "planner.html"
    assert main(["plan", "page", str(file)]) == 0
    assert file.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan"], "required: LAYER"),
        (["plan", "conv"], "invalid choice: 'conv'"),
        (["plan", "linear", "-T", "8"], "required: -K, -N"),
        ([*LINEAR, "--dtype", "int8"], "invalid choice: 'int8'"),
        ([*LINEAR, "--device", "h300"], "invalid choice: 'h300'"),
        ([*LINEAR, "--tflops", "-1"], "-1; expected a positive number"),
        ([*LINEAR, "--tflops", "fast"], "'fast' is not a number"),
        (["plan", "linear", "-T", "8.5", "-K", "1", "-N", "1"], "'8.5' is not a whole number"),
        (["plan", "linear", "-T", "-8", "-K", "1", "-N", "1"], "-8 is negative"),
        (["plan", "linear", "-T", "0", "-K", "1", "-N", "1"], "T=0; expected at least 1"),
        ([*LINEAR, "--dtype", "fp8", "--device", "t4"], "t4 has no rate for float8 (it has float32, float16)"),
        ([*LINEAR, "--json", "/nowhere/plan.json"], "there is no folder /nowhere"),
        (["plan", "page", "/nowhere/planner.html"], "there is no folder /nowhere"),
    ],
)
def test_wrong_calls_are_one_line_with_status_2(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_traceback_is_taken_after_the_layer_too(capsys):
    assert main([*LINEAR, "--device", "t4", "--traceback"]) == 2
    assert "Traceback" in capsys.readouterr().err


def commands_of_the_documentation():
    """Every command of docs/planner.md, with the text that is said to follow it where one does."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for index, (language, block) in enumerate(blocks):
        if language != "sh":
            continue
        after = blocks[index + 1] if index + 1 < len(blocks) else ("", "")
        lines = block.strip().splitlines()
        for each in lines:
            yield each, after[1] if after[0] == "text" and len(lines) == 1 else None


@pytest.mark.parametrize(("command", "expected"), list(commands_of_the_documentation()))
def test_the_commands_of_the_documentation_run_and_print_what_it_says(command, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command, comments=True)
    assert words[:3] == ["python", "-m", "refkit.verify"]
    assert main(words[3:]) == 0
    printed = capsys.readouterr().out
    if expected is not None:
        assert matches(expected, printed), printed


def test_the_documentation_shows_two_outputs_and_names_every_layer():
    commands = list(commands_of_the_documentation())
    assert sum(expected is not None for _, expected in commands) == 2
    assert {command.split()[4] for command, _ in commands} == {*LAYERS, "devices", "page"}
