"""Cases drawn from a hypothesis strategy: as many as asked, all distinct, and the same ones for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import hypothesis
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider

from refkit.verify.case import Case

MOST_DRAWS = 4
"""How many draws per wanted case are made before a small space of cases is taken to be exhausted."""


def draw_cases(
    strategy: st.SearchStrategy[Case], count: int, seed: int, exclude: frozenset[Case] = frozenset()
) -> list[Case]:
    """Up to `count` distinct cases of `strategy`, none of `exclude`; fewer where it has no more."""
    drawn: dict[Case, None] = {}
    if count <= 0 or strategy.is_empty:
        return []

    @hypothesis.seed(seed)
    @quiet_settings(max_examples=count * MOST_DRAWS, phases=(hypothesis.Phase.generate,))
    @hypothesis.given(strategy)
    def draw(case: Case) -> None:
        if len(drawn) < count and case not in exclude:
            drawn[case] = None
        if len(drawn) >= count:
            raise _Enough

    try:
        with only_the_seed_decides():
            draw()
    except _Enough:
        pass
    except hypothesis.errors.Unsatisfiable:
        return []
    return list(drawn)


class _Enough(BaseException):
    """Ends the drawing once the cases are together; an `Exception` would be a failing example, which is run again."""


@contextmanager
def only_the_seed_decides() -> Iterator[None]:
    """Draws inside depend on the strategy and the seed alone.

    Otherwise hypothesis now and then draws a constant that it found in the source of a loaded module, and which modules
    are loaded depends on what the process did before.
    """
    if not hasattr(HypothesisProvider, "_maybe_draw_constant"):
        yield
        return
    with mock.patch.object(HypothesisProvider, "_maybe_draw_constant", _no_constant):
        yield


def _no_constant(provider: HypothesisProvider, *arguments: object, **constraints: object) -> None:
    """In the place of a draw among the constants found in source code."""


def quiet_settings(**more: Any) -> hypothesis.settings:
    """Settings under which hypothesis stores nothing, prints nothing, and judges neither speed nor filtering."""
    return hypothesis.settings(
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
        **more,
    )


def seed_of(*parts: object) -> int:
    """A seed that depends on every one of `parts` and on nothing else, the same in every process."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
