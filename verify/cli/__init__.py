"""The commands of `python -m refkit.verify`, one file each.

A file in this folder that defines `HELP` is a command, named as the file is; no list anywhere needs an edit. It
defines:

    HELP: str                                            one line, shown by `--help`
    def configure(parser: argparse.ArgumentParser)       adds its arguments (shared ones: `options.py`)
    def run(arguments: argparse.Namespace) -> int        does the work and returns the exit status

Files without `HELP` (`options.py`, `render.py`, ...) help the commands. Every command file is imported to show
`--help`, so whatever is slow to import (numba, hypothesis, rich) is imported inside `run`. What goes wrong is raised
as `CommandError`: `main` prints its one line on stderr and returns its status; any other exception is one line as
well, with status 1. `--traceback` shows the traceback before it.

Exit status: 0 all hold; 1 a kernel failed a check, is mistrusted, or ended in an error; 2 the call was wrong (a bad
option, no such target, no spec in it, a spec whose reference does not fit it); 3 what was asked for cannot run here.
Where several apply, a kernel that failed (1) goes before a wrong spec (2). A run that was interrupted returns 1 if
something had failed by then, else 130.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys

WRONG_CALL = 2
CANNOT_RUN = 3
INTERRUPTED = 130


def program() -> str:
    """How the user called refkit, for a command line that can be pasted: `refkit`, or Python with `-m`."""
    if os.path.basename(sys.argv[0]) == "refkit":
        return "refkit" if shutil.which("refkit") else shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.orig_argv[0])} -m refkit.verify"


def replay_command(case_file: str) -> str:
    """The command that runs a saved case again."""
    return f"{program()} replay {shlex.quote(case_file)}"


def discard_output() -> None:
    """Send nowhere what is still printed: the reader of stdout (head, less) has left, and Python must not complain at
    exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class CommandError(Exception):
    """One clear line for the user and the exit status that goes with it."""

    def __init__(self, message: str, status: int = WRONG_CALL) -> None:
        super().__init__(message)
        self.status = status
