"""The GPU backend: slabs live in device memory allocated by numba-cuda, and launchers run as they do in production."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from refkit.verify.backends import Handle, LaunchFault, faults
from refkit.verify.errors import USERS_FAULTS

if TYPE_CHECKING:
    from refkit.verify.slabs import Slab

DEFAULT_TIMEOUT = 30.0
"""Seconds that one launch may take on the GPU, compilation not included."""

# CUresult codes after which the context, and so this process, can launch nothing more (CUDA driver API, "CUresult").
_FATAL = {
    700: "the kernel accessed an illegal address",
    702: "the launch timed out",
    709: "the CUDA context was destroyed",
    710: "an assertion failed in the kernel",
    714: "an exception was thrown on the device (hardware stack error)",
    715: "the kernel executed an illegal instruction",
    716: "the kernel accessed a misaligned address",
    717: "the kernel used an instruction on a wrong address space",
    718: "the kernel's program counter is invalid",
    719: "the kernel failed on the device (unspecified launch failure)",
}
# Codes of a launch that the driver refused; the context lives on.
_REFUSED = {1: "invalid value", 9: "invalid configuration", 701: "out of resources (registers or shared memory)"}


@cache
def gpu_problem() -> str:
    """Why no kernel can run on a GPU here, in one line; empty where one can."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        return "NUMBA_ENABLE_CUDASIM is set, which replaces the GPU by Numba's simulator"
    from numba import cuda
    from numba.cuda.cudadrv import driver, nvvm

    if cuda.is_available():
        try:
            return "" if len(cuda.gpus) else "no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES may hide it)"
        except Exception as error:
            return faults.one_line(error)
    try:
        driver.driver.ensure_initialized()
    except Exception as error:
        return f"no usable NVIDIA GPU ({faults.one_line(error)})"
    if driver.driver.initialization_error:
        text = " ".join(str(driver.driver.initialization_error).split())
        return f"no usable NVIDIA GPU here ({text})"
    if not nvvm.is_available():
        return "a GPU is there, but NVVM is not installed: pip install 'refkit-cuda[cu13]' (or [cu12])"
    return "no usable NVIDIA GPU here"


@cache
def _any_strides_class() -> type:
    """The device array whose Numba type is `A`, and stays so when it is sliced or reshaped."""
    from numba.cuda import types
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.np import numpy_support

    class AnyStridesArray(DeviceNDArray):
        @property
        def _numba_type_(self) -> Any:
            return types.Array(numpy_support.from_dtype(self.dtype), self.ndim, "A" if self.ndim else "C")

    return AnyStridesArray


class CudaBackend:
    """Runs launchers on the current GPU. The order of threads is the hardware's, so schedules cannot be chosen."""

    name = "cuda"
    schedules = False
    few_signatures = False

    def __init__(self, *, timeout: float | None = None) -> None:
        self.timeout = DEFAULT_TIMEOUT if timeout is None else timeout

    @contextmanager
    def active(self) -> Iterator[None]:
        """Nothing to switch but warnings: the grids of small cases are small on purpose."""
        from numba.cuda.core.errors import NumbaPerformanceWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaPerformanceWarning)
            yield

    def upload(self, slab: Slab, *, any_strides: bool = False) -> Handle:
        """Copy the slab's bytes to the device and view its elements there."""
        from numba import cuda
        from numba.cuda.cudadrv.devicearray import DeviceNDArray

        try:
            storage = cuda.to_device(np.ascontiguousarray(slab.image))
            cls = _any_strides_class() if any_strides else DeviceNDArray
            memory = storage.gpu_data.view(slab.offset, slab.image.nbytes)
            array = cls(tuple(slab.shape), tuple(slab.strides), np.dtype(slab.dtype), gpu_data=memory)
        except Exception as error:
            raise _fault(error) from error
        return Handle(array, storage)

    def download(self, handle: Handle) -> np.ndarray:
        """The whole image, copied to the host."""
        try:
            return np.asarray(handle.storage.copy_to_host()).view(np.uint8)
        except Exception as error:
            raise _fault(error) from error

    def launch(self, call: Callable[[], Any], *, schedule: int | None = None) -> None:
        """Run `call` and wait for the device, at most `timeout` seconds after the launcher returned."""
        from numba import cuda

        try:
            call()
            self._wait()
            cuda.synchronize()
        except USERS_FAULTS as error:
            raise _fault(error) from error

    def _wait(self) -> None:
        # A blocking synchronise could never be left: a kernel that loops for ever holds it, so the event is polled.
        from numba import cuda

        event = cuda.event(timing=False)
        event.record()
        deadline = time.monotonic() + self.timeout
        pause = 0.0
        while not event.query():
            if time.monotonic() > deadline:
                message = f"the kernel made no end within {self.timeout:g} s: it loops for ever, or waits for ever"
                raise LaunchFault("no_progress", message, fatal=True)
            time.sleep(pause)
            pause = min(1e-3, pause + 2e-5)


def _driver_code(error: BaseException) -> tuple[int | None, str]:
    # numba-cuda's CudaAPIError carries the code; cuda.core's CUDAError only names it in its text.
    code = getattr(error, "code", None)
    if type(error).__name__ == "CudaAPIError" and code is not None:
        return int(code), getattr(code, "name", str(code))
    if type(error).__name__ == "CUDAError" and (match := re.search(r"CUDA_ERROR_\w+", str(error))):
        from numba.cuda.cudadrv import driver

        member = getattr(driver.binding.CUresult, match.group(), None)
        return (None if member is None else int(member)), match.group()
    return None, ""


def _fault(error: BaseException) -> LaunchFault:
    """The fault for anything that numba-cuda or the launcher raised."""
    if isinstance(error, LaunchFault):
        return error
    number, name = _driver_code(error)
    if number is not None:
        where = faults.user_location(error)
        if number in _FATAL:
            kind = "memory" if number in (700, 716, 717) else "device"
            return LaunchFault(kind, f"{_FATAL[number]} ({name})", where, fatal=True)
        if number in _REFUSED:
            return LaunchFault("configuration", f"the launch was refused: {_REFUSED[number]} ({name})", where)
        return LaunchFault("device", f"{error} ({name})", where, fatal=number not in (2,))
    if type(error).__name__ == "KernelRuntimeError":
        return LaunchFault("exception", f"the kernel raised {faults.one_line(error)}", faults.user_location(error))
    return faults.from_exception(error)
