"""Which compute capability a kernel needs: `sm_80` is 8.0 or higher, `sm_90a` exactly 9.0 (its own instructions)."""

from __future__ import annotations

import re
from functools import cache

_NAME = re.compile(r"sm_(\d+)(\d)(a?)")


def parse(needs: str) -> tuple[tuple[int, int], bool]:
    """The compute capability that `needs` names, and whether no other will do. Raises ValueError for another text."""
    match = _NAME.fullmatch(needs)
    if match is None:
        raise ValueError(f"{needs!r} names no architecture; expected one such as 'sm_80' or 'sm_90a'")
    return (int(match[1]), int(match[2])), bool(match[3])


def lacking(backend: str, needs: str) -> str:
    """Why a kernel that needs this architecture cannot run on a backend; empty where it can.

    The CPU executor has every instruction that it knows, whatever architecture brought it.
    """
    if not needs or backend != "cuda":
        return ""
    return mismatch(needs, device_capability())


def mismatch(needs: str, capability: tuple[int, int]) -> str:
    """As `lacking`, for a GPU of this compute capability."""
    least, exactly = parse(needs)
    if capability == least or (capability > least and not exactly):
        return ""
    wanted = f"compute capability {least[0]}.{least[1]}" + ("" if exactly else " or higher")
    return f"needs {needs} ({wanted}); this GPU has {capability[0]}.{capability[1]}"


@cache
def device_capability() -> tuple[int, int]:
    """The compute capability of the current GPU."""
    from numba import cuda

    major, minor = cuda.get_current_device().compute_capability
    return int(major), int(minor)
