"""The two mistakes that a caller can make: a wrong spec and a wrong target. Each is one clear line."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback

import refkit

_HERE = os.path.dirname(os.path.realpath(__file__))
PACKAGE = os.path.dirname(os.path.realpath(refkit.__file__))
"""The folder of the package, in a clone as where it is installed."""
_OURS = (_HERE + os.sep, PACKAGE + os.sep)
_UNDER_TEST = (os.path.join(_HERE, "specs") + os.sep, os.path.join(PACKAGE, "reference") + os.sep)
_LIBRARIES = tuple(
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


def is_users(filename: str) -> bool:
    """True where `filename` is neither Python's, nor an installed package's, nor refkit's own.

    The kernels, references and specs of refkit itself count as the user's: they are what is under test.
    """
    # Compiled extensions name sources that are not there, as seen from wherever they were built.
    if filename.startswith("<") or filename.endswith((".pyx", ".pxd", ".pxi")):
        return False
    path = os.path.realpath(filename)
    if path.startswith(_UNDER_TEST) or "cuda_kernels" in path.split(os.sep):
        return True
    return not path.startswith(_OURS + _LIBRARIES)


def raised_at(error: BaseException) -> str:
    """`file:line` of the innermost frame of `error` in the user's own code, or '' where there is none."""
    location = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_users(frame.f_code.co_filename):
            location = f"{frame.f_code.co_filename}:{line}"
    return location
