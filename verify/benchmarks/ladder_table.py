"""The tables of the tutorial, from what was measured and from the analysis.

    python -m refkit.verify.benchmarks.ladder_table            prints those of the measurements
    python -m refkit.verify.benchmarks.ladder_table --write    writes them into the tutorial
    ... --analysis [--write]                                   the analysis as well (minutes; NVIDIA's compilers)

A table stands between `<!-- ladder: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from refkit.verify.benchmarks.ladder import RUNGS, Rung

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "reports" / "gallery" / "h200-2026-11-30"
VECTOR = tuple(rung for rung in RUNGS if rung.module == "matmul")
TENSOR = tuple(
    rung for precision in ("bf16", "tf32") for rung in RUNGS if rung.module != "matmul" and rung.precision == precision
)
_MARKED = re.compile(r"(<!-- ladder: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """The tutorial's pages."""
    return sorted((ROOT / "docs").glob("tutorial*.md"))


def measured(file: str) -> list[dict[str, Any]]:
    """The rows of a benchmark's JSON of the run that the tutorial shows."""
    found: list[dict[str, Any]] = json.loads((RUN / file).read_text())["rows"]
    return found


def digits(value: float) -> str:
    """A positive number with three significant digits, whole where it has more."""
    places = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{places}f}"


def markdown(header: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table whose columns are right-aligned, but for the first."""
    lines = [header, (":--", *("--:",) * (len(header) - 1)), *body]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def speeds(rungs: tuple[Rung, ...], rows: list[dict[str, Any]]) -> str:
    """Speed of each rung beside cuBLAS, in the order of the ladder; rows: of `bench ladder`."""
    by_name = {row["name"]: row for row in rows}
    found = [(rung, by_name[f"{rung.launcher} {rung.precision} NN"]) for rung in rungs]
    return markdown(
        ("rung", "precision", "ms", "TFLOP/s", "cuBLAS", "of cuBLAS", "SM clock, MHz"),
        [(rung.name, rung.precision, *_speed(row)) for rung, row in found],
    )


def wgmma_speeds(rows: list[dict[str, Any]]) -> str:
    """Speed of each format, orientation and size; rows: of `bench matmul_wgmma`."""
    return markdown(
        ("format", "operands", "size", "ms", "TFLOP/s", "cuBLAS", "of cuBLAS", "SM clock, MHz"),
        [(*row["name"].split()[1:], row["shape"].split("x")[0], *_speed(row)) for row in rows],
    )


def _speed(row: dict[str, Any]) -> tuple[str, ...]:
    clocks = {row["clock_before"], row["clock_after"]}
    clock = " to ".join(f"{each:,.0f}" for each in sorted(clocks))
    return (
        digits(row["median_us"] / 1e3),
        digits(row["rate"]),
        digits(row["peer_rate"]),
        f"{row['ratio']:.1%}".replace("%", " %"),
        clock,
    )


def analysis_row(rung: Rung, analysis: Any) -> tuple[str, ...]:
    """Traffic of a rung, and where the compilers are installed what it needs."""
    traffic = (
        f"{analysis.global_bytes:.4f}".rstrip("0").rstrip(".") if analysis.global_bytes else "–",
        f"{analysis.shared_passes:.3f}" if analysis.shared_passes else "–",
        digits(analysis.shared_limit) if analysis.shared_limit else "–",
        f"{analysis.conflicts:.1f}" if analysis.shared_passes else "–",
    )
    made = analysis.resources
    if made is None:
        return rung.name, rung.precision, *traffic
    occupancy = f"{made.occupancy.fraction:.0%}".replace("%", " %")
    needs = str(made.registers), str(made.spill_bytes), f"{made.shared_bytes / 1024:.1f}", str(made.occupancy.blocks)
    return rung.name, rung.precision, *traffic, *needs, occupancy


ANALYSIS_HEADER = (
    "rung",
    "precision",
    "global bytes",
    "shared passes",
    "TFLOP/s at most",
    "conflicts",
    "registers",
    "spilled bytes",
    "shared KB",
    "blocks per SM",
    "occupancy",
)


def analysis(rungs: tuple[Rung, ...]) -> str:
    """The table of the analysis. Raises RuntimeError where NVIDIA's compilers are not installed."""
    from refkit.verify.analysis import toolchain
    from refkit.verify.benchmarks.ladder_analysis import analyze_rung

    if toolchain.missing():
        raise RuntimeError(toolchain.missing())
    return markdown(ANALYSIS_HEADER, [analysis_row(rung, analyze_rung(rung)) for rung in rungs])


TABLES: dict[str, Callable[[], str]] = {
    "speeds without tensor cores": lambda: speeds(VECTOR, measured("ladder.json")),
    "speeds with tensor cores": lambda: speeds(TENSOR, measured("ladder.json")),
    "speeds of wgmma": lambda: wgmma_speeds(measured("wgmma.json")),
    "analysis without tensor cores": lambda: analysis(VECTOR),
    "analysis with tensor cores": lambda: analysis(TENSOR),
}


def shown(text: str) -> dict[str, str]:
    """The tables of a page, by name."""
    return {match.group(2): match.group(3) for match in _MARKED.finditer(text)}


def rewritten(text: str, tables: dict[str, str]) -> str:
    """A page whose marked tables are those of `tables`; others stay."""
    return _MARKED.sub(lambda match: match.group(1) + tables.get(match.group(2), match.group(3)) + match.group(4), text)


def main() -> None:
    """Prints or writes the tables."""
    parser = argparse.ArgumentParser(prog="refkit.verify.benchmarks.ladder_table", description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the tutorial's pages")
    parser.add_argument("--analysis", action="store_true", help="make those of the analysis as well")
    arguments = parser.parse_args()
    wanted = [name for name in TABLES if arguments.analysis or not name.startswith("analysis")]
    made = {}
    for name in wanted:
        try:
            made[name] = TABLES[name]()
            print(f"{name}\n\n{made[name]}")
        except FileNotFoundError as error:
            print(f"{name}: left as it is, there is no {error.filename}\n")
    if arguments.write:
        for page in pages():
            page.write_text(rewritten(page.read_text(), made))


if __name__ == "__main__":
    main()
