"""Which settings hold now: of the `emulate` that this thread entered last, else of the one entered last anywhere."""

from __future__ import annotations

import threading

from .settings import Settings


class Frame:
    """One entered `emulate`; frames compare by identity, so that equal settings can be entered twice."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.frames: list[Frame] = []


_own = _Stacks()
_all: list[Frame] = []
lock = threading.RLock()


def push(settings: Settings) -> tuple[Frame, bool]:
    """Enter settings in this thread; returns the frame and whether it is the first in the process."""
    frame = Frame(settings)
    with lock:
        _all.append(frame)
        _own.frames.append(frame)
        return frame, len(_all) == 1


def pop(frame: Frame) -> bool:
    """Leave a frame, from whichever thread entered it; returns whether none is left in the process."""
    with lock:
        _all.remove(frame)
        if frame in _own.frames:
            _own.frames.remove(frame)
        return not _all


def settings() -> Settings | None:
    """The settings that a launch in this thread takes, or None outside emulation.

    A thread that entered no `emulate` itself (a pool's worker, say) takes those of the program around it.
    """
    for frames in (_own.frames, _all):
        for frame in reversed(frames):
            if frame in _all:
                return frame.settings
    return None
