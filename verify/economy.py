"""A bound on how often a kernel is compiled: a type signature or a configuration more costs as much as a hundred cases.

A kernel is compiled anew for every configuration, for strided arrays, and for every set of optional arguments left
out. The fixed cases, which come first, keep all of theirs; later cases are moved to a combination that is compiled
already once the bound is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refkit.verify.case import Case, FrozenMapping
from refkit.verify.spec import KernelSpec
from refkit.verify.trial import PACKED

Variant = tuple[Mapping[str, Any], bool, tuple[str, ...]]


def variant(case: Case) -> Variant:
    """What the launch of `case` is compiled for: the configuration, whether strides are general, what is absent."""
    strided = any(layout not in PACKED for layout in case.layouts.values())
    return FrozenMapping(case.config), strided, case.absent


def economise(spec: KernelSpec, cases: tuple[Case, ...], known: dict[Variant, None], most: int) -> tuple[Case, ...]:
    """`cases` with at most `most` variants, those in `known` included; `known` is added to.

    A case whose variant would be one too many takes a known configuration and set of absent arguments; where the spec
    admits none with its sizes, it is left out.
    """
    kept: dict[Case, None] = {}
    for case in cases:
        moved = _moved(spec, case, known, most)
        if moved is not None:
            known[variant(moved)] = None
            kept[moved] = None
    return tuple(kept)


def _moved(spec: KernelSpec, case: Case, known: dict[Variant, None], most: int) -> Case | None:
    wanted = variant(case)
    # The first strided case is always worth its compilation.
    first_strided = wanted[1] and not any(strided for _, strided, _ in known)
    if wanted in known or len(known) < most or first_strided:
        return case
    for config, strided, absent in known:
        if strided == wanted[1] and spec.admits(case.dims, config):
            return replace(case, config=config, absent=absent)
    return None
