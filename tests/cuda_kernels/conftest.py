from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numba import cuda

import refkit.cpu


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Iterator[None]:
    with refkit.cpu.emulate():
        yield


@pytest.fixture
def put() -> Callable[..., Any]:
    """A host array on the device, in one of three layouts, with nothing but NaN (or -1) in the holes."""

    def put(array: np.ndarray | None, layout: str = "contiguous") -> Any:
        if array is None:
            return None
        if layout == "contiguous":
            return cuda.to_device(np.ascontiguousarray(array))
        if layout == "transposed":
            return cuda.to_device(np.asfortranarray(array))
        hole = -1 if array.dtype.kind in "iu" else np.nan
        wide = np.full(tuple(2 * size + 1 for size in array.shape), hole).astype(array.dtype)
        every_second = tuple(slice(0, 2 * size, 2) for size in array.shape)
        wide[every_second] = array
        return cuda.to_device(wide)[every_second]

    return put
