"""Kernels that run one intrinsic on many experiments, a warp for each; registers and memory come and go as arrays.

Each factory is cached: a kernel is compiled once, for layout and value probes alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, types

from refkit.cuda_kernels import ptx

WARPS = 4
"""Experiments of one block."""


@cuda.jit(device=True)
def _take1(x, i, lane):
    return (x[i, lane, 0],)


@cuda.jit(device=True)
def _take2(x, i, lane):
    return x[i, lane, 0], x[i, lane, 1]


@cuda.jit(device=True)
def _take4(x, i, lane):
    return x[i, lane, 0], x[i, lane, 1], x[i, lane, 2], x[i, lane, 3]


@cuda.jit(device=True)
def _take8(x, i, lane):
    r = x[i, lane]
    return r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]


@cuda.jit(device=True)
def _give_one(value, x, i, lane):
    x[i, lane, 0] = value


TAKE = {1: _take1, 2: _take2, 4: _take4, 8: _take8}


@functools.cache
def _give(count: int) -> Callable[..., Any]:
    if count == 1:
        return _give_one

    @cuda.jit(device=True)
    def give(values, x, i, lane):
        for register in range(count):
            x[i, lane, register] = values[register]

    return give


@functools.cache
def multiply_kernel(intrinsic: Any, counts: tuple[int, int, int]) -> Any:
    """`(a, b, c, d)`: d = intrinsic(a, b, c), tuples of registers in and out; arrays (experiments, 32, registers)."""
    take_a, take_b, take_c = (TAKE[count] for count in counts)
    d_count = counts[2]

    @cuda.jit
    def multiply(a, b, c, d):
        i = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        lane = cuda.threadIdx.x
        if i < a.shape[0]:
            result = intrinsic(take_a(a, i, lane), take_b(b, i, lane), take_c(c, i, lane))
            for register in range(d_count):
                d[i, lane, register] = result[register]

    return multiply


@functools.cache
def load_matrices_kernel(intrinsic: Any, count: int) -> Any:
    """`(rows, registers)`: rows (experiments, 32, 8) uint16 go to shared memory, lane l gives the address of row l."""
    give = _give(count)

    @cuda.jit
    def load_matrices(rows, registers):
        tile = cuda.shared.array((WARPS, 32, 8), types.uint16, alignment=16)
        i = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        warp, lane = cuda.threadIdx.y, cuda.threadIdx.x
        if i < rows.shape[0]:
            for column in range(8):
                tile[warp, lane, column] = rows[i, lane, column]
        cuda.syncthreads()
        if i < rows.shape[0]:
            give(intrinsic(ptx.shared_address(tile, (warp, lane, 0))), registers, i, lane)

    return load_matrices


@functools.cache
def store_matrices_kernel(intrinsic: Any, count: int) -> Any:
    """`(registers, rows)`: the inverse of `load_matrices_kernel`; rows that are not stored to become 0."""
    take = TAKE[count]

    @cuda.jit
    def store_matrices(registers, rows):
        tile = cuda.shared.array((WARPS, 32, 8), types.uint16, alignment=16)
        i = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        warp, lane = cuda.threadIdx.y, cuda.threadIdx.x
        for column in range(8):
            tile[warp, lane, column] = 0
        cuda.syncthreads()
        if i < rows.shape[0]:
            intrinsic(ptx.shared_address(tile, (warp, lane, 0)), take(registers, i, lane))
        cuda.syncthreads()
        if i < rows.shape[0]:
            for column in range(8):
                rows[i, lane, column] = tile[warp, lane, column]

    return store_matrices


@functools.cache
def vector_load_kernel(intrinsic: Any, space: str, element: str) -> Any:
    """`(memory, registers)`: lane l loads `intrinsic(array, index)` of four elements; memory (experiments, 32, 4)."""
    shared, kind = space == "shared", types.float32 if element == "f32" else types.uint32

    @cuda.jit
    def vector_load(memory, registers):
        tile = cuda.shared.array((32, 4), kind, alignment=16)
        i, lane = cuda.blockIdx.x, cuda.threadIdx.x
        if shared:
            for column in range(4):
                tile[lane, column] = memory[i, lane, column]
            values = intrinsic(tile, (lane, 0))
        else:
            values = intrinsic(memory, (i, lane, 0))
        for register in range(4):
            registers[i, lane, register] = values[register]

    return vector_load


@functools.cache
def vector_store_kernel(intrinsic: Any, space: str, element: str) -> Any:
    """`(registers, memory)`: lane l stores four registers with `intrinsic(array, index, values)`."""
    shared, kind = space == "shared", types.float32 if element == "f32" else types.uint32

    @cuda.jit
    def vector_store(registers, memory):
        tile = cuda.shared.array((32, 4), kind, alignment=16)
        i, lane = cuda.blockIdx.x, cuda.threadIdx.x
        values = _take4(registers, i, lane)
        if shared:
            intrinsic(tile, (lane, 0), values)
            for column in range(4):
                memory[i, lane, column] = tile[lane, column]
        else:
            intrinsic(memory, (i, lane, 0), values)

    return vector_store


@functools.cache
def pack_kernel(intrinsic: Any) -> Any:
    """`(operands, registers)`: `intrinsic(low, high)` of operands (experiments, 32, 2) float32."""

    @cuda.jit
    def pack_pair(operands, registers):
        i, lane = cuda.blockIdx.x, cuda.threadIdx.x
        registers[i, lane, 0] = intrinsic(operands[i, lane, 0], operands[i, lane, 1])

    return pack_pair


@functools.cache
def unpack_kernel(intrinsic: Any) -> Any:
    """`(pairs, registers)`: `intrinsic(pair)` of registers (experiments, 32, 1)."""

    @cuda.jit
    def unpack_pair(pairs, registers):
        i, lane = cuda.blockIdx.x, cuda.threadIdx.x
        registers[i, lane, 0] = intrinsic(pairs[i, lane, 0])

    return unpack_pair


@functools.cache
def copy_kernel(intrinsic: Any, form: str, size: int) -> Any:
    """`(source, destination)`: each lane copies `size` bytes, global (experiments, 32, words) to shared, and back.

    form: the intrinsic's name, which decides the arguments that it takes.
    """
    start = _copy_call(intrinsic, form, size)
    words = size // 4

    @cuda.jit
    def copy(source, destination):
        tile = cuda.shared.array((32, 4), types.uint32, alignment=16)
        i, lane = cuda.blockIdx.x, cuda.threadIdx.x
        start(ptx.shared_address(tile, (lane, 0)), ptx.global_address(source, (i, lane, 0)))
        ptx.cp_async_wait_all()
        for word in range(words):
            destination[i, lane, word] = tile[lane, word]

    return copy


def _copy_call(intrinsic: Any, form: str, size: int) -> Callable[..., Any]:
    """A device function `(destination, source)` that gives the intrinsic the rest of its arguments."""
    sized = "_ca" in form
    if form.endswith("zfill"):
        calls = (lambda d, s: intrinsic(d, s, size, size), lambda d, s: intrinsic(d, s, size))
    elif form.endswith("prefetch"):
        calls = (lambda d, s: intrinsic(d, s, size, 128), lambda d, s: intrinsic(d, s, 128))
    elif form.endswith("hint"):
        first = ptx.createpolicy_evict_first
        calls = (lambda d, s: intrinsic(d, s, size, first()), lambda d, s: intrinsic(d, s, first()))
    else:
        calls = (lambda d, s: intrinsic(d, s, size), lambda d, s: intrinsic(d, s))
    return cuda.jit(device=True)(calls[0] if sized else calls[1])


def launch_shape(experiments: int, warps: int) -> tuple[Any, Any]:
    """Grid and block for this many experiments, `warps` to a block."""
    return (-(-experiments // warps),), ((32, warps) if warps > 1 else (32,))


def to_device(*arrays: np.ndarray) -> tuple[Any, ...]:
    """Device arrays of contiguous copies."""
    return tuple(cuda.to_device(np.ascontiguousarray(each)) for each in arrays)
