"""`trace`: inside it, every launch is recorded and summed up per source line."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..emulation import emulate
from .recording import Recording, Traffic
from .report import MemoryReport


@dataclass(frozen=True)
class TracedLaunch:
    """One launch inside a `trace`: what it launched, and how."""

    kernel: str
    dispatcher: Any
    argument_types: tuple[Any, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared_bytes: int
    dynamic_shared_bytes: int


class Tracer:
    """Collects the launches of a `trace`; the executor hands each one over as it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traffic = Traffic()
        self.launches: list[TracedLaunch] = []

    @contextlib.contextmanager
    def launch(self, run: Any, dispatcher: Any) -> Iterator[None]:
        """Records one launch of the executor while it runs, and adds it unless it fails."""
        recording = Recording(run.kernel.access_sites, run.blocks, run.threads)
        recording.attach(run.launch_block)
        yield
        kernel = run.kernel
        with self._lock:
            self._traffic.add(kernel.name, kernel.line, recording)
            self.launches.append(
                TracedLaunch(
                    kernel=kernel.name,
                    dispatcher=dispatcher,
                    argument_types=kernel.argument_types,
                    grid=run.grid,
                    block=run.block,
                    static_shared_bytes=kernel.shared_bytes,
                    dynamic_shared_bytes=run.dynamic_shared_bytes,
                )
            )

    def report(self) -> MemoryReport:
        """The traffic of every launch so far, per kernel and source line, worst first."""
        with self._lock:
            return self._traffic.report()


class trace(contextlib.AbstractContextManager["Tracer"]):
    """A context like `emulate` in which launches are also traced; gives a `Tracer`.

        with refkit.cpu.trace() as tracer:
            host_code()
        for line in tracer.report().flagged: ...

    Of each launch up to 8 blocks are sampled, spread over the grid, and of each thread its first executions of each
    access. Parameters are those of `emulate` that make sense here.
    """

    def __init__(self, *, workers: int | None = None, timeout: float | None = None) -> None:
        self.tracer = Tracer()
        self._emulation = emulate(workers=workers, timeout=timeout)
        self._emulation.settings = dataclasses.replace(self._emulation.settings, tracer=self.tracer)

    def __enter__(self) -> Tracer:
        self._emulation.__enter__()
        return self.tracer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._emulation.__exit__(kind, error, traceback)
