"""Streams and events of the CPU executor.

Launches and copies are synchronous, so work on a stream is done when the call returns; only host callbacks run later,
on a thread of their own, in order. Events take the time at which they are recorded.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from numba.cuda.cudadrv import driver as numba_driver

LEGACY_DEFAULT = 1
PER_THREAD_DEFAULT = 2
_NAMES = {0: "Default", LEGACY_DEFAULT: "Legacy default", PER_THREAD_DEFAULT: "Per-thread default"}


class Stream(numba_driver.Stream):
    """A queue of work whose launches and copies are done as soon as they are made."""

    def __init__(self, handle: int, external: bool = False) -> None:
        super().__init__(handle, external=external)
        self._lock = threading.Lock()
        self._callbacks: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._caller: int | None = None

    def __int__(self) -> int:
        return self.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def __repr__(self) -> str:
        kind = _NAMES.get(self.handle)
        if kind is not None:
            return f"<{kind} CUDA stream>"
        return f"<{'External ' if self.external else ''}CUDA stream {self.handle}>"

    def drain(self) -> None:
        """Wait for the callbacks added so far; inside a callback of this stream, return at once."""
        last = self._last
        if last is not None and self._caller != threading.get_ident():
            last.result()

    def synchronize(self) -> None:
        """Wait for everything on the stream."""
        self.drain()

    def add_callback(self, callback: Callable[[Any, int, Any], None], arg: Any = None) -> None:
        """Call `callback(stream, 0, arg)` on another thread, after the callbacks added before it."""

        def call() -> None:
            self._caller = threading.get_ident()
            try:
                callback(self, 0, arg)
            except Exception as error:
                warnings.warn(f"Exception in stream callback: {error}", stacklevel=2)

        with self._lock:
            if self._callbacks is None:
                self._callbacks = ThreadPoolExecutor(1, thread_name_prefix="refkit-stream")
            self._last = self._callbacks.submit(call)


class Event(numba_driver.Event):
    """A mark on a stream, with the time at which it was recorded."""

    def __init__(self, handle: int, timing: bool = True) -> None:
        super().__init__(handle)
        self.timing = timing
        self.recorded_ns: int | None = None
        self._stream: Any = None

    def query(self) -> bool:
        """Whether the work before the last record is done; a host callback may still be running."""
        last = getattr(self._stream, "_last", None)
        return last is None or last.done()

    def record(self, stream: Any = 0) -> None:
        """Mark this moment on `stream`."""
        self._stream = stream
        if hasattr(stream, "drain"):
            stream.drain()
        self.recorded_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Wait for the work before the last record."""
        if hasattr(self._stream, "drain"):
            self._stream.drain()

    def wait(self, stream: Any = 0) -> None:
        """Make later work on `stream` wait for this event."""
        self.synchronize()

    def elapsed_time(self, evtend: Any) -> float:
        """Milliseconds from this event to `evtend`."""
        return elapsed_milliseconds(self, evtend)


def elapsed_milliseconds(start: Event, end: Event) -> float:
    """Milliseconds between two recorded events; `CudaAPIError` as on a device if one has no time."""
    return (_recorded(end) - _recorded(start)) / 1e6


def _recorded(event: Event) -> int:
    if event.timing and event.recorded_ns is not None:
        return event.recorded_ns
    why = "was never recorded" if event.timing else "was made with timing=False"
    code = numba_driver.binding.CUresult.CUDA_ERROR_INVALID_HANDLE
    raise numba_driver.CudaAPIError(code, f"event_elapsed_time: an event {why}")
