"""What a running verification tells its listener, kernel by kernel; every event can cross a process boundary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from refkit.records import CheckRecord, KernelRecord


@dataclass(frozen=True)
class KernelStarted:
    """The verification of `kernel` begins; about `cases` cases are planned."""

    kernel: str
    cases: int


@dataclass(frozen=True)
class CaseStarted:
    """`check` now judges `case` (in its JSON form), in words `what`; `done` cases of `kernel` lie behind."""

    kernel: str
    check: str
    what: str
    done: int
    case: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CheckDone:
    """A check of `kernel` came to its verdict."""

    kernel: str
    record: CheckRecord


@dataclass(frozen=True)
class KernelDone:
    """The verification of a kernel is over. `broken` says that the process it ran in can launch nothing more."""

    record: KernelRecord
    broken: bool = False


Event = KernelStarted | CaseStarted | CheckDone | KernelDone
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener that does nothing."""
