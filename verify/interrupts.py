"""Ctrl-C and SIGTERM while worker processes run: who sees them, and how often."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any


@contextmanager
def interrupted_once() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM inside raises KeyboardInterrupt, and every later one is dropped.

    The first one ends the work; an impatient second one must not cost what was found and is being written.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)

    def interrupt(number: int, frame: Any) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # a job in the background keeps out of the terminal's way
                signal.signal(number, interrupt)
    except ValueError:  # not the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterruptible_child() -> Iterator[None]:
    """A process started inside never sees Ctrl-C, not even while it still imports.

    Ctrl-C reaches the whole process group; the parent alone decides what it means.
    """
    # Starting the tracker unblocks signals as a side effect, so it has to run already.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
