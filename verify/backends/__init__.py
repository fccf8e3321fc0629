"""Where a launcher runs: the interface that both backends share, and the choice between them.

A backend moves slabs (byte images with guard bands) to and from its memory and runs a launcher's call under a
watchdog. It knows nothing of specs, cases or checks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from refkit.verify.slabs import Slab


@dataclass(frozen=True)
class Handle:
    """One uploaded slab: `array` is what the launcher receives, `storage` what the backend downloads from."""

    array: Any
    storage: Any


_CAUSES = {
    "deadlock": "a barrier or a warp operation that not every thread reaches",
    "no_progress": "a loop that does not end, or a thread that waits for one that never comes",
    "memory": "an access out of bounds",
    "internal": "a fault of refkit, not of the kernel",
}


class LaunchFault(Exception):
    """A launch that did not end well: the kernel, or the launcher round it, is at fault.

    `kind` is one of `compile`, `launcher`, `deadlock`, `no_progress`, `exception`, `configuration`, `unsupported`,
    `internal`, `memory`, `device`, `sanitizer` (whose `findings` are the executor's); `location` is `file:line` in the
    user's code, or empty; `fatal` says that this process cannot launch again.
    """

    def __init__(
        self, kind: str, message: str, location: str = "", *, fatal: bool = False, findings: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message)
        self.findings = findings
        self.kind = kind
        self.message = message
        self.location = location
        self.fatal = fatal

    @property
    def cause(self) -> str:
        """What a fault of this kind mostly comes from, where the message does not say it already; else ''."""
        return _CAUSES.get(self.kind, "")

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class Unavailable(Exception):
    """The backend asked for cannot run on this machine; the text says why."""


class Backend(Protocol):
    """What `run_trial` needs of a backend.

    `few_signatures` asks that arrays which may have strides always be uploaded as such: a kernel is then compiled once
    for all their layouts. `run_trial` gives it up where a kernel does not compile so.
    """

    name: str
    few_signatures: bool

    def active(self) -> AbstractContextManager[Any]:
        """A context inside which targets are imported and launches run on this backend."""
        ...

    def upload(self, slab: Slab, *, any_strides: bool = False) -> Handle:
        """Copy `slab.image` to the backend's memory and view its elements there.

        `any_strides=True` makes the array's Numba type `A` whatever its strides, so that a kernel is compiled for two
        layouts at most, however many are drawn.
        """
        ...

    def download(self, handle: Handle) -> np.ndarray:
        """The slab's whole image (uint8, guard bands included) as the launch left it; a copy."""
        ...

    def launch(self, call: Callable[[], Any], *, schedule: int | None = None) -> None:
        """Run `call` (the launcher with its arguments) and wait for it; raises `LaunchFault`.

        `schedule=None` is the backend's own order of threads; an integer seeds another one, where the backend can
        choose.
        """
        ...

    @property
    def schedules(self) -> bool:
        """True where `launch(schedule=n)` really chooses the order of threads."""
        ...


def open_backend(
    name: str, *, workers: int | None = None, timeout: float | None = None, few_signatures: bool = False
) -> Backend:
    """The backend `cpu` or `cuda`, or with `auto` the GPU where there is one; `Unavailable` where it cannot run here.

    `workers` is the number of cores that one launch may use on the CPU, `timeout` the seconds that a launch may take,
    `few_signatures` as in `Backend`, on the CPU: a GPU is given the types of production.
    """
    from refkit.verify.backends.cpu import CpuBackend
    from refkit.verify.backends.cuda import CudaBackend, gpu_problem

    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"backend is {name!r}; it must be auto, cpu or cuda")
    problem = "" if name == "cpu" else gpu_problem()
    if name == "cuda" and problem:
        raise Unavailable(f"--backend cuda: {problem}")
    if name == "cpu" or problem:
        return CpuBackend(workers=workers, timeout=timeout, few_signatures=few_signatures)
    return CudaBackend(timeout=timeout)
