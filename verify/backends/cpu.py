"""The CPU backend: slabs are host memory and launchers run under `refkit.cpu.emulate`, no GPU and no driver needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from refkit.verify.backends import Handle, LaunchFault, faults
from refkit.verify.errors import USERS_FAULTS

if TYPE_CHECKING:
    from refkit.cpu import DeviceArray
    from refkit.verify.slabs import Slab

DEFAULT_TIMEOUT = 20.0
"""Seconds that one launch may take on the CPU, compilation not included."""

ALIGNMENT = 256
"""Bytes to which an image's first byte is aligned, as device memory is: a slab's offset then means the same on both
backends."""

OPTIMISE = 1
"""How hard LLVM works on a kernel: it is launched a few hundred times on small arrays, and compiling takes longer."""

SANITIZERS = frozenset({"race", "memory", "uninitialized", "barrier"})

_KINDS = {
    "SanitizerFault": "sanitizer",
    "Deadlock": "deadlock",
    "NoProgress": "no_progress",
    "KernelException": "exception",
    "Unsupported": "unsupported",
    "LaunchConfigurationError": "configuration",
}


class CpuBackend:
    """Runs launchers on the CPU executor; a seeded schedule replays the same order of threads exactly.

    One launch uses one core unless `workers` says otherwise: the order of atomics, and with it every result, then
    depends on nothing but the case, and the cores go to other kernels.
    """

    name = "cpu"
    schedules = True

    def __init__(
        self,
        *,
        workers: int | None = None,
        timeout: float | None = None,
        sanitize: bool = False,
        few_signatures: bool = False,
    ) -> None:
        self.few_signatures = few_signatures
        self.sanitize = SANITIZERS if sanitize else frozenset()
        self.workers = 1 if workers is None else workers
        self.timeout = DEFAULT_TIMEOUT if timeout is None else timeout

    def active(self) -> AbstractContextManager[Any]:
        """Emulation on: `numba.cuda` needs no driver, and eagerly typed kernels import."""
        return self._emulation()

    def upload(self, slab: Slab, *, any_strides: bool = False) -> Handle:
        """Copy the slab's bytes to aligned memory and view its elements there."""
        from refkit.cpu import DeviceArray

        image = aligned_copy(slab.image)
        elements = np.ndarray(slab.shape, slab.dtype, buffer=image, offset=slab.offset, strides=slab.strides)
        cls = _any_strides_class() if any_strides else DeviceArray
        return Handle(cls.wrap(elements), image)

    def download(self, handle: Handle) -> np.ndarray:
        """A copy of the whole image."""
        return handle.storage.copy()

    def launch(self, call: Callable[[], Any], *, schedule: int | None = None) -> None:
        """Run `call` under the executor's watchdog, with the threads in order or in the seeded order."""
        try:
            with self._emulation(schedule):
                call()
        except USERS_FAULTS as error:
            raise _fault(error) from error

    def _emulation(self, schedule: int | None = None) -> AbstractContextManager[Any]:
        from refkit.cpu import emulate

        return emulate(
            sanitize=self.sanitize,
            schedule=schedule,
            workers=self.workers,
            timeout=self.timeout,
            optimise=OPTIMISE,
        )


@cache
def _any_strides_class() -> type[DeviceArray]:
    """The device array whose Numba type is `A`, and stays so when it is sliced or reshaped."""
    from numba.cuda import types
    from numba.cuda.np import numpy_support

    from refkit.cpu import DeviceArray

    class AnyStridesArray(DeviceArray):
        @property
        def _numba_type_(self) -> Any:
            return types.Array(numpy_support.from_dtype(self.dtype), self.ndim, "A" if self.ndim else "C")

    return AnyStridesArray


def aligned_copy(image: np.ndarray) -> np.ndarray:
    """A copy of the bytes of `image` whose first byte lies at a multiple of `ALIGNMENT`."""
    room = np.empty(image.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy = room[start : start + image.nbytes]
    copy[...] = image.reshape(-1).view(np.uint8)
    return copy


def _fault(error: BaseException) -> LaunchFault:
    kind = next((_KINDS[base.__name__] for base in type(error).__mro__ if base.__name__ in _KINDS), "")
    if kind:
        file, line = getattr(error, "file", "") or "", getattr(error, "line", 0) or 0
        where = f"{file}:{line}" if file and line else ""
        # A wrong grid or block stands where the kernel is launched, not where it is defined.
        launched_at = faults.user_location(error)
        where = launched_at or where if kind == "configuration" else where or launched_at
        findings = getattr(error, "findings", ())
        return LaunchFault(kind, str(getattr(error, "message", "") or error), where, findings=findings)
    return faults.from_exception(error)
