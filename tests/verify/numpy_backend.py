"""A backend whose kernels are NumPy functions: the checks are tested with it, without any compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refkit.verify.backends import Handle, faults
from refkit.verify.slabs import Slab


class NumpyBackend:
    """Memory is host memory; a launcher writes into NumPy views. `order` is the schedule of the running launch."""

    name = "numpy"
    few_signatures = False
    schedules = True

    def __init__(self) -> None:
        self.launches = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        yield

    def upload(self, slab: Slab, *, any_strides: bool = False) -> Handle:
        image = slab.image.copy()
        return Handle(np.ndarray(slab.shape, slab.dtype, buffer=image, offset=slab.offset, strides=slab.strides), image)

    def download(self, handle: Handle) -> np.ndarray:
        return handle.storage.copy()

    def launch(self, call: Callable[[], Any], *, schedule: int | None = None) -> None:
        self.launches += 1
        NumpyBackend.order = schedule or 0
        try:
            with np.errstate(all="ignore"):
                call()
        except Exception as error:
            raise faults.from_exception(error) from error

    order = 0


def beyond(array: np.ndarray, count: int = 1) -> np.ndarray:
    """The flat elements of a contiguous `array` and `count` more of the memory behind it."""
    return np.lib.stride_tricks.as_strided(array, (array.size + count,), (array.itemsize,))
