"""The sanitizer catalogue: small kernels with one known fault each, and correct twins.

Every module of this folder holds entries of one kind; `entries()` finds them all.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from .entry import Entry, Mark, Unset, correct_kernel, pair

__all__ = ["Entry", "Mark", "Unset", "correct_kernel", "entries", "pair"]


def entries() -> tuple[Entry, ...]:
    """All entries, module by module in alphabetical order, within a module in the order of the source."""
    return tuple(_found())


def _found() -> Iterator[Entry]:
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        if module.name.startswith("test_"):
            continue
        members = vars(importlib.import_module(f"{__name__}.{module.name}"))
        yield from (member for member in members.values() if isinstance(member, Entry))
