"""Hypothesis strategies of cases: mostly small, often at a boundary, shrinking to the plainest case that still fails.

Every choice is drawn as an integer whose least value is the plainest: the smallest dim, the first configuration,
contiguous, the seed 0. Where a choice comes from one of several ranges, the first range is the whole one and the
integer drawn is the value itself, so that hypothesis can move from a special range to the whole one with the value
kept, and then lower it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from refkit.verify.arguments import Index, Scalar
from refkit.verify.case import Case
from refkit.verify.dims import Dim
from refkit.verify.fixed import fixed_cases, tiles
from refkit.verify.inputs import has_a_wrong_index, scalar_choices
from refkit.verify.sizes import Budget, nearest
from refkit.verify.spec import KernelSpec
from refkit.verify.values import DISTRIBUTIONS

__all__ = ["SCENARIOS", "Budget", "cases", "fixed_cases"]

SCENARIOS = ("random", "fixed", "nonfinite", "out_of_range")
"""Kinds of cases: invented; one of `fixed_cases`; with NaN and infinities; with an index out of range."""

MIXED = ("normal", "mixture", "mixture", "mixture")
"""What `values` are drawn from unless told: plain ones now and then, since they are what shrinking ends at."""

LARGEST_SEED = 2**32 - 1
_NEAR_MAXIMUM = 4096
"""Up to here a dim is also drawn near its maximum; a larger maximum is left to the fixed cases, for its cost."""
_LANES = ("integers", "nonfinite", "out_of_range")
_PLAINEST = "normal"

Draw = Callable[[st.SearchStrategy[Any]], Any]


def cases(
    spec: KernelSpec,
    *,
    scenarios: Sequence[str] = ("random",),
    values: Sequence[str] | str | None = None,
    layouts: Sequence[str] | None = None,
    anchor: Case | None = None,
    budget: Budget | None = None,
) -> st.SearchStrategy[Case]:
    """A strategy of cases of `spec`.

    `scenarios`: kinds of `SCENARIOS` to draw from. `values`: names of `values.py` to draw from. `layouts`: the layouts
    that every input which can take one of them is given; None draws them, contiguous half of the time. `anchor`: a
    case to be found again and then shrunk: half of the cases have exactly its choices, the others choices that are at
    most as large. ValueError names an unknown scenario or values name.
    """
    chosen = (values,) if isinstance(values, str) else tuple(values or MIXED)
    for name in chosen:
        if name not in DISTRIBUTIONS:
            raise ValueError(f"values is {name!r}; expected one of {', '.join(DISTRIBUTIONS)}")
    if anchor is not None:
        return _anchored(spec, anchor)
    limits = budget or Budget()
    kinds = []
    for scenario in scenarios:
        if scenario not in SCENARIOS:
            raise ValueError(f"scenario is {scenario!r}; expected one of {', '.join(SCENARIOS)}")
        if scenario == "fixed":
            kinds.append(
                st.sampled_from([case for name in dict.fromkeys(chosen) for case in fixed_cases(spec, values=name)])
            )
        elif scenario == "random":
            kinds.append(_random(spec, chosen, layouts, limits, scenario))
        elif _applies(spec, scenario):
            kinds.append(_random(spec, (scenario,), layouts, limits, scenario))
    return st.one_of(kinds) if kinds else st.nothing()


def _applies(spec: KernelSpec, scenario: str) -> bool:
    """True where `spec` promises anything for the scenario."""
    if scenario == "nonfinite":
        return spec.nonfinite
    return any(isinstance(argument, Index) and argument.out_of_range for argument in spec.arrays.values())


# -- invented cases -----------------------------------------------------------------------------------------------


@st.composite
def _random(
    draw: Draw,
    spec: KernelSpec,
    values: Sequence[str],
    layouts: Sequence[str] | None,
    budget: Budget,
    scenario: str,
) -> Case:
    config = spec.combinations[draw(st.integers(0, len(spec.combinations) - 1))]
    dims = nearest(spec, _draw_dims(draw, spec, budget), config)
    assume(dims is not None)
    assert dims is not None
    lane = draw(st.sampled_from(values))
    case = Case(
        dims=dims,
        config=config,
        layouts=_draw_layouts(draw, spec, layouts),
        values=lane,
        scalars=_draw_scalars(draw, spec, lane),
        absent=tuple(name for name in spec.optional if draw(st.booleans())),
        seed=draw(st.integers(0, LARGEST_SEED)),
        scenario=scenario,
    )
    # An empty index array, or a format without room, has no wrong index to refuse.
    assume(lane != "out_of_range" or has_a_wrong_index(spec, case))
    return case


def _draw_dims(draw: Draw, spec: KernelSpec, budget: Budget) -> dict[str, int]:
    """A size for each dim, in order, each bounded by what the ones before it leave of the budget."""
    drawn = {name: _first(dim) for name, dim in spec.dims.items()}
    boundaries = tiles(spec)
    for name, dim in spec.dims.items():
        low, high = draw(st.sampled_from(_ranges(dim, boundaries)))
        most = _affordable(spec, drawn, name, max(high, 0), budget)
        low = max(0, min(low, most))
        # One choice is recorded for every dim whatever its range: a case with fewer choices would count as plainer.
        steps = min(most, draw(st.integers(low, max(low + 1, most))))
        drawn[name] = 0 if high < 0 else _first(dim) + steps * dim.multiple_of
    return drawn


def _first(dim: Dim) -> int:
    """The least size of `dim` that is not 0, where there is one."""
    return min(dim.least or dim.multiple_of, dim.greatest)


def _ranges(dim: Dim, boundaries: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of sizes, in steps above `_first`: the whole one, small ones, round each tile, near the maximum.

    A range of its own, (-1, -1), stands for 0, which hypothesis would otherwise draw too often.
    """
    first = _first(dim)
    last = (dim.greatest - first) // dim.multiple_of

    def between(low: int, high: int) -> tuple[int, int]:
        # At least two sizes: hypothesis does not record a choice of one, and could not shrink it later.
        top = min(last, max(1, (high - first) // dim.multiple_of))
        return max(0, min((low - first) // dim.multiple_of, top - 1)), top

    ranges = [(0, last)]
    ranges += 3 * [between(first, 8)] + 3 * [between(first, 32)] + 2 * [between(first, 80)]
    ranges += [between(tile - 1, tile + 1) for tile in boundaries[-3:] if first <= tile + 1 <= dim.greatest + 1]
    if dim.greatest <= _NEAR_MAXIMUM:
        ranges += [between(dim.greatest - 3 * dim.multiple_of, dim.greatest)]
    return [*ranges, (-1, -1)] if dim.least == 0 else ranges


def _affordable(spec: KernelSpec, dims: Mapping[str, int], name: str, steps: int, budget: Budget) -> int:
    """The most steps above `_first`, up to `steps`, that the dim `name` may take within `budget`."""
    dim = spec.dims[name]

    def fits(count: int) -> bool:
        return budget.allows(spec, {**dims, name: _first(dim) + count * dim.multiple_of})

    if fits(steps):
        return steps
    low, high = 0, steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _draw_layouts(draw: Draw, spec: KernelSpec, layouts: Sequence[str] | None) -> dict[str, str]:
    if layouts is None and not draw(st.booleans()):
        return {}
    drawn = {}
    for name in spec.arrays:
        allowed = spec.layouts_of(name)
        if layouts is not None:
            allowed = tuple(layout for layout in allowed if layout in layouts) or allowed[:1]
        layout = allowed[draw(st.integers(0, len(allowed) - 1))]
        if layout != "contiguous":
            drawn[name] = layout
    return drawn


def _draw_scalars(draw: Draw, spec: KernelSpec, lane: str) -> dict[str, float | int | bool]:
    drawn: dict[str, float | int | bool] = {}
    for name, declared in spec.scalars.items():
        choices = scalar_choices(declared, lane) if isinstance(declared, Scalar) else (False, True)
        drawn[name] = choices[draw(st.integers(0, len(choices) - 1))]
    return drawn


# -- a failing case, found again and made smaller -----------------------------------------------------------------


@st.composite
def _anchored(draw: Draw, spec: KernelSpec, anchor: Case) -> Case:
    """The choices of `anchor`, or choices that are at most as large."""
    exact = draw(st.booleans())

    def upto(most: int) -> int:
        # Both ranges hold `most`, so that a case found as an exact copy stays the same when `exact` is shrunk away.
        return min(most, draw(st.integers(most, most + 1) if exact else st.integers(0, most + 1)))

    def among(choices: Sequence[Any], chosen: Any) -> Any:
        return choices[upto(choices.index(chosen) if chosen in choices else 0)]

    config = spec.combinations[upto(_position(spec.combinations, anchor.config))]
    sizes = {
        name: dim.least + upto(max(0, anchor.dims[name] - dim.least) // dim.multiple_of) * dim.multiple_of
        for name, dim in spec.dims.items()
    }
    dims = nearest(spec, sizes, config)
    assume(dims is not None)
    assert dims is not None
    lanes = (anchor.values,) if anchor.values in _LANES else tuple(dict.fromkeys((_PLAINEST, anchor.values)))
    lane = among(lanes, anchor.values)
    scalars = {
        name: among(
            scalar_choices(declared, lane) if isinstance(declared, Scalar) else (False, True), anchor.scalars.get(name)
        )
        for name, declared in spec.scalars.items()
    }
    layouts = {name: layout for name, layout in anchor.layouts.items() if upto(1)}
    absent = tuple(name for name in anchor.absent if upto(1))
    case = Case(
        dims=dims,
        config=config,
        layouts=layouts,
        values=lane,
        scalars=scalars,
        absent=absent,
        seed=upto(anchor.seed),
        scenario=anchor.scenario,
    )
    assume(lane != "out_of_range" or has_a_wrong_index(spec, case))
    return case


def _position(combinations: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> int:
    return next((i for i, combination in enumerate(combinations) if combination == config), 0)
