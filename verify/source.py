"""The source text that a finding points at, so that a record can be read where the file is not."""

from __future__ import annotations

import linecache

AROUND = 2
"""Lines shown before and after the one that is meant."""


def lines_around(file: str, line: int, around: int = AROUND) -> tuple[tuple[str, ...], int]:
    """The text of `line` (counted from 1) and its neighbours, and the number of the first; nothing and 0 where the
    file cannot be read or has no such line."""
    text = linecache.getlines(file)
    if not 1 <= line <= len(text):
        return (), 0
    start = max(1, line - around)
    return tuple(each.rstrip() for each in text[start - 1 : line + around]), start
