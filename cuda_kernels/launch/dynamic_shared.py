"""More than 48 KB of dynamic shared memory: a kernel has to be allowed it before the launch, and Numba never asks."""

from __future__ import annotations

from typing import Any

UNASKED = 48 * 1024  # bytes that every kernel may have (CUDA programming guide, "Shared Memory")


def configured(kernel: Any, grid: Any, block: Any, stream: Any, shared_bytes: int) -> Any:
    """`kernel[grid, block, stream, shared_bytes]`, allowed that much dynamic shared memory when it is launched.

    The launch raises where the device has less than `shared_bytes` for a block.
    """
    configuration = kernel[grid, block, stream, shared_bytes]
    if shared_bytes > UNASKED:
        configuration.pre_launch_callbacks.append(_allow)
    return configuration


def _allow(kernel: Any, configuration: Any) -> None:
    from numba.cuda.cudadrv.driver import binding, driver

    function = kernel._codelibrary.get_cufunc()
    attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(attribute, configuration.sharedmem, function.handle, function.device.id)
