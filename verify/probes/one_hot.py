"""One-hot experiments: one element of one operand is 1, and the outputs that light up say where it counts.

Elements are named by where they are given or found, never by what a layout says of them: the number of a place is
(lane * registers + register) * parts + part. What a layout claims is compared with these facts in `judgement.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from refkit.cuda_kernels.layouts import LANES, Fragment, LaneMove, MatrixMove, MmaLayout
from refkit.verify.backends import Backend
from refkit.verify.probes import kernels
from refkit.verify.probes.encoding import NUMPY_TYPES, pack, register_dtype, unpack
from refkit.verify.probes.execution import execute

BASE = 8  # an element of the other operand shows its number digit by digit, as 1 to 8: exact in every format
_POISON = 0xFFFF
UNKNOWN = -1


@dataclass(frozen=True)
class Meetings:
    """Which element of A meets which of B, and where in D: three arrays of place numbers, one entry for each product.

    UNKNOWN stands for an element of the other operand whose number could not be read.
    """

    a: np.ndarray
    b: np.ndarray
    d: np.ndarray


@dataclass(frozen=True)
class MmaFacts:
    """What the experiments on an `mma` found: with A one-hot, with B one-hot, and where in D each place of C shows."""

    by_a: Meetings
    by_b: Meetings
    c: np.ndarray
    d_of_c: np.ndarray


@dataclass(frozen=True)
class MoveFacts:
    """Row and column found at each place of a move, (32, registers, parts); UNKNOWN where there are none or several."""

    row: np.ndarray
    column: np.ndarray


def _size(fragment: Fragment) -> int:
    return fragment.rows * fragment.columns


def one_hot(fragment: Fragment) -> np.ndarray:
    """For each place an experiment in which it alone is 1: (places, 32, registers, parts) float64."""
    return np.eye(_size(fragment)).reshape(_size(fragment), *fragment.row_of.shape)


def numbered(count: int) -> np.ndarray:
    """All ones, and then each digit of the places' numbers, plus 1: (passes, count) float64."""
    number = np.arange(count)
    digits = 1
    while BASE**digits < count:
        digits += 1
    return np.stack([np.ones(count), *(number // BASE**i % BASE + 1.0 for i in range(digits))])


def read_numbers(shown: np.ndarray, count: int) -> np.ndarray:
    """The place numbers behind outputs (passes, n) of `numbered` elements; UNKNOWN where they make no number."""
    digits = shown[1:] - 1
    sound = (shown[0] == 1) & np.all((digits >= 0) & (digits < BASE) & (digits == np.floor(digits)), axis=0)
    number = np.sum(np.where(sound, digits, 0) * BASE ** np.arange(len(digits))[:, None], axis=0).astype(np.int64)
    return np.where(sound & (number < count), number, UNKNOWN)


def mma_facts(backend: Backend, intrinsic: Any, layout: MmaLayout) -> MmaFacts:
    """All one-hot experiments on an intrinsic `(a, b, c) -> d`, in three launches."""
    a, b, c = layout.a, layout.b, layout.c
    kernel = kernels.multiply_kernel(intrinsic, (a.registers, b.registers, c.registers))

    def multiply(held_a: np.ndarray, held_b: np.ndarray, held_c: np.ndarray) -> np.ndarray:
        inputs = pack(held_a, layout.a_type), pack(held_b, layout.b_type), pack(held_c, layout.c_type)
        output = np.zeros((len(held_a), LANES, c.registers), register_dtype(layout.c_type))
        d = execute(backend, kernel, inputs, output, kernels.WARPS)
        return unpack(d, layout.c_type).reshape(len(d), -1)

    def crossed(hot: Fragment, other: Fragment, hot_is_a: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ones = one_hot(hot)
        numbers = numbered(_size(other)).reshape(-1, *other.row_of.shape)
        passes, count = len(numbers), len(ones)
        first = np.tile(ones, (passes, 1, 1, 1))
        second = np.repeat(numbers, count, axis=0)
        zeros = np.zeros((passes * count, *c.row_of.shape))
        d = multiply(first, second, zeros) if hot_is_a else multiply(second, first, zeros)
        d = d.reshape(passes, count, -1)
        x, z = np.nonzero(np.any(d != 0, axis=0))
        return x, read_numbers(d[:, x, z], _size(other)), z

    x, y, z = crossed(a, b, True)
    by_a = Meetings(x, y, z)
    y, x, z = crossed(b, a, False)
    by_b = Meetings(x, y, z)
    zeros = np.zeros((_size(c), *a.row_of.shape)), np.zeros((_size(c), *b.row_of.shape))
    w, z = np.nonzero(multiply(*zeros, one_hot(c)) == 1)
    return MmaFacts(by_a, by_b, w, z)


def _found_in_registers(registers: np.ndarray, one: int, source: np.ndarray, fragment: Fragment) -> MoveFacts:
    """From results (experiments, 32, registers) of one-hot sources, numbered row * columns + column."""
    parts = np.ascontiguousarray(registers)[..., None].view(f"u{fragment.element_bits // 8}")
    lit = parts != 0
    sound = (lit.sum(axis=0) == 1) & np.all((parts == 0) | (parts == one), axis=0)
    number = np.where(sound, source[np.argmax(lit, axis=0)], UNKNOWN)
    width = fragment.columns
    return MoveFacts(np.where(sound, number // width, UNKNOWN), np.where(sound, number % width, UNKNOWN))


def _found_in_memory(memory: np.ndarray, one: int, fragment: Fragment) -> MoveFacts:
    """From what each one-hot place, in order, left of memory (places, rows, columns)."""
    lit = memory != 0
    flat = lit.reshape(len(memory), -1)
    sound = (flat.sum(axis=1) == 1) & np.all((memory == 0) | (memory == one), axis=(1, 2))
    row, column = np.divmod(np.argmax(flat, axis=1), memory.shape[2])
    shape = fragment.row_of.shape
    return MoveFacts(np.where(sound, row, UNKNOWN).reshape(shape), np.where(sound, column, UNKNOWN).reshape(shape))


def matrix_facts(backend: Backend, intrinsic: Any, layout: MatrixMove) -> MoveFacts:
    """One-hot experiments on `ldmatrix`- and `stmatrix`-like intrinsics; addresses that do not count lead to poison."""
    fragment, count = layout.fragment, layout.count
    if layout.stores:
        registers = pack_words(one_hot(fragment), 16)
        kernel = kernels.store_matrices_kernel(intrinsic, count)
        rows = np.zeros((len(registers), LANES, 8), np.uint16)
        return _found_in_memory(execute(backend, kernel, (registers,), rows, kernels.WARPS), 1, fragment)
    size = _size(fragment)
    rows = np.zeros((size, LANES, 8), np.uint16)
    rows[:, 8 * count :] = _POISON
    number = np.arange(size)
    rows[number, number // 8, number % 8] = 1
    output = np.zeros((size, LANES, count), np.uint32)
    kernel = kernels.load_matrices_kernel(intrinsic, count)
    registers = execute(backend, kernel, (rows,), output, kernels.WARPS)
    return _found_in_registers(registers, 1, number, fragment)


def pack_words(values: np.ndarray, bits: int) -> np.ndarray:
    """Registers of parts that hold small integers: (..., 32, registers, parts) to (..., 32, registers)."""
    word = np.dtype(f"u{bits * values.shape[-1] // 8}")
    return np.ascontiguousarray(values.astype(f"u{bits // 8}")).view(word)[..., 0]


def lane_facts(backend: Backend, intrinsic: Any, layout: LaneMove) -> MoveFacts:
    """One-hot experiments on what each lane moves for itself."""
    return _LANE_EXPERIMENTS[layout.kind](backend, intrinsic, layout)


def _sources(fragment: Fragment, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """For each element of the matrix an experiment in which it alone is 1, (n, rows, columns), and its number."""
    size = _size(fragment)
    return np.eye(size, dtype=dtype).reshape(size, fragment.rows, fragment.columns), np.arange(size)


def _dtype(element: str) -> np.dtype:
    return np.dtype(np.float32 if element == "f32" else np.uint32)


def _one(dtype: Any) -> int:
    """The bits of 1."""
    encoded: np.ndarray = np.ones(1, dtype)
    return int(encoded.view(f"u{encoded.itemsize}")[0])


def _load(backend: Backend, intrinsic: Any, layout: LaneMove) -> MoveFacts:
    dtype = _dtype(layout.element)
    memory, number = _sources(layout.fragment, dtype)
    kernel = kernels.vector_load_kernel(intrinsic, layout.space, layout.element)
    registers = execute(backend, kernel, (memory,), np.zeros_like(memory), 1)
    return _found_in_registers(registers, _one(dtype), number, layout.fragment)


def _store(backend: Backend, intrinsic: Any, layout: LaneMove) -> MoveFacts:
    dtype = _dtype(layout.element)
    registers = one_hot(layout.fragment)[..., 0].astype(dtype)
    kernel = kernels.vector_store_kernel(intrinsic, layout.space, layout.element)
    memory = execute(backend, kernel, (registers,), np.zeros_like(registers), 1)
    return _found_in_memory(memory.view(np.uint32), _one(dtype), layout.fragment)


def _packed(backend: Backend, kernel: Any, inputs: np.ndarray, layout: LaneMove) -> MoveFacts:
    fragment = layout.fragment
    output = np.zeros((len(inputs), LANES, 1), f"u{fragment.register_bits // 8}")
    registers = execute(backend, kernel, (inputs,), output, 1)
    return _found_in_registers(registers, _one(NUMPY_TYPES[layout.element]), np.arange(len(inputs)), fragment)


def _pack(backend: Backend, intrinsic: Any, layout: LaneMove) -> MoveFacts:
    operands, _ = _sources(layout.fragment, np.float32)
    return _packed(backend, kernels.pack_kernel(intrinsic), operands, layout)


def _unpack(backend: Backend, intrinsic: Any, layout: LaneMove) -> MoveFacts:
    pairs, _ = _sources(layout.fragment, np.float32)
    encoded: np.ndarray = np.ascontiguousarray(pairs.astype(NUMPY_TYPES[layout.source]))
    words = encoded.view(f"u{2 * encoded.itemsize}")
    return _packed(backend, kernels.unpack_kernel(intrinsic), words, layout)


def _copy(backend: Backend, intrinsic: Any, layout: LaneMove) -> MoveFacts:
    source, number = _sources(layout.fragment, np.uint32)
    kernel = kernels.copy_kernel(intrinsic, layout.intrinsic, layout.size)
    # Room for 16 bytes of each lane, so that every source is aligned.
    wide = np.zeros((len(source), LANES, 4), np.uint32)
    wide[..., : source.shape[2]] = source
    copied = execute(backend, kernel, (wide,), np.zeros_like(source), 1)
    return _found_in_registers(copied, 1, number, layout.fragment)


_LANE_EXPERIMENTS = {"load": _load, "store": _store, "pack": _pack, "unpack": _unpack, "copy": _copy}
