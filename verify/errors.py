"""The two mistakes that a caller can make: a wrong spec and a wrong target. Each is one clear line."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback

_HERE = os.path.dirname(os.path.realpath(__file__))
_NOT_THE_USERS = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


USERS_FAULTS = (Exception, SystemExit)
"""What the user's own code may raise: `exit()` in it must not end refkit, and Ctrl-C must."""


class SpecError(ValueError):
    """A `KernelSpec` or one of its parts is wrong. `source` is the user's `file:line`, the first thing in the text."""

    def __init__(self, message: str, source: str | None = None) -> None:
        self.message = message
        self.source = caller_location() if source is None else source
        super().__init__(f"{self.source}: {message}" if self.source else message)

    def __reduce__(self) -> tuple[type[SpecError], tuple[str, str]]:
        return type(self), (self.message, self.source)


class TargetError(Exception):
    """A target cannot be found or imported, or holds no spec."""


def caller_location() -> str:
    """`file:line` of the innermost running frame outside this folder (its subfolders count as outside), or ''."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        # "<string>" is the __init__ that dataclasses generate.
        if not path.startswith("<") and os.path.dirname(os.path.realpath(path)) != _HERE:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def raised_at(error: BaseException) -> str:
    """`file:line` of the innermost frame of `error` in the user's own code, or '' where there is none.

    Installed packages, the standard library, and this folder are not the user's.
    """
    location = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        real = os.path.realpath(path)
        if not path.startswith("<") and not real.startswith(_NOT_THE_USERS) and os.path.dirname(real) != _HERE:
            location = f"{path}:{line}"
    return location
