"""Sizes that a spec admits: the nearest ones to a wish, and the bound on what a case may cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refkit.verify import signatures

if TYPE_CHECKING:
    from refkit.verify.spec import KernelSpec

_TRIALS = 4096
"""How many sizes `nearest` looks at in each direction before it gives up."""


@dataclass(frozen=True)
class Budget:
    """What one case may cost: `elements` of any one array, and `operations`, the product of all dims."""

    elements: int = 2**17
    operations: int = 2**21

    def allows(self, spec: KernelSpec, dims: Mapping[str, int]) -> bool:
        """True where a case of these sizes is within the budget."""
        if math.prod(max(1, size) for size in dims.values()) > self.operations:
            return False
        return all(math.prod(spec.shape(name, dims)) <= self.elements for name in spec.arrays)


def nearest(
    spec: KernelSpec, wish: Mapping[str, int], config: Mapping[str, Any] | None = None
) -> dict[str, int] | None:
    """Sizes that `spec` admits, near `wish` and below it where that is possible; None where none were found.

    One dim at a time is tried first, then all dims of the constraint together, so that `requires` seldom has to
    reject what was drawn.
    """
    start = {name: dim.nearest(wish[name]) for name, dim in spec.dims.items()}
    if spec.admits(start, config):
        return start
    names = list(spec.dims)
    if spec.requires is not None and spec.possible(start):
        named = signatures.pick(spec.requires, start, names)
        names = [name for name in names if name in named]
    # An empty array tests little: 0 is a last resort where it was not the wish.
    for direction, zero in ((-1, False), (1, False), (-1, True)):
        for candidate in _around(spec, start, names, direction):
            if (zero or all(candidate[name] or not start[name] for name in names)) and spec.admits(candidate, config):
                return candidate
    return None


def _around(spec: KernelSpec, start: Mapping[str, int], names: list[str], direction: int) -> Iterator[dict[str, int]]:
    """Sizes at growing distance from `start`, all below it or all above it."""
    if not names:
        return
    steps = {}
    for name in names:
        dim = spec.dims[name]
        end = dim.least - 1 if direction < 0 else dim.greatest + 1
        steps[name] = range(start[name], end, direction * dim.multiple_of)
    for name in names:
        for size in steps[name][1 : _TRIALS // len(names)]:
            yield {**start, name: size}
    # 1e-9: the cube root of 4096 comes out a hair below 16.
    radius = int(_TRIALS ** (1 / len(names)) + 1e-9)
    if len(names) > 1:
        for sizes in itertools.product(*(steps[name][:radius] for name in names)):
            yield {**start, **dict(zip(names, sizes))}


def small_dims(spec: KernelSpec, config: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Small sizes that differ from dim to dim (3, 5, 7, ...) where the spec admits them; `SpecError` if none are."""
    wishes = (
        {name: 3 + 2 * position for position, name in enumerate(spec.dims)},
        {name: dim.least for name, dim in spec.dims.items()},
        {name: dim.greatest for name, dim in spec.dims.items()},
    )
    for wish in wishes:
        found = nearest(spec, wish, config)
        if found is not None:
            return found
    raise spec.wrong("no sizes were found that requires and the dims admit together")


def within(
    spec: KernelSpec,
    dims: Mapping[str, int],
    budget: Budget,
    *,
    keep: str = "",
    config: Mapping[str, Any] | None = None,
) -> dict[str, int] | None:
    """Sizes that `spec` admits and `budget` allows: the largest dims of `dims` are halved as often as needed.

    The dim `keep` stays as it is, at whatever cost. None where nothing was found.
    """
    found = nearest(spec, dims, config)
    settled = {keep}
    while found is not None and not budget.allows(spec, found):
        movable = {name: size for name, size in found.items() if name not in settled}
        if not movable:
            return found if keep else None
        largest = max(movable, key=movable.__getitem__)
        smaller = nearest(spec, {**found, largest: found[largest] // 2}, config)
        if smaller is None or smaller[largest] >= found[largest] or (keep and smaller[keep] != found[keep]):
            settled.add(largest)
        else:
            found = smaller
    return found
