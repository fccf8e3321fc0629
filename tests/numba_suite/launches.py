"""Emulation as the suite runs in it, with its launches counted, also in the processes that a test starts.

Python imports `sitecustomize` first of all; the one in `started_processes/` calls `emulate_this_process`.
"""

import atexit
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import refkit.cpu
from refkit.cpu import dispatch
from refkit.cpu import launch as executor

LAUNCH_LIMIT = 60.0  # seconds of one launch
_VARIABLE = "NUMBA_SUITE_LAUNCHES"  # names the file to which started processes write a letter per launch
_ASKED, _COMPLETED = b"a", b"c"


@contextlib.contextmanager
def counted_emulation(on_launch: Callable[[], object], on_completion: Callable[[], object]) -> Iterator[None]:
    """Inside, kernels run on the executor; told are the launches asked for, and those that end without an error.

    Exceptions of kernels are reported as a GPU does, from debug kernels alone.
    """
    with refkit.cpu.emulate(timeout=LAUNCH_LIMIT, always_raise=False):
        call, launch = dispatch.CUDADispatcher.call, executor.launch

        def counted_call(*args: Any, **named: Any) -> Any:
            on_launch()
            return call(*args, **named)

        def counted_launch(*args: Any, **named: Any) -> None:
            launch(*args, **named)
            on_completion()

        dispatch.CUDADispatcher.call, executor.launch = counted_call, counted_launch
        try:
            yield
        finally:
            dispatch.CUDADispatcher.call, executor.launch = call, launch


def emulate_started_processes(letters: Path) -> None:
    """From here on, Python processes that this one starts are emulated, and write their launches to a file."""
    letters.touch()
    os.environ[_VARIABLE] = str(letters)
    first = str(Path(__file__).with_name("started_processes"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (first, os.environ.get("PYTHONPATH"))))


def emulate_this_process() -> None:
    """Emulation to the end of this process, if it is one that a test started."""
    if _VARIABLE not in os.environ:
        return
    file = open(os.environ[_VARIABLE], "ab", buffering=0)  # noqa: SIM115 - open as long as the process lives
    stack = contextlib.ExitStack()
    stack.enter_context(counted_emulation(lambda: file.write(_ASKED), lambda: file.write(_COMPLETED)))
    atexit.register(stack.close)  # which also keeps it until then


def launches_of_started_processes(letters: Path, offset: int) -> tuple[int, int, int]:
    """Launches asked for and completed that were written after an offset, and the offset of the next ones."""
    with letters.open("rb") as file:
        file.seek(offset)
        found = file.read()
    return found.count(_ASKED), found.count(_COMPLETED), offset + len(found)
