"""From whatever a launch raised to one `LaunchFault`: its kind, one clear line, and the user's own file and line."""

from __future__ import annotations

import os
import re
import sys
import traceback
from pathlib import Path

from refkit.verify.backends import LaunchFault
from refkit.verify.errors import PACKAGE, is_users

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FILE_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_AT_LINE = re.compile(r" at (\S.*?) \((\d+)\)")
_NOISE = re.compile(r"^(Failed in \w+ mode pipeline.*|During: .*|-+%<-+.*)$")

_COMPILER = "numba/cuda/core/compiler_machinery.py"
"""The file of numba-cuda that runs the passes of a compilation."""
_EXECUTOR = os.path.join(PACKAGE, "cpu") + os.sep


def user_location(error: BaseException) -> str:
    """`file:line` of the innermost frame of `error`'s traceback that is the user's; empty where there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename) and frame.lineno:
            return f"{frame.filename}:{frame.lineno}"
    return ""


def one_line(error: BaseException) -> str:
    """The type and the text of `error`, folded into one line."""
    text = " ".join(_ANSI.sub("", str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_compile_error(error: BaseException) -> bool:
    """True where the kernel could not be typed or lowered: Numba said so, or its compiler itself broke on it."""
    return _is_numbas(error) or any(
        Path(frame.filename).as_posix().endswith(_COMPILER) for frame in traceback.extract_tb(error.__traceback__)
    )


def _is_numbas(error: BaseException) -> bool:
    return any(base.__name__ == "NumbaError" for base in type(error).__mro__) or (
        type(error).__name__ in ("UnsupportedBytecodeError", "NvvmError", "LinkerError")
    )


def compile_fault(error: BaseException) -> LaunchFault:
    """A `compile` fault: Numba's message without its pipeline noise, and the line of the kernel that it points at."""
    text = _ANSI.sub("", str(error)) if _is_numbas(error) else f"numba-cuda failed with {one_line(error)}"
    lines: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if _FILE_LINE.match(stripped):
            break  # what follows is an excerpt of the source, which the location says more shortly
        if stripped.startswith(("There are", "- Of which")):
            break  # the list of every overload that did not match
        if stripped and not _NOISE.match(stripped):
            lines.append(stripped)
    message = " ".join(lines) or type(error).__name__
    return LaunchFault("compile", f"the kernel does not compile: {message}", _compile_location(error, text))


def _compile_location(error: BaseException, text: str) -> str:
    loc = getattr(error, "loc", None)
    if loc is not None and getattr(loc, "line", None) and is_users(loc.filename):
        return f"{loc.filename}:{loc.line}"
    for pattern in (_AT_LINE, _FILE_LINE):
        for filename, line in pattern.findall(text):
            if is_users(filename):
                return f"{Path(filename).resolve()}:{line}"
    return user_location(error)


def launcher_fault(error: BaseException) -> LaunchFault:
    """A `launcher` fault: the launcher itself raised `error`."""
    return LaunchFault("launcher", f"the launcher raised {one_line(error)}", user_location(error))


def is_our_own(error: BaseException) -> bool:
    """True where `error` is a mistake in the executor: of a kind that it never raises on purpose, and raised by its
    own code."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = bool(frames) and str(Path(frames[-1].filename).resolve()).startswith(_EXECUTOR)
    return inside and isinstance(error, (NameError, AttributeError, AssertionError, KeyError))


def from_exception(error: BaseException) -> LaunchFault:
    """The fault that a launch which raised `error` comes to, where the backend knows nothing more exact."""
    if isinstance(error, LaunchFault):
        return error
    if is_our_own(error):
        return LaunchFault("internal", f"refkit's own executor failed: {one_line(error)}", user_location(error))
    return compile_fault(error) if is_compile_error(error) else launcher_fault(error)


def numba_is_simulated() -> bool:
    """True where NUMBA_ENABLE_CUDASIM made `numba.cuda` its Python simulator, under which no kernel is compiled."""
    config = sys.modules.get("numba.cuda.core.config") or sys.modules.get("numba.core.config")
    return bool(getattr(config, "ENABLE_CUDASIM", 0))
