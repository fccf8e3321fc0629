"""One launch of a probe's kernel on a backend, and what it means where that fails."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from refkit.cuda_kernels.ptx import UnsupportedArchitecture
from refkit.verify.backends import Backend, LaunchFault
from refkit.verify.probes import kernels

_NEEDS = re.compile(r"\S+ needs (?:compute capability|the target) [^\n]*")  # Numba puts its own lines round it


class Unsupported(Exception):
    """The device does not have the instruction; the text names the capability that it needs."""


def execute(
    backend: Backend, kernel: Any, inputs: tuple[np.ndarray, ...], output: np.ndarray, warps: int
) -> np.ndarray:
    """What the kernel leaves of `output`, its last argument: an experiment for each entry of the first axis.

    Raises `Unsupported`, or `LaunchFault` for every other way to fail.
    """
    return execute_blocks(backend, kernel, inputs, output, *kernels.launch_shape(len(output), warps))


def execute_blocks(
    backend: Backend, kernel: Any, inputs: tuple[np.ndarray, ...], output: np.ndarray, grid: Any, block: Any
) -> np.ndarray:
    """As `execute`, with a grid and block of one's own."""
    with backend.active():
        arrays = kernels.to_device(*inputs, output)
        try:
            backend.launch(lambda: kernel[grid, block](*arrays))
        except LaunchFault as fault:
            cause = _unsupported(fault)
            if cause is None:
                raise
            raise Unsupported(cause) from fault
        return np.asarray(arrays[-1].copy_to_host())


def _unsupported(error: BaseException | None) -> str | None:
    """The message of the `UnsupportedArchitecture` that an error comes from, or None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, UnsupportedArchitecture):
            match = _NEEDS.search(str(error))
            return match.group() if match else str(error)
        error = error.__cause__ or error.__context__
    return None
