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
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import imsave
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
    body = _compact(body)
    for name, colour in PALETTE.items():
        body = body.replace(colour, f"var(--fig-{name})")
    view_box = f"0 0 {drawing.figure.get_figwidth() * 72:g} {drawing.figure.get_figheight() * 72:g}"
    opening = f'<svg viewBox="{view_box}" aria-hidden="true" focusable="false" style="width:{drawing.width}px">'
    return opening + body[body.index(">") + 1 :]


def _compact(body: str) -> str:
    """The same picture in fewer bytes: what the page's style sheet says of every figure is left out, and a path takes
    a tenth of a pixel as its finest step."""
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.S)
    body = re.sub(r'<g id="[a-z]+_\d+">', "<g>", body)
    if "<g " not in body:
        body = re.sub(r"</?g>", "", body)
    body = re.sub(r' d="([^"]*)"', lambda path: f' d="{_shorter(path[1])}"', body)
    body = re.sub(r"font: (\w+ )?([\d.]+px) [^;\"]*", lambda font: _font(font[1], font[2]), body)
    body = re.sub(r" ?font-family: [^;\"]*;?", "", body)
    body = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", body)
    body = body.replace(f"font-size: {FONT_SIZE:g}px; ", "").replace("text-anchor: start; ", "")
    body = body.replace("; stroke-linejoin: miter", "")
    body = re.sub(r'( [xy]=")(-?\d+\.\d)\d+"', r'\1\2"', body)
    return re.sub(r"\n\s*", "\n", re.sub(r"\n\s*\n+", "\n", body))


def to_png(drawing: Drawing, path: Path) -> None:
    """Writes the figure to `path` on light paper with a margin, two PNG pixels to a CSS pixel."""
    width, height = drawing.figure.get_size_inches()
    frame = Bbox([[-_MARGIN, -_MARGIN], [width + _MARGIN, height + _MARGIN]])
    with _output_settings():
        FigureCanvasAgg(drawing.figure)
        dpi = _PIXELS_PER_INCH * _PNG_SCALE
        drawing.figure.savefig(path, format="png", dpi=dpi, bbox_inches=frame, facecolor=PALETTE["paper"])


def to_sheet(drawings: Sequence[Drawing], path: Path) -> None:
    """Writes several figures to one PNG at `path`, in two columns on light paper, two PNG pixels to a CSS pixel."""
    images = [_pixels(drawing) for drawing in drawings]
    gap = round(2 * _MARGIN * _PIXELS_PER_INCH * _PNG_SCALE)
    columns: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for image in images:
        shorter = min(columns, key=lambda column: sum(each.shape[0] for each in column))
        shorter.append(image)
    widths = [max((each.shape[1] for each in column), default=0) for column in columns]
    height = max(sum(each.shape[0] + gap for each in column) for column in columns) + gap
    paper = np.array([int(PALETTE["paper"][i : i + 2], 16) for i in (1, 3, 5)], np.uint8)
    sheet = np.broadcast_to(paper, (height, sum(widths) + gap * (1 + sum(width > 0 for width in widths)), 3)).copy()
    left = gap
    for column, width in zip(columns, widths):
        top = gap
        for image in column:
            sheet[top : top + image.shape[0], left : left + image.shape[1]] = image
            top += image.shape[0] + gap
        left += width + gap
    imsave(path, sheet)


def _pixels(drawing: Drawing) -> np.ndarray:
    """The figure on light paper, uint8 (height, width, 3)."""
    with _output_settings():
        drawing.figure.set_dpi(_PIXELS_PER_INCH * _PNG_SCALE)
        drawing.figure.set_facecolor(PALETTE["paper"])
        canvas = FigureCanvasAgg(drawing.figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


_SEGMENT = re.compile(r"M (-?[\d.]+) (-?[\d.]+) L (-?[\d.]+) (-?[\d.]+)(?= M|$)")


def _shorter(path_data: str) -> str:
    one_line = " ".join(path_data.split())
    one_line = re.sub(r"(\d+\.\d{2})\d+", r"\1", one_line)
    one_line = re.sub(r"( L [-\d.]+ [-\d.]+)\1", r"\1", one_line)  # matplotlib writes the last point twice
    return _SEGMENT.sub(_segment, one_line).replace(" M", "M")


def _segment(match: re.Match[str]) -> str:
    """One line of a path with steps along an axis as `h` and `v`; a dot is a step of 0."""
    x0, y0, x1, y1 = (round(float(each), 1) for each in match.groups())
    if y0 == y1:
        return f"M{x0:g} {y0:g}h{round(x1 - x0, 1):g}"
    return f"M{x0:g} {y0:g}v{round(y1 - y0, 1):g}" if x0 == x1 else f"M{x0:g} {y0:g}L{x1:g} {y1:g}"


def _font(weight: str | None, size: str) -> str:
    return f"font-size: {size}; font-weight: {weight.strip()}" if weight else f"font-size: {size}"
