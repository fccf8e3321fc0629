"""Timing on a GPU beside torch: device events, inputs from a fixed seed, the SM clock read before and after."""

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


def time_launches(launch: Callable[[], Any]) -> Timing:
    """The time of `launch`, which queues work on torch's current stream, warmed up; synchronises."""
    import torch

    for _ in range(3):
        launch()
    torch.cuda.synchronize()
    times, before = [], sm_clock()
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(HEAD_START_CYCLES)
        begin.record()
        for _ in range(LAUNCHES):
            launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / LAUNCHES * 1e3)
    return Timing(statistics.median(times), before, sm_clock())
