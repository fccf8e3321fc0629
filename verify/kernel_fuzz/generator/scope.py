"""What a generator knows at one place of a program: what may be read, written and waited for there."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from refkit.verify.kernel_fuzz.tree import Array, Function, Kind, Name

T = TypeVar("T")


class Level(enum.IntEnum):
    """Which threads are known to arrive at a place together."""

    THREAD = 0
    GROUP = 1
    WARP = 2
    BLOCK = 3


@dataclass(frozen=True)
class Scope:
    """A place in a program.

    names: variables to read; targets: those that may be assigned; uniform: names on which the threads of `level` agree;
    loads: arrays to read; stores: arrays of which the thread owns a part; atomics: shared arrays under accumulation,
    with their operation; mask: the text of the mask of threads that arrive together; leaving: whether a loop may be
    left; warp_slots: shared arrays of which only the warp's own slots may be read; pure: inside a device function.
    """

    names: tuple[Name, ...]
    targets: tuple[Name, ...]
    loads: tuple[Array, ...]
    stores: tuple[Array, ...] = ()
    atomics: tuple[tuple[Array, str], ...] = ()
    uniform: tuple[Name, ...] = ()
    level: Level = Level.THREAD
    mask: str = ""
    leaving: bool = False
    depth: int = 0
    warp_slots: tuple[Array, ...] = ()
    pure: bool = False

    def deeper(self, **changes: Any) -> Scope:
        """The scope of a nested block."""
        return replace(self, depth=self.depth + 1, **changes)

    def among(self, kind: Kind) -> list[Name]:
        """The readable variables of a kind."""
        return [name for name in self.names if name.kind is kind]


@dataclass
class Source:
    """Draws from hypothesis, within a budget of nodes that keeps programs small.

    functions, arrays: those made so far; sums: the one operation that the program applies to each global sum;
    ticket_worth: the one function of a ticket that it adds up, as `Ticket` has it.
    """

    draw: Callable[[st.SearchStrategy[Any]], Any]
    budget: int
    threads: int = 1
    functions: list[Function] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    sums: dict[str, str] = field(default_factory=dict)
    ticket_worth: tuple[int, int] = (1, 0)
    _names: int = 0

    def integer(self, least: int, most: int) -> int:
        """An integer from `least` to `most`."""
        return self.draw(st.integers(least, most))

    def chance(self, one_in: int) -> bool:
        """True about once in `one_in` draws; shrinks to False."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices; shrinks to the first."""
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def fresh(self, stem: str) -> str:
        """A name not used yet."""
        self._names += 1
        return f"{stem}{self._names}"

    def spend(self) -> bool:
        """Take one node from the budget; False when none is left."""
        self.budget -= 1
        return self.budget >= 0
