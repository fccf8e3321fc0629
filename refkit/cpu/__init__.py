"""The CPU executor: `@cuda.jit` kernels and the host code around them, on a plain CPU.

with refkit.cpu.emulate():
    host_code()
"""

from .device_array import DeviceArray, DeviceRecord
from .emulation import emulate, is_active
from .faults import (
    Deadlock,
    KernelException,
    KernelFault,
    LaunchConfigurationError,
    NoProgress,
    Unsupported,
)
from .settings import SANITIZERS, Settings

__all__ = [
    "SANITIZERS",
    "Deadlock",
    "DeviceArray",
    "DeviceRecord",
    "KernelException",
    "KernelFault",
    "LaunchConfigurationError",
    "NoProgress",
    "Settings",
    "Unsupported",
    "emulate",
    "is_active",
]
