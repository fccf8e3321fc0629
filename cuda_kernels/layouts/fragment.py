"""A fragment: which row and column of a matrix each part of each register of each lane of a warp holds.

A place is (lane, register, part): registers count from 0, and `part` is the byte, half or word within a register, the
lowest bits first. A `Fragment` is a frozen one-to-one map between places and elements; nothing else can be made. That
of a warpgroup has 128 threads instead of 32 lanes: lane l of warp w is thread 32 w + l.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

LANES = 32
"""Lanes of a warp."""
WARPGROUP_THREADS = 128
"""Threads of a warpgroup: four warps."""

Element = tuple[int, int]
Holding = tuple[tuple[tuple[Element, ...], ...], ...]
"""Elements by lane, register and part."""


class LayoutError(ValueError):
    """A layout that is not what it must be; the text names the place or element at fault."""


@dataclass(frozen=True, order=True)
class Place:
    """Part `part` of register `register` of lane `lane`."""

    lane: int
    register: int
    part: int = 0

    def __str__(self) -> str:
        return f"lane {self.lane} register {self.register}" + (f" part {self.part}" if self.part else "")


@dataclass(frozen=True)
class Fragment:
    """A one-to-one map between the places of a warp or warpgroup and the elements of a rows x columns matrix.

    element_bits, register_bits: sizes of an element and of a register; a register has `register_bits / element_bits`
        parts. elements: `elements[lane][register][part]` is (row, column).
    Raises LayoutError where two places hold the same element, or an element is held by none.
    """

    rows: int
    columns: int
    element_bits: int
    register_bits: int
    elements: Holding

    def __post_init__(self) -> None:
        parts = self.register_bits // self.element_bits
        if len(self.elements) not in (LANES, WARPGROUP_THREADS):
            raise LayoutError(
                f"a fragment has {WARPGROUP_THREADS} threads of a warpgroup or {LANES} lanes, got {len(self.elements)}"
            )
        seen: dict[Element, Place] = {}
        for lane, registers in enumerate(self.elements):
            if len(registers) != len(self.elements[0]) or any(len(held) != parts for held in registers):
                raise LayoutError(f"lane {lane} does not have {len(self.elements[0])} registers of {parts} parts")
            for register, held in enumerate(registers):
                for part, (row, column) in enumerate(held):
                    place = Place(lane, register, part)
                    if not (0 <= row < self.rows and 0 <= column < self.columns):
                        raise LayoutError(f"{place} holds ({row}, {column}), outside of {self.rows} x {self.columns}")
                    if (row, column) in seen:
                        raise LayoutError(f"({row}, {column}) is held by {seen[row, column]} and by {place}")
                    seen[row, column] = place
        if len(seen) != self.rows * self.columns:
            raise LayoutError(f"{len(seen)} places for {self.rows} x {self.columns} elements")

    @property
    def registers(self) -> int:
        """Registers of each lane."""
        return len(self.elements[0])

    @property
    def parts(self) -> int:
        """Elements in a register."""
        return self.register_bits // self.element_bits

    @cached_property
    def places(self) -> dict[Element, Place]:
        """The inverse map."""
        return {self.element(place): place for place in self.all_places()}

    @cached_property
    def row_of(self) -> np.ndarray:
        """Rows, (32, registers, parts) int64."""
        return np.array(self.elements, np.int64)[..., 0]

    @cached_property
    def column_of(self) -> np.ndarray:
        """Columns, (32, registers, parts) int64."""
        return np.array(self.elements, np.int64)[..., 1]

    def all_places(self) -> Iterator[Place]:
        """Every place: lane by lane, register by register, part by part."""
        for lane in range(len(self.elements)):
            for register in range(self.registers):
                for part in range(self.parts):
                    yield Place(lane, register, part)

    def element(self, place: Place) -> Element:
        """The row and column that a place holds."""
        return self.elements[place.lane][place.register][place.part]

    def holder(self, row: int, column: int) -> Place:
        """The place that holds element (row, column). Raises LayoutError for one outside of the matrix."""
        if (row, column) not in self.places:
            raise LayoutError(f"({row}, {column}) is outside of {self.rows} x {self.columns}")
        return self.places[row, column]

    def exchanged(self, first: int, second: int) -> Fragment:
        """The same with two registers exchanged in every lane."""
        order = list(range(self.registers))
        order[first], order[second] = order[second], order[first]
        return self._with(tuple(tuple(lane[i] for i in order) for lane in self.elements))

    def transposed(self) -> Fragment:
        """The fragment of the transposed matrix: whoever held (i, j) holds (j, i)."""
        turned = tuple(tuple(tuple((c, r) for r, c in held) for held in lane) for lane in self.elements)
        return Fragment(self.columns, self.rows, self.element_bits, self.register_bits, turned)

    def repeated(self, rows: int = 1, columns: int = 1) -> Fragment:
        """Copies of this fragment beside (`columns`) and below (`rows`) each other; each adds its registers at the end.

        The copies count row by row: copy (i, j) has the registers from (i * columns + j) * registers on.
        """
        shifts = [(i * self.rows, j * self.columns) for i in range(rows) for j in range(columns)]
        elements = tuple(
            tuple(tuple((r + down, c + right) for r, c in held) for down, right in shifts for held in lane)
            for lane in self.elements
        )
        return Fragment(self.rows * rows, self.columns * columns, self.element_bits, self.register_bits, elements)

    def to_text(self) -> tuple[str, ...]:
        """One line for each lane: elements as `row,column`, parts joined by `;`, registers by a space."""
        return tuple(" ".join(";".join(f"{r},{c}" for r, c in held) for held in lane) for lane in self.elements)

    def _with(self, elements: Holding) -> Fragment:
        return Fragment(self.rows, self.columns, self.element_bits, self.register_bits, elements)


def from_text(lines: Sequence[str], element_bits: int, register_bits: int) -> Fragment:
    """The fragment that `Fragment.to_text` wrote so; its size is that of the elements named."""

    def held(text: str) -> tuple[Element, ...]:
        return tuple((int(row), int(column)) for row, column in (one.split(",") for one in text.split(";")))

    elements = tuple(tuple(held(register) for register in line.split()) for line in lines)
    every = [element for lane in elements for register in lane for element in register]
    rows, columns = (1 + max(element[axis] for element in every) for axis in (0, 1))
    return Fragment(rows, columns, element_bits, register_bits, elements)


def from_arrays(row: Any, column: Any, element_bits: int, register_bits: int) -> Fragment:
    """The fragment whose places hold these rows and columns, each (32, registers, parts) of integers."""
    rows, columns = np.asarray(row), np.asarray(column)
    elements = tuple(
        tuple(tuple(zip(r.tolist(), c.tolist())) for r, c in zip(lane_rows, lane_columns))
        for lane_rows, lane_columns in zip(rows, columns)
    )
    return Fragment(int(rows.max()) + 1, int(columns.max()) + 1, element_bits, register_bits, elements)


def from_bits(lane: str, register: str = "", part: str = "", *, element_bits: int, register_bits: int = 32) -> Fragment:
    """The fragment in which each bit of a place's numbers is one bit of the row or of the column.

    lane, register, part: for each bit of that number, the lowest first, the bit that it stands for: `r0`, `r1`, ... of
        the row, `c0`, `c1`, ... of the column, for example lane="c0 c1 r0 r1 r2", register="r3 c2".
    Raises LayoutError unless every bit of the row and of the column is named exactly once.
    """
    names = [text.split() for text in (lane, register, part)]
    named = [name for group in names for name in group]
    row_bits, column_bits = (sum(name[0] == axis for name in named) for axis in "rc")
    wanted = {f"r{i}" for i in range(row_bits)} | {f"c{i}" for i in range(column_bits)}
    if len(set(named)) != len(named) or set(named) != wanted:
        raise LayoutError(f"{' '.join(named)}: expected each of {' '.join(sorted(wanted))} once")

    def element(*numbers: int) -> Element:
        row = column = 0
        for number, group in zip(numbers, names):
            for bit, name in enumerate(group):
                value = ((number >> bit) & 1) << int(name[1:])
                row, column = (row + value, column) if name[0] == "r" else (row, column + value)
        return row, column

    lanes, registers, parts = (1 << len(group) for group in names)
    elements = tuple(
        tuple(tuple(element(i, j, k) for k in range(parts)) for j in range(registers)) for i in range(lanes)
    )
    return Fragment(1 << row_bits, 1 << column_bits, element_bits, register_bits, elements)
