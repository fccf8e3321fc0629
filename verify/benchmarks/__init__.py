"""What `bench` measures, a file each; a file that defines `TITLE` is a benchmark, named as the file is.

    TITLE: str                                   one line
    def missing() -> str | None                  why it cannot run here; None where it can
    def rows(progress) -> Iterator[Row]          measures and yields one row at a time; `progress(text)` says what runs

Each row carries its ratio to a peer that was measured in the same call.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measurement beside its peer. Clocks in MHz, None without a GPU; `pinned`: clocks were fixed."""

    name: str
    shape: str
    peer: str
    median_us: float
    ratio: float  # speed of what is measured over the speed of the peer
    rate: float
    unit: str
    peer_shape: str
    peer_rate: float
    clock_before: float | None = None
    clock_after: float | None = None
    pinned: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The row as contract 1 writes it, with the rates beside."""
        return asdict(self)


def available() -> dict[str, ModuleType]:
    """Every benchmark by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(loaded, "TITLE"):
            found[module.name] = loaded
    return found
