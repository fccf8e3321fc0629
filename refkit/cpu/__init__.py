"""The CPU executor: `@cuda.jit` kernels and the host code around them, on a plain CPU.

with refkit.cpu.emulate():
    host_code()
"""

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
