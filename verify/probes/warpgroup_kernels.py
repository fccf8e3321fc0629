"""Kernels that run one `wgmma` for each experiment: a block of 128 threads, operands filled in from arrays of images.

An image is the whole content of an operand's memory, or registers. An experiment picks an image of each operand, and
may set one place of it to 1. Each factory is cached: a kernel is compiled once, for all swizzles and offsets.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, types

from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import WgmmaLayout
from refkit.verify.probes.encoding import NUMPY_TYPES

THREADS = 128
ADDRESS_FIELD = 0x3FFFF
_WORDS = {1: types.uint8, 2: types.uint16, 4: types.uint32}


def words_of(values: np.ndarray, kind: str) -> np.ndarray:
    """Encodings, as unsigned integers of the type's size; what `kind` cannot hold is rounded."""
    encoded: np.ndarray = np.ascontiguousarray(values.astype(NUMPY_TYPES[kind]))
    return encoded.view(f"u{encoded.itemsize}")


def memory_bytes(n: int) -> tuple[int, int]:
    """Bytes of shared memory for A and for B: as much as any layout takes, or its offsets exchanged.

    What lies outside cannot be seen, and a GPU may end the whole run for it.
    """
    return 64 * 128, (64 if n <= 64 else 256) * 128


def instruction(layout: WgmmaLayout) -> Any:
    """A device function `(accumulator, a, b)` for the intrinsic of a layout, with its n and majors."""
    name = layout.intrinsic
    a_major = 0 if layout.a_in_registers else int(layout.a.major == "mn")  # type: ignore[union-attr]
    return _instruction(name, layout.kind in ("f16", "bf16"), layout.shape[1], a_major, int(layout.b.major == "mn"))


@functools.cache
def _instruction(name: str, transposable: bool, n: int, a_major: int, b_major: int) -> Any:
    intrinsic = getattr(ptx, name)
    if not transposable:
        return cuda.jit(device=True, forceinline=True)(lambda accumulator, a, b: intrinsic(accumulator, a, b, n, 1))
    if name.endswith("_register_a"):
        return cuda.jit(device=True, forceinline=True)(
            lambda accumulator, a, b: intrinsic(accumulator, a, b, n, 1, b_major)
        )
    return cuda.jit(device=True, forceinline=True)(
        lambda accumulator, a, b: intrinsic(accumulator, a, b, n, 1, a_major, b_major)
    )


@functools.cache
def _filler(kind: str) -> Any:
    """`fill(tile, images, image, hot)`: a tile in shared memory becomes an image, with 1 at place `hot`, if any."""
    one = int(words_of(np.ones(1), kind)[0])

    @cuda.jit(device=True)
    def fill(tile, images, image, hot):
        for place in range(cuda.threadIdx.x, images.shape[1], THREADS):
            tile[place] = one if place == hot else images[image, place]

    return fill


@functools.cache
def shared_operands_kernel(wgmma: Any, n: int, kind: str) -> Any:
    """`(a, b, c, picks, descriptors, d)`: A and B from shared memory.

    a, b: images (images, places) of unsigned integers; c: (images, 128, n / 2) float32. picks (experiments, 5): image
    and hot place of A (-1: none), the same of B, image of C. descriptors: of A and B, for address 0. d: (experiments,
    128, n / 2) float32.
    """
    size = np.dtype(NUMPY_TYPES[kind]).itemsize
    a_bytes, b_bytes = memory_bytes(n)
    a_places, b_places, registers = a_bytes // size, b_bytes // size, n // 2
    word, fill = _WORDS[size], _filler(kind)

    @cuda.jit
    def multiply(a, b, c, picks, descriptors, d):
        a_tile = cuda.shared.array(a_places, word, alignment=1024)
        b_tile = cuda.shared.array(b_places, word, alignment=1024)
        i, thread = cuda.blockIdx.x, cuda.threadIdx.x
        fill(a_tile, a, picks[i, 0], picks[i, 1])
        fill(b_tile, b, picks[i, 2], picks[i, 3])
        ptx.fence_proxy_async()
        cuda.syncthreads()
        sums = cuda.local.array(registers, types.float32)
        for register in range(registers):
            sums[register] = c[picks[i, 4], thread, register]
        a_at = (ptx.shared_address(a_tile, 0) & ADDRESS_FIELD) >> 4
        b_at = (ptx.shared_address(b_tile, 0) & ADDRESS_FIELD) >> 4
        ptx.wgmma_fence()
        wgmma(sums, descriptors[0] + a_at, descriptors[1] + b_at)
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for register in range(registers):
            d[i, thread, register] = sums[register]

    return multiply


@functools.cache
def register_a_kernel(wgmma: Any, n: int, kind: str) -> Any:
    """As `shared_operands_kernel` with A in registers: images (images, 128, 4) uint32; only B's descriptor counts."""
    size = np.dtype(NUMPY_TYPES[kind]).itemsize
    b_places, registers = memory_bytes(n)[1] // size, n // 2
    word, fill = _WORDS[size], _filler(kind)
    bits, parts, one = 8 * size, 4 // size, int(words_of(np.ones(1), kind)[0])

    @cuda.jit(device=True)
    def held(a, image, hot, thread, register):
        value = a[image, thread, register]
        part = hot - (thread * 4 + register) * parts
        if hot >= 0 and 0 <= part < parts:
            value = types.uint32(value | (types.uint32(one) << types.uint32(part * bits)))
        return value

    @cuda.jit
    def multiply(a, b, c, picks, descriptors, d):
        b_tile = cuda.shared.array(b_places, word, alignment=1024)
        i, thread = cuda.blockIdx.x, cuda.threadIdx.x
        fill(b_tile, b, picks[i, 2], picks[i, 3])
        image, hot = picks[i, 0], picks[i, 1]
        fragment = (
            held(a, image, hot, thread, 0),
            held(a, image, hot, thread, 1),
            held(a, image, hot, thread, 2),
            held(a, image, hot, thread, 3),
        )
        ptx.fence_proxy_async()
        cuda.syncthreads()
        sums = cuda.local.array(registers, types.float32)
        for register in range(registers):
            sums[register] = c[picks[i, 4], thread, register]
        b_at = (ptx.shared_address(b_tile, 0) & ADDRESS_FIELD) >> 4
        ptx.wgmma_fence()
        wgmma(sums, fragment, descriptors[1] + b_at)
        ptx.wgmma_commit_group()
        ptx.wgmma_wait_group(0)
        for register in range(registers):
            d[i, thread, register] = sums[register]

    return multiply
