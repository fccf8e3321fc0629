"""Access patterns, each a launch of a small kernel whose one access of interest is known: what the memory model is
checked with, by hand-made counts on the CPU and by a GPU's own counters.

Each kernel makes its access once per thread, in whole warps, with nothing else of the same kind beside it: a kernel
that reads global memory in a pattern writes its result elsewhere in order, and one that reads shared memory fills it
in order first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, float64

from refkit.cuda_kernels import ptx

BLOCKS, THREADS = 8, 256
"""Few enough blocks that the memory model looks at all of them."""
WARPS = BLOCKS * THREADS // 32
_ITEMS = BLOCKS * THREADS
_WORDS = 2048


@cuda.jit
def global_load(x, y, stride, offset):
    i = cuda.grid(1)
    y[i] = x[i * stride + offset]


@cuda.jit
def global_load_by_warp(x, y):
    i = cuda.grid(1)
    y[i] = x[i // 32]


@cuda.jit
def global_load_of_column(x, y):
    i = cuda.grid(1)
    y[i] = x[i, 3]


@cuda.jit
def global_load_scattered(x, y, factor):
    i = cuda.grid(1)
    y[i] = x[(i * factor) & 2047]


@cuda.jit
def global_load_of_half_warps(x, y):
    i = cuda.grid(1)
    if i & 16 == 0:
        y[i] = x[i]


@cuda.jit
def global_load_of_four(x, y):
    i = cuda.grid(1)
    a, b, c, d = ptx.ld_global_v4_f32(x, 4 * i)
    y[i] = a + b + c + d


@cuda.jit
def global_store(y, stride):
    i = cuda.grid(1)
    y[i * stride] = float32(i)


@cuda.jit
def shared_load(y, stride, mask):
    tile = cuda.shared.array(2048, float32)
    i = cuda.threadIdx.x
    for place in range(i, 2048, 256):
        tile[place] = float32(place)
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[(i & mask) * stride & 2047]


@cuda.jit
def shared_load_irregular(y, factor):
    tile = cuda.shared.array(2048, float32)
    i = cuda.threadIdx.x
    for place in range(i, 2048, 256):
        tile[place] = float32(place)
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[(i * i * factor) & 2047]


@cuda.jit
def shared_load_by_half_lanes(y):
    tile = cuda.shared.array(2048, float32)
    i = cuda.threadIdx.x
    for place in range(i, 2048, 256):
        tile[place] = float32(place)
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[i >> 1]


@cuda.jit
def shared_load_64_bits(y, stride, mask):
    tile = cuda.shared.array(1024, float64)
    i = cuda.threadIdx.x
    for place in range(i, 1024, 256):
        tile[place] = float64(place)
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[(i & mask) * stride & 1023]


@cuda.jit
def shared_load_128_bits(y, stride, mask):
    tile = cuda.shared.array(4096, float32, alignment=16)
    i = cuda.threadIdx.x
    for place in range(i, 4096, 256):
        tile[place] = float32(place)
    cuda.syncthreads()
    a, b, c, d = ptx.ld_shared_v4_f32(tile, (i & mask) * stride & 4095)
    y[cuda.grid(1)] = a + b + c + d


@cuda.jit
def shared_store(y, stride):
    tile = cuda.shared.array(2048, float32)
    i = cuda.threadIdx.x
    tile[i * stride & 2047] = float32(i)
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[i]


@dataclass(frozen=True)
class Pattern:
    """One launch, and what each request of its access should take.

    expected: sectors (global) or passes (shared) per request, counted by hand or by a formula beside it.
    launch: runs the kernel once, on whichever device `numba.cuda` stands for.
    """

    name: str
    kernel: Any
    space: str
    access: str
    expected: float
    launch: Callable[[], None]

    @property
    def kernel_name(self) -> str:
        """The kernel's Python name."""
        return str(self.kernel.py_func.__name__)


def _launching(kernel: Any, make: Callable[[], tuple[Any, ...]]) -> Callable[[], None]:
    def launch() -> None:
        arguments = [cuda.to_device(each) if isinstance(each, np.ndarray) else each for each in make()]
        kernel[BLOCKS, THREADS](*arguments)
        cuda.synchronize()

    return launch


def _global(name: str, kernel: Any, expected: float, *make: Any, access: str = "read") -> Pattern:
    def arguments() -> tuple[Any, ...]:
        return tuple(each() if callable(each) else each for each in make)

    return Pattern(name, kernel, "global", access, expected, _launching(kernel, arguments))


def _shared(name: str, kernel: Any, expected: float, *settings: int, access: str = "read") -> Pattern:
    return Pattern(name, kernel, "shared", access, expected, _launching(kernel, lambda: (_out(), *settings)))


def _x(items: int, dtype: str = "float32") -> Callable[[], np.ndarray]:
    return lambda: np.arange(items).astype(dtype)


def _out() -> np.ndarray:
    return np.zeros(_ITEMS, np.float64)


def _scattered_sectors(factor: int) -> float:
    """Sectors per request of x[(i * factor) & 2047] with 8 elements to a sector."""
    lanes = np.arange(_ITEMS).reshape(-1, 32)
    return float(np.mean([len(np.unique((row * factor & 2047) // 8)) for row in lanes]))


def _irregular_passes(factor: int) -> float:
    """Passes per request of tile[(i * i * factor) & 2047]: distinct words of the fullest bank."""
    warps = np.arange(THREADS).reshape(-1, 32)
    words = [np.unique(warp * warp * factor & 2047) for warp in warps]
    return float(np.mean([np.bincount(each % 32).max() for each in words]))


def _patterns() -> tuple[Pattern, ...]:
    return (
        _global("coalesced float", global_load, 4, _x(_ITEMS), _out, 1, 0),
        _global("stride 2", global_load, 8, _x(2 * _ITEMS), _out, 2, 0),
        _global("stride 4", global_load, 16, _x(4 * _ITEMS), _out, 4, 0),
        _global("stride 32", global_load, 32, _x(32 * _ITEMS), _out, 32, 0),
        _global("same word", global_load, 1, _x(64), _out, 0, 5),
        _global("one word per warp", global_load_by_warp, 1, _x(WARPS), _out),
        _global("misaligned by 4 bytes", global_load, 5, _x(_ITEMS + 1), _out, 1, 1),
        _global("64-bit elements", global_load, 8, _x(_ITEMS, "float64"), _out, 1, 0),
        _global("float4 vector load", global_load_of_four, 16, _x(4 * _ITEMS), _out),
        _global("bytes", global_load, 1, _x(_ITEMS, "uint8"), _out, 1, 0),
        _global("half-words", global_load, 2, _x(_ITEMS, "int16"), _out, 1, 0),
        _global("column of a matrix", global_load_of_column, 32, lambda: np.ones((_ITEMS, 24), np.float32), _out),
        _global("scattered", global_load_scattered, _scattered_sectors(1237), _x(_WORDS), _out, 1237),
        _global("stride 5, wrapped", global_load_scattered, _scattered_sectors(5), _x(_WORDS), _out, 5),
        _global("half of each warp", global_load_of_half_warps, 2, _x(_ITEMS), _out),
        _global("store, coalesced", global_store, 4, lambda: np.zeros(_ITEMS, np.float32), 1, access="write"),
        _global("store, stride 2", global_store, 8, lambda: np.zeros(2 * _ITEMS, np.float32), 2, access="write"),
        _shared("stride 1", shared_load, 1, 1, 255),
        _shared("stride 2", shared_load, 2, 2, 255),
        _shared("stride 3", shared_load, 1, 3, 255),
        _shared("stride 16", shared_load, 16, 16, 127),
        _shared("stride 32", shared_load, 32, 32, 63),
        _shared("stride 33", shared_load, 1, 33, 31),
        _shared("same word", shared_load, 1, 0, 255),
        _shared("two lanes to a word", shared_load_by_half_lanes, 1),
        _shared("odd stride, wrapped", shared_load, 1, 1237, 31),
        _shared("irregular", shared_load_irregular, _irregular_passes(7), 7),
        _shared("64-bit, stride 1", shared_load_64_bits, 2, 1, 255),
        _shared("64-bit, stride 2", shared_load_64_bits, 4, 2, 255),
        _shared("64-bit, stride 16", shared_load_64_bits, 32, 16, 63),
        _shared("64-bit, same element", shared_load_64_bits, 2, 0, 255),
        _shared("64-bit, half a warp", shared_load_64_bits, 2, 1, 15),
        _shared("128-bit, stride 1", shared_load_128_bits, 4, 4, 255),
        _shared("128-bit, stride 2", shared_load_128_bits, 8, 8, 255),
        _shared("128-bit, rows of 128 bytes", shared_load_128_bits, 32, 32, 127),
        _shared("128-bit, rows padded by 16 bytes", shared_load_128_bits, 4, 36, 63),
        _shared("128-bit, same element", shared_load_128_bits, 4, 0, 255),
        _shared("store, stride 1", shared_store, 1, 1, access="write"),
        _shared("store, stride 2", shared_store, 2, 2, access="write"),
        _shared("store, stride 32", shared_store, 32, 32, access="write"),
    )


PATTERNS = _patterns()
