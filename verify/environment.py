"""The machine and the versions that a run stood on, for the JSON and the report."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

_PACKAGES = {name.replace("-", "_"): name for name in ("numpy", "numba", "numba-cuda", "llvmlite", "hypothesis")}


def describe_environment(backend: str) -> dict[str, Any]:
    """Versions, processor, platform, date (UTC, ISO 8601), and with the `cuda` backend the GPU, its driver and its
    clocks."""
    return {
        "python": platform.python_version(),
        **package_versions(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "platform": platform.platform(),
        "gpu": describe_gpu() if backend == "cuda" else None,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def simulator_problem() -> str:
    """Why nothing can be verified under Numba's own simulator, where that is switched on; else ''."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") in ("", "0"):
        return ""
    return "NUMBA_ENABLE_CUDASIM is set; unset it: refkit runs kernels without a GPU by itself"


def package_versions() -> dict[str, str | None]:
    """The versions of the packages that results depend on; None for one that is not installed."""
    return {key: _version(name) for key, name in _PACKAGES.items()}


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def cpu_model() -> str:
    """The processor's name, as the kernel reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("model name", "cpu model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_gpu() -> dict[str, Any] | None:
    """The current GPU: name, compute capability, memory, driver, and (with nvidia-ml-py) its clocks in MHz now and at
    most."""
    try:
        from numba import cuda

        device = cuda.get_current_device()
        name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
        found: dict[str, Any] = {"name": name, "compute_capability": ".".join(map(str, device.compute_capability))}
    except Exception:
        return None
    return {**found, **_nvml_facts(str(getattr(device, "uuid", "")))}


def _nvml_facts(uuid: str) -> dict[str, Any]:
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
            return {
                "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
                "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                "sm_clock_mhz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
                "sm_clock_max_mhz": int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
                "memory_clock_mhz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            }
        finally:
            pynvml.nvmlShutdown()
    except Exception as error:
        return {"clocks": f"not read ({type(error).__name__}: {error})"}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
