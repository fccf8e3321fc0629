"""The sheets, one file each: a file of this folder that defines `SHEET` is an operator of the planner."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from refkit.planner.sheet import Sheet

ORDER = ("linear", "attention", "swiglu", "cross_entropy")
"""These come first, in this order; any other follows by name."""


@cache
def sheets() -> dict[str, Sheet]:
    """Every sheet by the name of its operator."""
    names = sorted(entry.name for entry in pkgutil.iter_modules(__path__))
    found = {name: importlib.import_module(f"{__name__}.{name}").SHEET for name in names}
    return {name: found[name] for name in (*ORDER, *(name for name in found if name not in ORDER))}
