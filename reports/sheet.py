"""A kernel's figures: all of them for the page, and as PNG files one by one where it failed, on one sheet where not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from refkit.reports.distributions import reduction_figure, ulps_figure
from refkit.reports.drawing import Drawing, to_png, to_sheet, to_svg
from refkit.reports.figures import coverage_figure, errors_figure
from refkit.reports.model import CheckView, KernelView
from refkit.reports.position import position_figure
from refkit.reports.reading import slug
from refkit.reports.values import severity


@dataclass(frozen=True)
class FigureView:
    """A drawn figure as the template shows it."""

    svg: Markup
    alt: str
    caption: str
    width: int


def view_of(drawing: Drawing) -> FigureView:
    """The figure for a page."""
    return FigureView(Markup(to_svg(drawing)), drawing.alt, drawing.caption, drawing.width)


def draw_kernel(kernel: KernelView, folder: Path) -> list[FigureView]:
    """Draws a kernel's figures and writes its PNG files into `folder`."""
    drawings = dict(_drawings(kernel))
    views = [view_of(drawing) for drawing in drawings.values()]
    if kernel.fails:
        for name, drawing in drawings.items():
            to_png(drawing, folder / f"{kernel.slug}-{name}.png")
    elif drawings:
        to_sheet(list(drawings.values()), folder / f"{kernel.slug}-sheet.png")
    return views


def _drawings(kernel: KernelView) -> Iterator[tuple[str, Drawing]]:
    found: list[tuple[str, Drawing | None]] = [("errors", errors_figure(kernel))]
    highest = 240 if kernel.fails else 96
    for check in _mapped(kernel):
        assert check.mapped is not None
        found.append((f"{slug(check.name)}-position", position_figure(check.name, check.mapped, highest=highest)))
    found += [
        ("reduction", reduction_figure(kernel)),
        ("ulps", ulps_figure(kernel)),
        ("coverage", coverage_figure(kernel)),
    ]
    return ((name, drawing) for name, drawing in found if drawing is not None)


def _mapped(kernel: KernelView) -> list[CheckView]:
    """The checks whose error map is drawn: those that failed, else the one that came closest."""
    mapped = [check for check in kernel.checks if check.mapped is not None]
    if not kernel.fails:
        return sorted(mapped, key=lambda check: severity(check.worst_ratio))[-1:]
    return [check for check in mapped if check.fails] if kernel.failing_checks else mapped
