"""The limits that a launch must keep, checked before it runs, as the driver does on a device."""

from __future__ import annotations

from typing import Any

from .device import ATTRIBUTES
from .faults import LaunchConfigurationError

AXES = "xyz"


def check_shared_memory(
    kernel: str, static_bytes: int, dynamic_bytes: int, place: dict[str, Any] | None = None
) -> None:
    """Raise `LaunchConfigurationError` if a block's static shared memory, or static and dynamic together, is more than
    a block gets: ptxas refuses such a kernel, the driver such a launch. Dynamic memory up to the usual limit counts
    against that limit; a kernel that was allowed more has all of a multiprocessor's."""
    usual = ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK"]
    limit = usual if dynamic_bytes <= usual else ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]
    if static_bytes > usual or static_bytes + dynamic_bytes > limit:
        also = f" and {dynamic_bytes} of dynamic" if dynamic_bytes else ""
        message = f"{static_bytes} bytes of static{also} shared memory; the limit is {limit} together"
        raise LaunchConfigurationError(message, kernel=kernel, **(place or {}))


def check_launch(
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    launch_bounds: Any = None,
    place: dict[str, Any] | None = None,
) -> None:
    """Raise `LaunchConfigurationError`, with the value and the limit, if a device would refuse the launch.

    launch_bounds: as given to `@cuda.jit`; its first item is the most threads in a block.
    place: `file` and `line` of the kernel.
    """

    def refuse(message: str) -> None:
        raise LaunchConfigurationError(message, kernel=kernel, **(place or {}))

    for name, extents, attribute in (("grid", grid, "MAX_GRID_DIM_"), ("block", block, "MAX_BLOCK_DIM_")):
        for axis, extent in zip(AXES, extents):
            limit = ATTRIBUTES[attribute + axis.upper()]
            if extent < 1:
                refuse(f"{name}.{axis} = {extent} in {name} {tuple(extents)}: every dimension must be at least 1")
            if extent > limit:
                refuse(f"{name}.{axis} = {extent} exceeds the limit of {limit}")
    threads = block[0] * block[1] * block[2]
    if threads > ATTRIBUTES["MAX_THREADS_PER_BLOCK"]:
        refuse(f"block {tuple(block)} has {threads} threads; the limit is {ATTRIBUTES['MAX_THREADS_PER_BLOCK']}")
    bound = launch_bounds[0] if isinstance(launch_bounds, (tuple, list)) else launch_bounds
    if bound is not None and threads > bound:
        refuse(f"block {tuple(block)} has {threads} threads; the kernel's launch_bounds allow {bound}")


def check_dynamic_shared_memory(dynamic_bytes: int, limit: int, place: dict[str, Any]) -> None:
    """Raise `LaunchConfigurationError` for more dynamic shared memory than the kernel is allowed: 48 KB, or what
    `cuKernelSetAttribute` allowed it."""
    if not 0 <= dynamic_bytes <= limit:
        message = f"{dynamic_bytes} bytes of dynamic shared memory; the limit is {limit}"
        raise LaunchConfigurationError(message, **place)
