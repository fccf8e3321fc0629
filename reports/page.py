"""The page: figures drawn, templates filled, files written."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from refkit.reports import values
from refkit.reports.drawing import Drawing, to_png, to_svg
from refkit.reports.figures import coverage_figure, errors_figure, position_figure
from refkit.reports.model import CaseView, CheckView, KernelView, RunView
from refkit.reports.reading import read_run, slug

VERDICT_WORDS = {
    "passed": "passed",
    "failed": "failed",
    "mistrusted": "mistrusted",
    "error": "error",
    "skipped": "skipped",
}


@dataclass(frozen=True)
class FigureView:
    """A drawn figure as the template shows it."""

    svg: Markup
    alt: str
    caption: str
    width: int
    file: str


def write(run: dict[str, Any], directory: str | os.PathLike[str]) -> Path:
    """Writes the report of a run and returns the path of its `index.html`.

    `run` is the JSON object of `--json` (contract 1; further fields in docs/design/report_data.md). `directory` is made
    where it does not exist; in it are written `index.html`, which needs neither network nor any other file, and one PNG
    per figure. Files of the same names are replaced, others left alone. Raises ReportError where `run` is not a run and
    OSError where the directory cannot be written.
    """
    view = read_run(run)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    figures = {kernel.slug: list(_draw(kernel, folder)) for kernel in view.kernels}
    html = (
        _environment()
        .get_template("index.html")
        .render(
            run=view,
            headline=headline(view),
            facts=facts(view),
            figures=figures,
            worst_cases={kernel.slug: _worst_cases(kernel) for kernel in view.failing},
            operators=sorted({kernel.operator for kernel in view.kernels if kernel.operator}),
            statuses=list(view.counts),
        )
    )
    return _replace(folder / "index.html", html)


def headline(run: RunView) -> str:
    """The verdict in one line."""
    total = len(run.kernels)
    skipped = run.counts.get("skipped", 0)
    if not total:
        return "No kernel was verified"
    if not run.failing:
        held = total - skipped
        line = (
            f"{'All ' if held > 1 else ''}{values.counted(held, 'kernel')} passed"
            if held
            else "Every kernel was skipped"
        )
        return line + (f", {skipped:,} skipped" if skipped and held else "")
    words = {"failed": "failed", "error": "ended in an error", "mistrusted": "cannot be trusted"}
    parts = [f"{run.counts[status]:,} {word}" for status, word in words.items() if run.counts.get(status)]
    others = len(run.failing) - sum(run.counts.get(status, 0) for status in words)
    parts += [f"{others:,} of unknown status"] if others else []
    return f"Of {values.counted(total, 'kernel')}, {' and '.join(parts) if len(parts) < 3 else ', '.join(parts)}"


def facts(run: RunView) -> list[tuple[str, str]]:
    """What stands under the verdict: sizes of the run and how it was started."""
    pairs = [
        ("checks", f"{run.checks:,}"),
        ("cases", f"{run.cases:,}"),
        ("time", values.seconds(run.seconds) if run.seconds is not None else ""),
        ("backend", run.backend),
        ("profile", run.profile),
        ("seed", run.seed),
        ("refkit", run.refkit),
        ("command", run.command),
    ]
    return [(name, value) for name, value in pairs if value]


def _draw(kernel: KernelView, folder: Path) -> Iterator[FigureView]:
    drawings: list[tuple[str, Drawing | None]] = [
        ("errors", errors_figure(kernel)),
        ("coverage", coverage_figure(kernel)),
    ]
    mapped = [check for check in kernel.checks if check.worst is not None and check.worst.map is not None]
    if not kernel.fails:
        mapped = sorted(mapped, key=lambda check: values.severity(check.worst_ratio))[-1:]
    elif kernel.failing_checks:
        mapped = [check for check in mapped if check.fails]
    for check in mapped:
        assert check.worst is not None
        drawings.append(
            (
                f"{slug(check.name)}-position",
                position_figure(check.name, check.worst, highest=240 if kernel.fails else 96),
            )
        )
    for name, drawing in drawings:
        if drawing is not None:
            file = f"{kernel.slug}-{name}.png"
            to_png(drawing, folder / file)
            yield FigureView(Markup(to_svg(drawing)), drawing.alt, drawing.caption, drawing.width, file)


def _worst_cases(kernel: KernelView, most: int = 6) -> list[tuple[CheckView, CaseView]]:
    measured = [(check, case) for check in kernel.checks for case in check.cases_data if case.ratio is not None]
    return sorted(measured, key=lambda pair: values.severity(pair[1].ratio), reverse=True)[:most]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("refkit.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        breakable=_breakable,
        plain=values.plain,
        ratio=values.ratio,
        exact=values.exact,
        seconds=values.seconds,
        text=values.text,
        word=_word,
        rank=_rank,
        bar=_bar,
    )
    environment.globals.update(counted=values.counted, exceeds=values.exceeds)
    return environment


def _breakable(name: str) -> Markup:
    """`name` escaped, with a line break allowed after each underscore and dot."""
    return Markup(re.sub(r"([_.])", r"\1<wbr>", str(escape(name))))


def _word(status: str) -> str:
    """The class of a status: one of the five verdicts, "unknown" for any other text."""
    return VERDICT_WORDS.get(status, "unknown")


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


def _replace(path: Path, content: str) -> Path:
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
