"""Expressions: each has a kind and no side effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .kinds import Array, Kind

if TYPE_CHECKING:
    from .statements import Function


@dataclass(frozen=True)
class Name:
    """A variable, a parameter, or one of the names that every kernel defines (`tid`, `bid`, `gid`, `lane`, `warp`)."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Number:
    """A literal; `bare` ones are written without a cast, which Numba types as int64."""

    value: int
    kind: Kind
    bare: bool = False


@dataclass(frozen=True)
class Register:
    """A special register, such as `cuda.threadIdx.x`."""

    name: str
    kind: Kind = Kind.INT32


@dataclass(frozen=True)
class Arithmetic:
    """`left op right`, then cast to `kind`; op is one of + - * & | ^ min max."""

    op: str
    left: Expression
    right: Expression
    kind: Kind


@dataclass(frozen=True)
class Division:
    """`left // d` or `left % d` with d = sign · (2 + (right & 63)): neither zero nor minus one."""

    op: str
    left: Expression
    right: Expression
    sign: int
    kind: Kind


@dataclass(frozen=True)
class Shift:
    """`left << a` or `left >> a`, with a the right side modulo the width of the left side."""

    op: str
    left: Expression
    right: Expression
    kind: Kind


@dataclass(frozen=True)
class Unary:
    """One of - ~ abs popc clz ffs brev; `abs` takes its integer operand modulo 2^31 with sign, as int64."""

    op: str
    operand: Expression
    kind: Kind


@dataclass(frozen=True)
class Cast:
    """A conversion; a float32 is truncated, and reaches uint32 by way of int64."""

    operand: Expression
    kind: Kind


@dataclass(frozen=True)
class Scaled:
    """A float32 times a power of two, to an integer: `floor` or truncation."""

    operand: Expression
    factor: float
    floor: bool
    kind: Kind


@dataclass(frozen=True)
class Comparison:
    """`left op right`."""

    op: str
    left: Expression
    right: Expression
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True)
class Logic:
    """`left and right` or `left or right`."""

    op: str
    left: Expression
    right: Expression
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True)
class Not:
    """`not operand`."""

    operand: Expression
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True)
class Choice:
    """`first if condition else second`, or `cuda.selp`."""

    condition: Expression
    first: Expression
    second: Expression
    selp: bool
    kind: Kind


@dataclass(frozen=True)
class Element:
    """A load; each index is taken modulo its axis. In spaces `rows` and `own` the thread's own row or element is meant.

    warp_only confines a load from shared memory to the slots that the thread's own warp wrote.
    """

    array: Array
    indices: tuple[Expression, ...]
    warp_only: bool = False

    @property
    def kind(self) -> Kind:
        return self.array.kind


@dataclass(frozen=True)
class Call:
    """A call of a device function."""

    function: Function
    arguments: tuple[Expression, ...]

    @property
    def kind(self) -> Kind:
        return self.function.kind


Expression = (
    Name
    | Number
    | Register
    | Arithmetic
    | Division
    | Shift
    | Unary
    | Cast
    | Scaled
    | Comparison
    | Logic
    | Not
    | Choice
    | Element
    | Call
)
