"""Timing on a GPU beside torch: device events, the SM clock read before and after, results checked in float64."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LAUNCHES = 5  # per measurement, so that the gaps between launches hide behind the work
REPEATS = 9
HEAD_START_CYCLES = 20_000_000  # the GPU sleeps while the host queues the launches of a measurement


def obstacle() -> str | None:
    """Why nothing can be measured here; None where a GPU and torch are at hand."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed: it is the peer"
    from numba import cuda

    return None if cuda.is_available() else "there is no GPU"


@dataclass(frozen=True)
class Timing:
    """Median microseconds of one launch, and the SM clock in MHz before and after the measurement."""

    median_us: float
    clock_before: float | None
    clock_after: float | None


def sm_clock() -> float | None:
    """The SM clock of the current GPU in MHz; None without nvidia-ml-py."""
    try:
        import pynvml
    except ImportError:
        return None
    import torch

    pynvml.nvmlInit()
    uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}".encode())
    return float(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))


def time_launches(launch: Callable[[], Any], *, launches: int = LAUNCHES, repeats: int = REPEATS) -> Timing:
    """The time of `launch`, which queues work on torch's current stream, warmed up; synchronises.

    `launches` of them make one measurement, and the median of `repeats` measurements counts.
    """
    import torch
    from numba import cuda

    for _ in range(min(3, launches)):
        launch()
    torch.cuda.synchronize()
    times, before = [], sm_clock()
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with cuda.defer_cleanup():  # freeing scratch memory waits for the device
            torch.cuda._sleep(HEAD_START_CYCLES)
            begin.record()
            for _ in range(launches):
                launch()
            end.record()
            torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / launches * 1e3)
    return Timing(statistics.median(times), before, sm_clock())


def relative_error(launch: Callable[[], Any], a: Any, b: Any, c: Any) -> float:
    """|c - a b| / |a b| over every 61st row, c poisoned with NaN before the launch; NaN where one was left."""
    import torch

    c.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    if bool(torch.isnan(c).any()):
        return float("nan")
    # By way of float32, which every format converts to.
    expected = a[::61].float().double() @ b.float().double()
    return float((c[::61].double() - expected).norm() / expected.norm())
