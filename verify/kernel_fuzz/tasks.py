"""What a worker process does: functions of a module that workers can import, which `__main__` is not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from .corpus import Entry
from .execution import Rendered, run
from .judge import Discrepancy, judge
from .search import search
from .tree import Program


@dataclass(frozen=True)
class Share:
    """A worker's part of a search."""

    count: int
    seed: int


def search_share(share: Share, schedules: tuple[int, ...], sanitize: tuple[str, ...]) -> str:
    """The report of the share's shrunk discrepancy; empty where all agree."""
    found = search(share.count, share.seed, partial(judge, schedules=schedules, sanitize=sanitize))
    return "" if found is None else str(found)


def recorded(program: Program) -> Entry | Discrepancy:
    """The entry of a program, or what the interpreter says against it."""
    discrepancy = judge(program)
    if discrepancy is not None:
        return discrepancy
    rendered = Rendered.of(program)
    return Entry.of(rendered, run(rendered, "cpu"))
