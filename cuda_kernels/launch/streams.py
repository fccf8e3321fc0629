"""Streams of Numba, of other libraries, and bare handles, as Numba streams."""

from __future__ import annotations

from typing import Any

from numba import cuda
from numba.cuda.cudadrv import driver


def as_stream(stream: Any, launcher: str = "stream") -> Any:
    """A Numba stream for whatever stands for one; 0, Numba's default stream, for None and 0.

    stream: a Numba stream, an integer handle (cudaStream_t), or an object with `__cuda_stream__` (a method that gives
    version and handle), `cuda_stream` (torch) or `ptr` (CuPy). Raises TypeError for anything else.
    """
    if stream is None:
        return 0
    if isinstance(stream, driver.Stream):
        return stream
    handle = _handle(stream)
    if handle is None:
        raise TypeError(
            f"{launcher}: stream is {stream!r}, expected None, a stream of Numba, torch or CuPy, or an integer handle"
        )
    return cuda.external_stream(handle) if handle else 0


def _handle(stream: Any) -> int | None:
    if isinstance(stream, bool):
        return None
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair = protocol() if callable(protocol) else protocol
        return int(pair[1])
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int) and not isinstance(handle, bool):
            return handle
    return None
