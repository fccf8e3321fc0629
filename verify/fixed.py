"""The cases that are always among those of a kernel, whatever the seed: every boundary that a kernel may trip over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from refkit.verify.arguments import Scalar
from refkit.verify.case import Case
from refkit.verify.inputs import scalar_choices
from refkit.verify.sizes import Budget, nearest, small_dims, within
from refkit.verify.spec import KernelSpec

PRIMES = (31, 17, 23, 13, 37, 19, 29, 11)
"""One per dim: no two dims equal, none a multiple of a tile."""

MOST_SUBSETS = 16
"""Subsets of optional arguments; past four of them, all present, each alone absent, and all absent."""


def fixed_cases(
    spec: KernelSpec, *, values: str = "mixture", seed: int = 0, budget: Budget | None = None
) -> tuple[Case, ...]:
    """The fixed cases of `spec`, contiguous, no two alike, the cheapest kinds first.

    Every dim at its least; every dim 1; every dim 7; primes; around each tile in `configs`; 0 where it is legal; each
    dim at its maximum with the others small; every combination of `configs`; every subset of optional arguments.
    Case `i` has the seed `seed + i`.
    """
    cases: dict[Any, Case] = {}
    for position, (scenario, dims, config, absent) in enumerate(_settings(spec, budget or Budget())):
        scalars = _scalars(spec, values, position)
        key = (tuple(dims.items()), tuple(config.items()), absent)
        if key not in cases:
            cases[key] = Case(
                dims=dims,
                config=config,
                values=values,
                scalars=scalars,
                absent=absent,
                seed=seed + len(cases),
                scenario=scenario,
            )
    return tuple(cases.values())


_Setting = tuple[str, Mapping[str, int], Mapping[str, Any], tuple[str, ...]]


def _settings(spec: KernelSpec, budget: Budget) -> Iterator[_Setting]:
    combinations = itertools.cycle(spec.combinations)
    for scenario, wish, keep in _wishes(spec):
        config = next(combinations)
        limits = Budget(8 * budget.elements, 8 * budget.operations) if keep else budget
        found = within(spec, wish, limits, keep=keep, config=config)
        if found is not None and (not keep or found[keep] == wish[keep]):
            yield scenario, found, config, ()
    for tile in tiles(spec):
        # The values of a configuration are tried together below; one combination with this tile is enough here.
        config = next(config for config in spec.combinations if tile in config.values())
        yield from _around_tile(spec, tile, config, budget)
    for config in spec.combinations:
        found = within(spec, dict(zip(spec.dims, itertools.cycle(PRIMES))), budget, config=config)
        if found is not None:
            shown = ", ".join(f"{name}={value}" for name, value in config.items())
            yield f"configuration {shown}", found, config, ()
    for absent in _subsets(spec.optional):
        config = spec.combinations[0]
        yield f"without {', '.join(absent)}", small_dims(spec, config), config, absent


def _wishes(spec: KernelSpec) -> Iterator[tuple[str, dict[str, int], str]]:
    """Scenario, sizes wished for, and the dim that must keep its size (or '')."""
    yield "every dim at its least", {name: max(1, dim.least) for name, dim in spec.dims.items()}, ""
    yield "every dim 1", dict.fromkeys(spec.dims, 1), ""
    yield "every dim 7", dict.fromkeys(spec.dims, 7), ""
    yield "primes", dict(zip(spec.dims, itertools.cycle(PRIMES))), ""
    small = {
        name: max(dim.least, min(3 + position, dim.greatest)) for position, (name, dim) in enumerate(spec.dims.items())
    }
    for name, dim in spec.dims.items():
        if dim.least == 0:
            yield f"{name} is 0", {**small, name: 0}, name
    for name, dim in spec.dims.items():
        yield f"{name} at its maximum", {**small, name: dim.greatest}, name


def _around_tile(spec: KernelSpec, tile: int, config: Mapping[str, Any], budget: Budget) -> Iterator[_Setting]:
    """Three cases in which every dim is once tile-1, once tile and once tile+1, neighbours never alike."""
    for turn in range(3):
        wish = {name: tile - 1 + (turn + position) % 3 for position, name in enumerate(spec.dims)}
        found = nearest(spec, wish, config)
        if found is not None and budget.allows(spec, found):
            yield f"around the tile {tile}", found, config, ()
            continue
        for name in spec.dims:
            small = {other: max(1, dim.least) for other, dim in spec.dims.items()}
            alone = within(spec, {**small, name: wish[name]}, budget, keep=name, config=config)
            if alone is not None:
                yield f"{name} around the tile {tile}", alone, config, ()


def _is_tile(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 2


def tiles(spec: KernelSpec) -> tuple[int, ...]:
    """The integers of 2 and more among the values of `configs`, ascending: the sizes a kernel may cut its work by."""
    return tuple(sorted({value for choices in spec.configs.values() for value in choices if _is_tile(value)}))


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every non-empty subset of `names`; of many names only the single ones and the whole."""
    if 2 ** len(names) <= MOST_SUBSETS:
        for size in range(1, len(names) + 1):
            yield from itertools.combinations(names, size)
    else:
        yield from ((name,) for name in names)
        yield names


def _scalars(spec: KernelSpec, values: str, position: int) -> dict[str, float | int | bool]:
    """Scalars and flags of the case at `position`: the choices in turn, flags as the bits of a counter."""
    chosen: dict[str, float | int | bool] = {}
    flags = 0
    for name, declared in spec.scalars.items():
        if isinstance(declared, Scalar):
            choices = scalar_choices(declared, values)
            chosen[name] = choices[position % len(choices)]
        else:
            chosen[name] = bool(position >> flags & 1)
            flags += 1
    return chosen
