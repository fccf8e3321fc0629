"""The page: figures drawn, templates filled, files written."""

from __future__ import annotations

import math
import os
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from refkit.reports import values
from refkit.reports.fragments import fragment_figure
from refkit.reports.model import CaseView, CheckView, KernelView, RunView
from refkit.reports.planner_page import planner_section
from refkit.reports.reading import read_run
from refkit.reports.sheet import FigureView, draw_kernel, view_of
from refkit.reports.wording import flags, headline, kernel_facts, run_facts

WORST_CASES = 6


def write(run: dict[str, Any], directory: str | os.PathLike[str]) -> Path:
    """Writes the report of a run and returns the path of its `index.html`.

    `run` is the JSON object of `--json` (contract 1; further fields in docs/design/report_data.md). `directory` is made
    where it does not exist; in it are written `index.html`, which needs neither network nor any other file, and PNG
    files: one sheet per kernel that holds, one file per figure for the others. Files of the same names are replaced,
    others left alone. Raises ReportError where `run` is not a run and OSError where the directory cannot be written.
    """
    view = read_run(run)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    figures = {kernel.slug: draw_kernel(kernel, folder) for kernel in view.kernels}
    html = (
        environment()
        .get_template("index.html")
        .render(
            run=view,
            headline=headline(view),
            facts=run_facts(view),
            kernel_facts=kernel_facts,
            figures=figures,
            flagged=[(kernel, found) for kernel in view.kernels if (found := flags(kernel))],
            layouts=draw_layouts(view),
            planner=planner_section(),
            worst_cases={kernel.slug: _worst_cases(kernel) for kernel in view.failing},
            operators=sorted({kernel.operator for kernel in view.kernels if kernel.operator}),
            statuses=list(view.counts),
        )
    )
    return replace_file(folder / "index.html", html)


@dataclass(frozen=True)
class LayoutView:
    """A fragment layout drawn, and every instruction and operand of the run that has it."""

    figure: FigureView
    names: tuple[str, ...]
    kernels: tuple[str, ...]


def draw_layouts(run: RunView) -> list[LayoutView]:
    """The fragments of the warp-matrix instructions of all kernels, each layout once."""
    users: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for kernel in run.kernels:
        for fragment in kernel.analysis.fragments if kernel.analysis else ():
            names = users.setdefault(fragment.map, {})
            names.setdefault(f"{fragment.name} {fragment.operand}", []).append(kernel.name)
    views = []
    for lines, names in users.items():
        first = next(iter(names))
        drawing = fragment_figure(first, first.rsplit(" ", 1)[-1].lower(), lines)
        kernels = dict.fromkeys(kernel for each in names.values() for kernel in each)
        views.append(LayoutView(view_of(drawing), tuple(names), tuple(kernels)))
    return sorted(views, key=lambda view: view.names)


def _worst_cases(kernel: KernelView) -> list[tuple[CheckView, CaseView]]:
    measured = [(check, case) for check in kernel.checks for case in check.cases_data if case.ratio is not None]
    return sorted(measured, key=lambda pair: values.severity(pair[1].ratio), reverse=True)[:WORST_CASES]


@cache
def environment() -> Environment:
    """The templates, with the filters that show numbers and names."""
    made = Environment(
        loader=PackageLoader("refkit.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        breakable=_breakable,
        plain=values.plain,
        ratio=values.ratio,
        exact=values.exact,
        seconds=values.seconds,
        text=values.text,
        rank=_rank,
        bar=_bar,
    )
    made.globals.update(counted=values.counted, exceeds=values.exceeds)
    return made


def _breakable(name: str) -> Markup:
    """`name` escaped, with a line break allowed after each underscore and dot."""
    return Markup(re.sub(r"([_.])", r"\1<wbr>", str(escape(name))))


def _rank(ratio: float | None) -> str:
    """A finite number that sorts as the ratio does: -1 for none, 1e308 for infinity, 1.1e308 for NaN."""
    if ratio is None:
        return "-1"
    if ratio != ratio:
        return "1.1e308"
    return repr(min(abs(ratio), 1e308))


def _bar(ratio: float | None) -> str:
    """The length of the ratio's bar in percent: 1e-4 and less is 0, 1 is 80, 10 and more is 100."""
    if ratio is None or ratio == 0:
        return "0"
    if not abs(ratio) <= 10:
        return "100"
    return f"{max(0.0, 80 + 20 * math.log10(abs(ratio))):.0f}"


def replace_file(path: Path, content: str) -> Path:
    """Writes a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".index-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
