"""`emulate`: inside it, Numba CUDA host code and the kernels it launches run on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from numba.core import config
from numba.cuda.core import callconv
from numba.cuda.cudadrv import devicearray, nvvm
from numba.cuda.cudadrv import devices as numba_devices
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.cudadrv import runtime as numba_runtime

from . import active, allocations, dispatch, fibers, frontend, host_api
from .device_array import DeviceArray, DeviceRecord
from .settings import MOST_OPTIMISED, Settings
from .transfers import auto_device

_ABSENT = object()


class emulate(contextlib.ContextDecorator):
    """A context (or decorator) in which CUDA host code runs on the CPU, unchanged.

    Every `@cuda.jit` launch and the host API of `numba.cuda` are emulated, whichever way the program imported them; no
    GPU and no environment variable is needed, and on a machine with a GPU nothing is changed outside. Contexts nest,
    the inner settings holding inside, and one object can be entered repeatedly.

    While any thread is inside, the whole process is: threads that entered no context themselves use the settings of the
    context entered last.

    Parameters are those of `Settings`. Raises TypeError or ValueError that names a wrong value, RuntimeError under
    `NUMBA_ENABLE_CUDASIM`.
    """

    def __init__(
        self,
        *,
        sanitize: Iterable[str] = (),
        schedule: int | None = None,
        workers: int | None = None,
        timeout: float | None = None,
        always_raise: bool = True,
        sample: int | None = None,
        preempt: int = 0,
        optimise: int = MOST_OPTIMISED,
    ) -> None:
        self.settings = Settings.checked(sanitize, schedule, workers, timeout, always_raise, sample, preempt, optimise)
        self._frames: list[active.Frame] = []

    def __enter__(self) -> Settings:
        if config.ENABLE_CUDASIM:
            raise RuntimeError(
                "NUMBA_ENABLE_CUDASIM=1 replaces numba.cuda by its simulator; unset it to run on the CPU executor"
            )
        fibers.check_platform()
        with active.lock:
            frame, first = active.push(self.settings)
            if first:
                try:
                    _patched.install()
                except BaseException:
                    active.pop(frame)
                    raise
            self._frames.append(frame)
        return self.settings

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with active.lock:
            if active.pop(self._frames.pop()):
                _patched.restore()


def is_active() -> bool:
    """Whether the calling thread is inside `emulate`."""
    return active.settings() is not None


class _Patched:
    """The attributes of Numba that emulation replaces, and what stood there before."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        try:
            for owner, name, value in _replacements():
                self._before.append(
                    (owner, name, type(owner) if name == "__class__" else vars(owner).get(name, _ABSENT))
                )
                setattr(owner, name, value)
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


_patched = _Patched()


def _replacements() -> list[tuple[Any, str, Any]]:
    return [
        (numba_driver.driver, "__class__", host_api.EmulatedDriver),
        (numba_devices._runtime, "__class__", host_api.EmulatedRuntime),
        (numba_devices.gpus, "__class__", host_api.EmulatedDeviceList),
        (devicearray, "DeviceNDArray", DeviceArray),
        (devicearray, "DeviceRecord", DeviceRecord),
        (devicearray, "auto_device", auto_device),
        (nvvm, "is_available", lambda: True),
        (callconv._MinimalCallHelper, "_add_exception", frontend.number_exception),
        (numba_runtime.Runtime, "get_version", lambda self: (13, 0)),
        *dispatch.patches(),
        *allocations.patches(),
    ]
