"""Matrices of `wgmma` in shared memory: at which byte the hardware looks for each element, by descriptor.

PTX ISA 9.1, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Descriptor Format". The unit is 16
bytes along the contiguous axis; eight lines of as many units as the swizzle is wide (one, without a swizzle) are an
atom. Two offsets lead from atom to atom; what each means depends on the major and on whether there is a swizzle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .fragment import LayoutError

UNIT_BYTES = 16
LINES = 8
"""Lines of an atom."""
BANK_BYTES = 128
"""A row of all banks: how `row_of` and pictures divide shared memory."""
UNUSED = -2
"""Row and column of a place that holds no element."""
SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}
"""The descriptor's field, by bytes of the swizzle (0: none)."""
_FIELD_END = 1 << 18
_Change = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class SharedMatrix:
    """A (mn = 64 rows, k columns) or B (k rows, mn columns) of one `wgmma`, as its descriptor says where it lies.

    operand: "A" or "B". major: the contiguous axis, "k" or "mn". swizzle_bytes: 128, 64, 32 or 0.
    leading_bytes, stride_bytes: as in the descriptor. K contiguous: stride leads to the next eight of M or N, leading
        to the next unit of K where there is no swizzle, and is not used otherwise. M or N contiguous: leading leads to
        the next atom along M or N, stride to the next eight of K; without a swizzle, the other way round.
    start_bytes: from a multiple of 1,024 to where the descriptor points, inside of an atom if need be.
    Raises LayoutError for offsets that a descriptor cannot hold, and where two elements would lie in the same place.
    """

    operand: str
    mn: int
    k: int
    element_bytes: int
    major: str
    swizzle_bytes: int
    leading_bytes: int
    stride_bytes: int
    start_bytes: int = 0

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("operand", self.operand, ("A", "B")),
            ("major", self.major, ("k", "mn")),
            ("swizzle_bytes", self.swizzle_bytes, tuple(SWIZZLES)),
            ("element_bytes", self.element_bytes, (1, 2, 4)),
        ):
            if value not in allowed:
                raise LayoutError(f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")
        for name in ("leading_bytes", "stride_bytes", "start_bytes"):
            value = getattr(self, name)
            if value % UNIT_BYTES or not 0 <= value < _FIELD_END:
                raise LayoutError(f"{name} is {value}; expected a multiple of {UNIT_BYTES} below {_FIELD_END}")
        self._check_bijective()

    def _check_bijective(self) -> None:
        offsets = self.offsets.ravel()
        order = np.argsort(offsets, kind="stable")
        clash = np.flatnonzero(np.diff(offsets[order]) == 0)
        if len(clash):
            first, second = (divmod(int(order[clash[0] + i]), self.columns) for i in (0, 1))
            raise LayoutError(f"elements {first} and {second} both lie at byte {int(offsets[order[clash[0]]])}")

    @property
    def rows(self) -> int:
        """Rows of the matrix: M of A, K of B."""
        return self.mn if self.operand == "A" else self.k

    @property
    def columns(self) -> int:
        """Columns of the matrix: K of A, N of B."""
        return self.k if self.operand == "A" else self.mn

    @property
    def atom_bytes(self) -> int:
        """Bytes of an atom; swizzled ones begin at multiples of it."""
        return LINES * max(UNIT_BYTES, self.swizzle_bytes)

    @property
    def descriptor(self) -> int:
        """The 64 bits of the descriptor, for a matrix whose memory begins at address 0: add address / 16."""
        fields = self.start_bytes >> 4 | (self.leading_bytes >> 4) << 16 | (self.stride_bytes >> 4) << 32
        return fields | SWIZZLES[self.swizzle_bytes] << 62

    def offset(self, row: Any, column: Any) -> Any:
        """Bytes from the aligned start to element (row, column): (m, k) of A, (k, n) of B; integers or arrays."""
        across, along_k = (row, column) if self.operand == "A" else (column, row)
        return byte_offset(self, np.asarray(across), np.asarray(along_k))

    @cached_property
    def offsets(self) -> np.ndarray:
        """`offset` of every element, (rows, columns) int64."""
        return byte_offset_of_all(self)

    @property
    def size_bytes(self) -> int:
        """Bytes from the aligned start to the end of the last element, in whole rows of banks."""
        last = int(self.offsets.max()) + self.element_bytes
        return -(-last // BANK_BYTES) * BANK_BYTES

    @cached_property
    def row_of(self) -> np.ndarray:
        """Rows by place, (rows of banks, 8 units, elements of a unit) int64; UNUSED where no element lies."""
        return self.held(self.size_bytes)[0]

    @cached_property
    def column_of(self) -> np.ndarray:
        """Columns by place, as `row_of`."""
        return self.held(self.size_bytes)[1]

    def held(self, size_bytes: int) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of each place of a piece of memory, at least as long as the matrix: as `row_of`."""
        result = []
        for index in np.indices(self.offsets.shape):
            flat = np.full(size_bytes // self.element_bytes, UNUSED)
            flat[self.offsets.ravel() // self.element_bytes] = index.ravel()
            result.append(flat.reshape(-1, BANK_BYTES // UNIT_BYTES, UNIT_BYTES // self.element_bytes))
        return result[0], result[1]

    def to_text(self) -> tuple[str, ...]:
        """One line for each 128 bytes: units joined by a space, elements `row,column` of a unit by `;`; `-` is none."""
        return text_of(self.row_of, self.column_of)

    def variants(self) -> Iterator[tuple[str, np.ndarray]]:
        """What mistakes would make of this matrix: a name for each, and the bytes at which elements would be sought.

        Names complete "the device ...": another swizzle, the other major, leading and stride offsets exchanged, and
        two of these at once.
        """
        exchanged: dict[str, Any] = {"leading_bytes": self.stride_bytes, "stride_bytes": self.leading_bytes}
        other = "mn" if self.major == "k" else "k"
        unlike = [size for size in SWIZZLES if size != self.swizzle_bytes]
        swizzles: list[_Change] = [(_swizzle_name(size), {"swizzle_bytes": size}) for size in unlike]
        swaps: list[_Change] = [("has leading and stride offsets exchanged", exchanged)]
        majors: list[_Change] = [(f"takes {'K' if other == 'k' else 'M or N'} as contiguous", {"major": other})]
        pairs = [(f"{a} and {b}", {**x, **y}) for a, x in swizzles for b, y in (*swaps, *majors)]
        pairs += [(f"{a} and {b}", {**x, **y}) for a, x in swaps for b, y in majors]
        for name, change in (*swizzles, *swaps, *majors, *pairs):
            yield name, byte_offset_of_all(_Unchecked.of(self, change))


def offsets_by_descriptor(matrix: SharedMatrix, descriptor: int) -> tuple[str, np.ndarray]:
    """What another descriptor makes of a matrix: its fields in words, and the bytes at which elements are sought."""
    size = {field: size for size, field in SWIZZLES.items()}[descriptor >> 62]
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    change = {"swizzle_bytes": size, "leading_bytes": leading, "stride_bytes": stride, "start_bytes": start}
    words = f"{f'{size}-byte swizzle' if size else 'no swizzle'}, leading {leading}, stride {stride}"
    words += f", {start} bytes on" if start else ""
    return words, byte_offset_of_all(_Unchecked.of(matrix, change))


def _swizzle_name(size: int) -> str:
    return f"uses the {size}-byte swizzle" if size else "uses no swizzle"


@dataclass(frozen=True)
class _Unchecked:
    """What `byte_offset` needs to know, of a matrix that need not be one-to-one."""

    operand: str
    mn: int
    k: int
    element_bytes: int
    major: str
    swizzle_bytes: int
    leading_bytes: int
    stride_bytes: int
    start_bytes: int

    @classmethod
    def of(cls, matrix: SharedMatrix, change: dict[str, Any]) -> _Unchecked:
        own = cls(**{name: getattr(matrix, name) for name in cls.__dataclass_fields__})
        return replace(own, **change)


def byte_offset(matrix: SharedMatrix | _Unchecked, across: np.ndarray, along_k: np.ndarray) -> np.ndarray:
    """The byte of element `across` (of M or N), `along_k`: atoms by the two offsets, lines, units, then the swizzle."""
    size, width = matrix.element_bytes, max(1, matrix.swizzle_bytes // UNIT_BYTES)
    leading, stride = matrix.leading_bytes, matrix.stride_bytes
    if matrix.major == "k":
        lines, inner = across, along_k * size
        # A swizzled line holds all of K that one product takes: it goes on in the same line.
        next_atom, next_lines = (width * UNIT_BYTES if width > 1 else leading), stride
    else:
        lines, inner = along_k, across * size
        next_atom, next_lines = (leading, stride) if width > 1 else (stride, leading)
    unit, rest = inner // UNIT_BYTES, inner % UNIT_BYTES
    address = matrix.start_bytes + lines // LINES * next_lines + lines % LINES * (width * UNIT_BYTES)
    address = address + unit // width * next_atom + unit % width * UNIT_BYTES + rest
    # The key is that of the address itself: bits 7 to 9 are the line where 1,024 bytes are eight lines.
    return address ^ ((address >> 7 & (width - 1)) << 4)


def byte_offset_of_all(matrix: SharedMatrix | _Unchecked) -> np.ndarray:
    """`byte_offset` of every element, by row and column of the matrix."""
    across, along_k = np.indices((matrix.mn, matrix.k))
    offsets = byte_offset(matrix, across, along_k)
    return offsets if matrix.operand == "A" else offsets.T


def text_of(row: np.ndarray, column: np.ndarray) -> tuple[str, ...]:
    """Rows and columns by place (lines, registers or units, parts) as text: `?` for what is unclear, `-` for UNUSED.

    A unit without any element is one `-`.
    """

    def one(r: int, c: int) -> str:
        return "-" if UNUSED in (r, c) else "?" if min(r, c) < 0 else f"{r},{c}"

    def unit(rows: np.ndarray, columns: np.ndarray) -> str:
        if np.all(rows == UNUSED):
            return "-"
        return ";".join(one(r, c) for r, c in zip(rows.tolist(), columns.tolist()))

    return tuple(" ".join(unit(*held) for held in zip(rows, columns)) for rows, columns in zip(row, column))


def shared_matrix(
    operand: str, mn: int, k: int, element_bytes: int, *, major: str = "k", swizzle_bytes: int = 128, step: int = 0
) -> SharedMatrix:
    """The matrix of one `wgmma` with its atoms packed one after another.

    step: products before it along K in the same swizzled line, where K is contiguous: each takes 32 bytes of it.
    Atoms that follow each other along M or N lie side by side; those that follow along K come after all of these.
    """
    atom = LINES * max(UNIT_BYTES, swizzle_bytes)
    line = max(UNIT_BYTES, swizzle_bytes)
    along_mn = mn // LINES if major == "k" else max(1, mn * element_bytes // line)
    if major == "k":
        leading, stride = (UNIT_BYTES if swizzle_bytes else along_mn * atom), atom
    else:
        leading, stride = atom, along_mn * atom
        if not swizzle_bytes:
            leading, stride = stride, leading
    return SharedMatrix(operand, mn, k, element_bytes, major, swizzle_bytes, leading, stride, 32 * step)
