"""Tensor maps on the host: how `cp.async.bulk.tensor` finds boxes of a matrix in global memory.

CUDA driver API, `cuTensorMapEncodeTiled`. A map is 128 bytes; here it goes to global memory, 128-byte aligned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError
from numba.cuda.cudadrv.driver import driver as numba_driver

MAP_BYTES = 128
_TYPES = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


def encode_tiled(
    address: int, dtype: str, shape: tuple[int, int], line_bytes: int, box: tuple[int, int], swizzle: int
) -> np.ndarray:
    """The 128 bytes of the map of a matrix, uint8.

    address: of its first element, aligned to 16. shape and box: (lines, elements along the contiguous axis).
    line_bytes: from one line to the next, a multiple of 16. swizzle: 0, 32, 64 or 128 bytes, not less than a line of
    the box. Elements outside of the matrix are loaded as zeros. Raises RuntimeError with the driver's error.
    """
    from cuda.bindings import driver

    lines, elements = shape
    arguments = (
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[dtype]}"),
        2,
        address,
        [driver.cuuint64_t(elements), driver.cuuint64_t(lines)],
        [driver.cuuint64_t(line_bytes)],
        [driver.cuuint32_t(box[1]), driver.cuuint32_t(box[0])],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[swizzle]}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    try:
        # Numba's driver object rather than the binding: where kernels run on a CPU, another stands in its place
        tensor_map = numba_driver.cuTensorMapEncodeTiled(*arguments)
    except CudaAPIError as error:
        raise RuntimeError(
            f"no tensor map of {dtype} {shape} with lines of {line_bytes} bytes at {address:#x}, box {box}, "
            f"swizzle {swizzle}: {error}"
        ) from None
    return np.array([int(word) for word in tensor_map.opaque], np.uint64).view(np.uint8)


def on_device(maps: list[np.ndarray], stream: Any) -> Any:
    """Maps one after the other in a device array of uint64 (count, 16); device allocations are aligned to 256."""
    words = np.stack([each.view(np.uint64) for each in maps])
    return cuda.to_device(words, stream=stream)
