"""The outputs of one launch held against what is expected: element by element, the worst of them, and where the error
sits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refkit.numerics.bounded import Bounded
from refkit.numerics.formats import format_of, is_floating
from refkit.numerics.metrics import error_ratio, ulp_distance
from refkit.records import WorstRecord
from refkit.verify.expectation import Expectation

MAP_CELLS = 32
"""The most rows, and the most columns, of the coarse error map in a record."""
MOST_COUNTED = 2**14
"""Elements of an output whose distance in ulps is counted; of a larger one, an even choice."""


@dataclass(frozen=True, eq=False)
class OutputJudgement:
    """One output: `ratio` is |error| / allowed of each element (inf where nothing can make it right)."""

    name: str
    got: np.ndarray
    bounded: Bounded
    ratio: np.ndarray

    @cached_property
    def wrong(self) -> np.ndarray:
        """The elements that do not hold; NaN counts as wrong."""
        return ~(self.ratio <= 1)

    @cached_property
    def holds(self) -> bool:
        """True where every element holds."""
        return not self.wrong.any()

    @property
    def worst_ratio(self) -> float:
        """The largest ratio; 0 for an empty output."""
        return float(self.ratio.max()) if self.ratio.size else 0.0

    @property
    def worst_index(self) -> tuple[int, ...]:
        """Where the largest ratio stands; among several infinite ones, the one with the largest plain error, then the
        first."""
        if not self.ratio.size:
            return ()
        top = np.isinf(self.ratio)
        if top.any():
            return tuple(int(i) for i in np.argwhere(top)[0])
        return tuple(int(i) for i in np.unravel_index(int(self.ratio.argmax()), self.ratio.shape))

    def worst(self) -> WorstRecord:
        """The worst element and the coarse error map, as the record keeps them."""
        index = self.worst_index
        matrix = self.ratio.reshape(-1, self.ratio.shape[-1]) if self.ratio.ndim else self.ratio.reshape(1, 1)
        return WorstRecord(
            output=self.name,
            index=index,
            expected=float(np.asarray(self.bounded.value)[index]),
            got=float(np.asarray(self.got)[index].astype(np.float64)),
            allowed=float(self.bounded.allowed[index]),
            ratio=float(self.ratio[index]),
            shape=self.ratio.shape,
            error_map=coarse_map(matrix),
            map_shape=matrix.shape,
            ulps=ulp_counts(self.got, np.asarray(self.bounded.value)),
            rms_error=relative_rms(self._error(), self.bounded.value),
            rms_allowed=relative_rms(self.bounded.allowed, self.bounded.value),
        )

    def _error(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.got).astype(np.float64) - self.bounded.value

    def describe(self) -> str:
        """The worst element in one line: `y[3, 7] is 1.5, expected 1.25 (allowed error 2.1e-07); 3 of 40 elements are
        wrong`."""
        worst = self.worst()
        place = f"[{', '.join(map(str, worst.index))}]" if worst.index else ""
        allowed = "exactly" if self.bounded.kind == "exact" else f"allowed error {worst.allowed:.2g}"
        count = int(self.wrong.sum())
        tail = (
            f"; {count} of {self.wrong.size} elements {'are' if count != 1 else 'is'} wrong"
            if self.wrong.size > 1
            else ""
        )
        return f"{self.name}{place} is {_shown(worst.got)}, expected {_shown(worst.expected)} ({allowed}){tail}"

    def typical_sensitivity(self) -> float | None:
        """The relative fault of a typical element that would have been seen: the median of allowed / |expected|.

        It is never less than half the spacing of the storage format, which no output can resolve. Elements that are
        copied and not computed (no error allowed) do not count unless all are; None where every expected value is 0.
        """
        value = np.abs(np.asarray(self.bounded.value, np.float64))
        usable = np.isfinite(value) & (value > 0) & np.isfinite(self.bounded.allowed)
        if not usable.any():
            return None
        if not is_floating(self.got.dtype):
            return float(np.median(1 / value[usable]))
        least = format_of(self.got.dtype).unit_roundoff
        computed = usable & (self.bounded.allowed > 0)
        if not computed.any():
            return least
        return max(least, float(np.median(self.bounded.allowed[computed] / value[computed])))


@dataclass(frozen=True, eq=False)
class Judgement:
    """All outputs of one launch that something was expected of."""

    outputs: tuple[OutputJudgement, ...]

    @property
    def holds(self) -> bool:
        """True where every element of every output holds."""
        return all(output.holds for output in self.outputs)

    @property
    def worst(self) -> OutputJudgement | None:
        """The output with the largest ratio (the first of equals); None where there is no output."""
        return max(self.outputs, key=lambda output: output.worst_ratio, default=None)

    @property
    def worst_ratio(self) -> float | None:
        """The largest ratio over all outputs."""
        return None if self.worst is None else self.worst.worst_ratio

    @property
    def bound(self) -> str:
        """The weakest kind of bound in it: estimated, else tracked, else exact."""
        kinds = {output.bounded.kind for output in self.outputs}
        return next((kind for kind in ("estimated", "tracked", "exact") if kind in kinds), "")

    def sensitivity(self) -> dict[str, float]:
        """`typical_sensitivity` of each output that has one."""
        found = {output.name: output.typical_sensitivity() for output in self.outputs}
        return {name: value for name, value in found.items() if value is not None}


def judge(expectation: Expectation, outputs: Mapping[str, np.ndarray]) -> Judgement:
    """Hold `outputs` (by name, in their storage format) against the expectation; outputs that it does not name are
    left out."""
    judged = []
    for name, bounded in expectation.items():
        got = outputs[name]
        compared = got.astype(np.float64) if is_floating(got.dtype) else got
        judged.append(OutputJudgement(name, got, bounded, error_ratio(compared, bounded)))
    return Judgement(tuple(judged))


def coarse_map(matrix: np.ndarray, cells: int = MAP_CELLS) -> tuple[tuple[float, ...], ...]:
    """`matrix` shrunk to at most `cells` by `cells`, each cell the largest value inside it."""
    if not matrix.size:
        return ()
    for axis in (0, 1):
        count = min(cells, matrix.shape[axis])
        starts = np.arange(count) * matrix.shape[axis] // count
        matrix = np.maximum.reduceat(matrix, starts, axis=axis)
    return tuple(tuple(float(cell) for cell in row) for row in matrix)


def ulp_counts(got: np.ndarray, expected: np.ndarray) -> dict[str, int]:
    """How many elements lie how many units in the last place from what is expected, by bins whose upper end is twice
    the lower: "0", "1", "2" (2 and 3), "4" (4 to 7), ..., "inf"; empty for outputs that are not floating."""
    if not is_floating(got.dtype) or not got.size:
        return {}
    step = -(-got.size // MOST_COUNTED)
    steps = ulp_distance(got.reshape(-1)[::step], expected.reshape(-1)[::step], format_of(got.dtype))
    with np.errstate(divide="ignore"):
        bins = np.where(steps >= 1, np.exp2(np.floor(np.log2(steps))), 0.0)
    found, counts = np.unique(bins, return_counts=True)
    return {("inf" if math.isinf(low) else str(int(low))): int(n) for low, n in zip(found, counts)}


def relative_rms(error: np.ndarray, value: np.ndarray) -> float | None:
    """The root mean square of `error` relative to that of `value`, over the elements where both are finite; None where
    there are none or all values are 0."""
    error, value = np.asarray(error, np.float64), np.asarray(value, np.float64)
    usable = np.isfinite(error) & np.isfinite(value)
    scale = float(np.max(np.abs(value), where=usable, initial=0.0))
    if scale == 0:
        return None
    with np.errstate(all="ignore"):
        ratio = np.linalg.norm(error[usable] / scale) / np.linalg.norm(value[usable] / scale)
    return float(ratio) if math.isfinite(ratio) else None


def _shown(value: float) -> str:
    return str(value) if not math.isfinite(value) else f"{value:.9g}"
