"""The tutorial's quotations stand in the source, and its tables hold what was measured and what the analysis says."""

import importlib.util
import re
import textwrap

import numpy as np
import pytest
from numba import cuda

import refkit.cpu
from refkit.cpu.faults import SanitizerFault
from refkit.cuda_kernels import gemm
from refkit.verify.analysis import toolchain
from refkit.verify.benchmarks import ladder_table
from refkit.verify.benchmarks.ladder import RUNGS, Rung
from refkit.verify.benchmarks.ladder_table import ANALYSIS_HEADER, ROOT, TABLES, analysis_row, pages, shown

PAGES = {page.name: page.read_text() for page in pages()}
TEXT = "\n".join(PAGES.values())
QUOTED = re.compile(r"^`([\w/]+\.py)`:\n```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTATIONS = [(page, *match.groups()) for page, text in PAGES.items() for match in QUOTED.finditer(text)]
TRAFFIC = ANALYSIS_HEADER.index("registers")  # columns before it need no compiler of NVIDIA's


def is_quoted_from(source: str, code: str) -> bool:
    """Whether the lines stand in the source one after another, at any indentation."""
    return any("\n" + textwrap.indent(code, " " * spaces) in source for spaces in range(0, 24, 4))


@pytest.mark.parametrize(("page", "file", "code"), QUOTATIONS, ids=lambda value: str(value)[:40])
def test_a_quotation_stands_in_the_file_that_it_names(page, file, code):
    assert is_quoted_from((ROOT / file).read_text(), code), f"{page} quotes from {file} what is not there:\n{code}"


def test_every_block_of_source_names_its_file():
    assert TEXT.count("```py\n") == len(QUOTATIONS) >= 15


def test_what_is_no_quotation_is_found_out():
    assert is_quoted_from("def f():\n    a = 1\n    b = 2\n", "a = 1\nb = 2\n")
    assert not is_quoted_from("def f():\n    a = 1\n    c = 3\n    b = 2\n", "a = 1\nb = 2\n")
    assert not is_quoted_from("def f():\n    aa = 1\n", "a = 1\n")


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`(cuda_kernels/[\w/]+(?:\.py)?/?)`", TEXT))))
def test_files_that_are_named_exist(file):
    assert (ROOT / file).exists()


def test_every_table_has_its_place():
    assert set(shown(TEXT)) == set(TABLES)


@pytest.mark.parametrize("name", [name for name in TABLES if name.startswith("speeds")])
def test_speeds_are_those_of_the_measurement(name):
    assert shown(TEXT)[name] == TABLES[name]()


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: f"{rung.name} {rung.precision}")
def test_the_analysis_is_that_of_the_kernels(rung):
    from refkit.verify.benchmarks.ladder_analysis import analyze_rung

    row = analysis_row(rung, analyze_rung(rung))
    assert written_row(rung.name, rung.precision)[: len(row)] == row
    assert len(row) == (TRAFFIC if toolchain.missing() else len(ANALYSIS_HEADER))


def written_row(name: str, precision: str) -> tuple[str, ...]:
    """The row of the page's table of the analysis."""
    tables = shown(TEXT)
    lines = (tables["analysis without tensor cores"] + tables["analysis with tensor cores"]).splitlines()
    rows = [tuple(line.strip("| ").split(" | ")) for line in lines]
    (found,) = [row for row in rows if row[:2] == (name, precision)]
    return found


@pytest.mark.parametrize("number", range(1, 9))
def test_the_text_repeats_the_table(number):
    """What a rung's section says of bytes, passes, TFLOP/s and registers is what the table says."""
    section = PAGES["tutorial.md"].split(f"\n## {number}. ")[1].split("\n## ")[0]
    row = dict(zip(ANALYSIS_HEADER, written_row(ladder_table.VECTOR[number - 1].name, "fp32")))
    said = {
        "global bytes": re.findall(r"multiplication: ([\d.]+) bytes", section),
        "shared passes": re.findall(r"([\d.]+) passes[^.;]*, which allows", section),
        "TFLOP/s at most": re.findall(r"allows (\d+) TFLOP/s", section),
        "registers": re.findall(r"^\* (\d+) registers", section, re.MULTILINE) or re.findall(r"\((\d+) now\)", section),
    }
    assert said["registers"]
    for column, values in said.items():
        for value in values:
            places = len(value.partition(".")[2])
            assert value == f"{float(row[column]):.{places}f}", (column, section)


@pytest.mark.cpu
@pytest.mark.parametrize("barrier", [0, 1], ids=["before the product", "after it"])
def test_either_barrier_of_the_tiled_rung_is_missed(barrier, tmp_path):
    """The page says that the race sanitizer names the line where one of the two is left out."""
    source = (ROOT / "cuda_kernels/gemm/tiled.py").read_text().replace("from ..", "from refkit.cuda_kernels.")
    source = source.replace("from .epilogues", "from refkit.cuda_kernels.gemm.epilogues")
    pieces = source.split("cuda.syncthreads()")
    assert len(pieces) == 3
    path = tmp_path / f"without_barrier_{barrier}.py"
    kept = ["cuda.syncthreads()"] * 2
    kept[barrier] = "pass"
    path.write_text(pieces[0] + kept[0] + pieces[1] + kept[1] + pieces[2])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a = np.ones((32, 32), np.float32)
    with refkit.cpu.emulate(sanitize=("race",)):
        x, c = cuda.to_device(a), cuda.to_device(np.zeros_like(a))
        with pytest.raises(SanitizerFault, match="race") as found:
            module.launch_tiled_gemm(gemm.fused(), x, x, c, 8)
    line = path.read_text().splitlines()[found.value.line - 1]
    assert "_tile[" in line


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.skipif(bool(toolchain.missing()), reason=toolchain.missing())
def test_spills_that_are_named_are_those_of_the_compiler():
    from refkit.verify.benchmarks import matmul_mma
    from refkit.verify.benchmarks.ladder_analysis import analyze_rung

    words = PAGES["tutorial_tensor_cores.md"].split("And two things")[1]
    cp_async = Rung("matmul_mma_cp_async", "matmul_mma", "bf16", matmul_mma.TILES["bf16"])
    spilled = [analyze_rung(cp_async).resources.spill_bytes]
    for launcher in ("matmul_warp_tiled", "matmul_register_tiled"):
        bounded = analyze_rung(Rung(launcher, "matmul")).resources.bounded
        assert bounded.launch_bounds == (256, 2)
        spilled.append(bounded.spill_bytes)
    assert [f"{count:,}" for count in spilled] == re.findall(r"([\d,]+)\s+bytes(?!\s+and)", words)[:3]


def test_what_is_said_of_the_numbers_holds():
    """The comparisons of both pages' sections "What the numbers say"."""
    rows = {row["name"].removeprefix("matmul_"): row for row in ladder_table.measured("ladder.json")}
    rate = {name: row["rate"] for name, row in rows.items()}
    of_cublas = {name: row["ratio"] for name, row in rows.items()}
    assert rate["vectorized fp32 NN"] > rate["warp_tiled fp32 NN"] > rate["double_buffered fp32 NN"]
    assert rate["vectorized fp32 NN"] > 4 * rate["register_tiled fp32 NN"]
    for name in ("tiled", "register_tiled"):
        assert 0.2 < rate[f"{name} fp32 NN"] / float(written_row(name, "fp32")[4]) < 0.3
    assert 1.15 < rate["double_buffered bf16 NN"] / rate["double_buffered fp32 NN"] < 1.25
    assert 28 < 1 / of_cublas["double_buffered bf16 NN"] < 35
    assert 0.5 < of_cublas["vectorized fp32 NN"] < 0.6
    assert rate["mma_ldmatrix bf16 NN"] > 3 * rate["mma_cp_async bf16 NN"]
    assert rate["mma_cp_async bf16 NN"] > rate["mma_lane_major bf16 NN"]
    assert of_cublas["mma_ldmatrix bf16 NN"] < 0.6


def test_what_is_said_of_wgmma_holds():
    def shares(kind, size, cases):
        names = [f"matmul_wgmma {kind} {case}" for case in cases]
        rows = ladder_table.measured("wgmma.json")
        return [row["ratio"] for row in rows if row["name"] in names and row["shape"].startswith(size)]

    every = ("NN", "NT", "TN", "TT")
    assert {f"{share:.2f}" for share in shares("bf16", "4096", every)} == {"0.88"}
    assert all(0.915 <= share < 0.94 for share in shares("bf16", "8192", every))
    assert all(0.79 < share < 0.82 for share in shares("tf32", "4096", ("NN", "NT", "TT")))
    assert all(0.885 <= share < 0.915 for share in shares("tf32", "8192", ("NN", "NT", "TT")))
    assert min(shares("tf32", "4096", ("TN",)) + shares("tf32", "8192", ("TN",))) > 0.9
    assert [f"{share:.2f}" for size in ("4096", "8192") for share in shares("e4m3", size, ("NT",))] == ["0.78", "0.83"]
