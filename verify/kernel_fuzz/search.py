"""Programs in bulk: hypothesis draws them from a seed, and shrinks the one on which a judge objects."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from .generator import NODES, programs
from .judge import Discrepancy
from .render import render
from .tree import Program

Judge = Callable[[Program], Discrepancy | None]


class _Objection(Exception):
    """Carries a discrepancy through hypothesis."""


class _ValueObjection(_Objection):
    """Hypothesis tells failures apart by their type; shrinking keeps to one kind."""


def _settings(count: int, phases: tuple[Phase, ...]) -> settings:
    return settings(
        max_examples=count,
        phases=phases,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def draw_programs(count: int, seed: int) -> list[Program]:
    """`count` programs with different sources; a pure function of its arguments (and of hypothesis' version)."""
    found: dict[str, Program] = {}
    # Hypothesis may draw one program twice, or stop early: further seeds make up the number.
    while len(found) < count:

        @seeded(seed)
        @_settings(count, (Phase.generate,))
        @given(programs())
        def collect(program: Program) -> None:
            found.setdefault(render(program), program)

        collect()
        seed += 1_000_003
    return list(found.values())[:count]


def search(count: int, seed: int, judge: Judge, nodes: int = NODES) -> Discrepancy | None:
    """Judge `count` programs of about `nodes` nodes, drawn from `seed`.

    Returns the shrunk discrepancy of the first that fails, None if all hold.
    """
    last: list[Discrepancy] = []

    @seeded(seed)
    @_settings(count, (Phase.generate, Phase.shrink))
    @given(programs(nodes))
    def examine(program: Program) -> None:
        discrepancy = judge(program)
        if discrepancy is not None:
            last.append(discrepancy)
            raise (_Objection if discrepancy.kind == "fault" else _ValueObjection)

    try:
        examine()
    except _Objection:
        # Hypothesis ends by running the smallest failing program once more.
        return last[-1]
    return None
