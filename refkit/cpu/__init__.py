"""The CPU executor: `@cuda.jit` kernels and the host code around them, on a plain CPU.

with refkit.cpu.emulate():
    host_code()
"""

import os

if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
    # Under Numba's own simulator there is no compiler, and so nothing for the executor to run.
    raise ImportError("NUMBA_ENABLE_CUDASIM is set; unset it: refkit runs kernels without a GPU by itself")

from .device_array import DeviceArray, DeviceRecord
from .emulation import emulate, is_active
from .faults import (
    Deadlock,
    Finding,
    KernelException,
    KernelFault,
    LaunchConfigurationError,
    NoProgress,
    SanitizerFault,
    Side,
    Unsupported,
)
from .memory_model import LineTraffic, MemoryReport
from .memory_model.tracing import Tracer, trace
from .settings import SANITIZERS, Settings

__all__ = [
    "SANITIZERS",
    "Deadlock",
    "DeviceArray",
    "DeviceRecord",
    "Finding",
    "KernelException",
    "KernelFault",
    "LaunchConfigurationError",
    "LineTraffic",
    "MemoryReport",
    "NoProgress",
    "SanitizerFault",
    "Settings",
    "Side",
    "Tracer",
    "Unsupported",
    "emulate",
    "is_active",
    "trace",
]
