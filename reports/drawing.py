"""What every figure stands on: colours for light and dark, a canvas measured in CSS pixels, SVG and PNG output.

One figure serves all: it is drawn in the light palette, which is how the PNG looks; in the SVG each colour of that
palette becomes a CSS variable, so that the page recolours the figure for dark screens. No pyplot state is used.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.patches import Rectangle as RectanglePatch
from matplotlib.path import Path as Outline
from matplotlib.transforms import Bbox

PALETTE = {
    "ink": "#1d2430",
    "muted": "#5e6877",
    "line": "#d3d9e1",
    "point": "#2f6db3",
    "bad": "#c22f45",
    "band": "#fbe9eb",
    "paper": "#fdfdfe",
}
FONT_SIZE = 11.0
_PIXELS_PER_INCH = 72.0  # one unit of matplotlib's SVG is then one CSS pixel
_PNG_SCALE = 2
_MARGIN = 12 / _PIXELS_PER_INCH  # of the PNG, in inches


@dataclass(frozen=True)
class Drawing:
    """A finished figure; `alt` says in numbers what it shows, `width` is its natural width in CSS pixels."""

    figure: Figure
    alt: str
    caption: str
    width: int


class Sheet:
    """A figure of `width` by `height` CSS pixels, y downwards; everything is placed in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH), dpi=_PIXELS_PER_INCH)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self.axes.set_autoscale_on(False)

    def text(
        self, x: float, y: float, label: str, *, colour: str = "ink", align: str = "left", bold: bool = False
    ) -> None:
        """One line of text, vertically centred on `y`; never read as mathematics."""
        self.axes.text(
            x,
            y,
            label,
            color=PALETTE[colour],
            ha=align,
            va="center_baseline",
            fontsize=FONT_SIZE,
            fontweight="bold" if bold else "normal",
            parse_math=False,
        )

    def segments(
        self,
        lines: Sequence[tuple[float, float, float, float]],
        colour: str,
        *,
        width: float = 1.0,
        dashed: bool = False,
        round_ends: bool = False,
    ) -> None:
        """Lines (x0, y0, x1, y1), all in one path, which keeps the SVG small."""
        if not lines:
            return
        vertices = [point for x0, y0, x1, y1 in lines for point in ((x0, y0), (x1, y1))]
        outline = Outline(vertices, [Outline.MOVETO, Outline.LINETO] * len(lines))
        patch = PathPatch(
            outline,
            fill=False,
            edgecolor=PALETTE[colour],
            linewidth=width,
            linestyle=(0, (3, 3)) if dashed else "solid",
            capstyle="round" if round_ends else "butt",
            snap=not round_ends,  # on whole pixels a dot has no length, and Agg leaves it out
            clip_on=False,
        )
        self.axes.add_artist(patch)

    def dots(self, points: Sequence[tuple[float, float]], colour: str, *, size: float = 4.0) -> None:
        """Round dots of diameter `size`: lines of no length with round ends."""
        self.segments([(x, y, x + 0.01, y) for x, y in points], colour, width=size, round_ends=True)

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, outline: bool = False) -> None:
        """A filled rectangle, or its outline."""
        patch = RectanglePatch(
            (x, y),
            width,
            height,
            facecolor="none" if outline else PALETTE[colour],
            edgecolor=PALETTE[colour] if outline else "none",
            linewidth=1.0,
            clip_on=False,
        )
        self.axes.add_artist(patch)

    def image(self, rgba: Any, x: float, y: float, width: float, height: float) -> None:
        """An RGBA array (m, n, 4), one cell per element, stretched over the rectangle."""
        extent = (x, x + width, y + height, y)
        self.axes.imshow(rgba, extent=extent, aspect="auto", origin="upper", interpolation="none", clip_on=False)


def shorten(label: str, limit: int) -> str:
    """`label` in one line of at most `limit` characters."""
    label = " ".join(label.split())
    return label if len(label) <= limit else label[: limit - 1] + "…"


def power_label(exponent: int) -> str:
    """10 to `exponent` as an axis label: "0.01", "1", "10⁻⁵"."""
    if -3 <= exponent <= 4:
        return f"{10**exponent:,}" if exponent >= 0 else f"{10.0**exponent:.{-exponent}f}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def decades(low: int, high: int, most: int) -> list[int]:
    """Exponents between `low` and `high`, at most `most` of them and 0 always among them where it lies between."""
    step = max(1, math.ceil((high - low + 1) / most))
    return [exponent for exponent in range(low, high + 1) if exponent % step == 0]


@contextmanager
def _output_settings() -> Iterator[None]:
    settings = {"svg.fonttype": "none", "svg.hashsalt": "refkit", "font.family": "DejaVu Sans"}
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def to_svg(drawing: Drawing) -> str:
    """The figure as an `<svg>` element for an HTML page, coloured by CSS variables; it names no URL."""
    buffer = io.StringIO()
    with _output_settings():
        FigureCanvasSVG(drawing.figure)
        drawing.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    body = buffer.getvalue()
    body = body[body.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.S)
    body = re.sub(r'<g id="[a-z]+_\d+">', "<g>", body)
    body = re.sub(r' d="([^"]*)"', lambda path: f' d="{_shorter(path[1])}"', body)
    body = re.sub(r"font: (\w+ )?([\d.]+px) [^;\"]*", lambda font: _font(font[1], font[2]), body)
    for name, colour in PALETTE.items():
        body = body.replace(colour, f"var(--fig-{name})")
    view_box = f"0 0 {drawing.figure.get_figwidth() * 72:g} {drawing.figure.get_figheight() * 72:g}"
    opening = f'<svg viewBox="{view_box}" aria-hidden="true" focusable="false" style="width:{drawing.width}px">'
    body = opening + body[body.index(">") + 1 :]
    return re.sub(r"\n\s*", "\n", body)


def to_png(drawing: Drawing, path: Path) -> None:
    """Writes the figure to `path` on light paper with a margin, two PNG pixels to a CSS pixel."""
    width, height = drawing.figure.get_size_inches()
    frame = Bbox([[-_MARGIN, -_MARGIN], [width + _MARGIN, height + _MARGIN]])
    with _output_settings():
        FigureCanvasAgg(drawing.figure)
        dpi = _PIXELS_PER_INCH * _PNG_SCALE
        drawing.figure.savefig(path, format="png", dpi=dpi, bbox_inches=frame, facecolor=PALETTE["paper"])


def _shorter(path_data: str) -> str:
    one_line = " ".join(path_data.split())
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", one_line)


def _font(weight: str | None, size: str) -> str:
    return f"font-size: {size}; font-weight: {weight.strip()}" if weight else f"font-size: {size}"
