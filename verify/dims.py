"""Dimensions by name, and the expressions that a spec makes of them: `In(R, C + 1)`, `Out(K // 2)`.

R, C = Dim("R"), Dim("C", max=4096, multiple_of=16)
((C + 1) * 2).evaluate({"C": 16})  ->  34
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from refkit.verify.errors import SpecError

_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}


class DimExpression:
    """An integer made of dims: a `Dim`, a constant, or two expressions joined by `+ - * //`."""

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """The integer that this is for the sizes `dims`; KeyError names a dim that `dims` lacks."""
        raise NotImplementedError

    def dims(self) -> tuple[Dim, ...]:
        """Every `Dim` in the expression, in order of appearance, repeats included."""
        raise NotImplementedError

    def __add__(self, other: object) -> DimExpression:
        return _Operation("+", self, as_dim(other))

    def __radd__(self, other: object) -> DimExpression:
        return _Operation("+", as_dim(other), self)

    def __sub__(self, other: object) -> DimExpression:
        return _Operation("-", self, as_dim(other))

    def __rsub__(self, other: object) -> DimExpression:
        return _Operation("-", as_dim(other), self)

    def __mul__(self, other: object) -> DimExpression:
        return _Operation("*", self, as_dim(other))

    def __rmul__(self, other: object) -> DimExpression:
        return _Operation("*", as_dim(other), self)

    def __floordiv__(self, other: object) -> DimExpression:
        return _Operation("//", self, as_dim(other))

    def __rfloordiv__(self, other: object) -> DimExpression:
        return _Operation("//", as_dim(other), self)


@dataclass(frozen=True)
class Dim(DimExpression):
    """A dimension that the fuzzer chooses: `min` to `max`, a multiple of `multiple_of`. 0 is drawn only with `min=0`.

    Raises `SpecError` where no size is left to draw.
    """

    name: str
    min: int = 1
    max: int = 300
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise SpecError(f"Dim name is {self.name!r}; expected a Python identifier such as 'R'")
        for field, least in (("min", 0), ("max", 0), ("multiple_of", 1)):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SpecError(f"Dim {self.name!r}: {field} is {value!r}; expected an integer of at least {least}")
        if self.least > self.greatest:
            raise SpecError(
                f"Dim {self.name!r}: no multiple of {self.multiple_of} lies in min={self.min} to max={self.max}"
            )

    @property
    def least(self) -> int:
        """The smallest size allowed."""
        return -(-self.min // self.multiple_of) * self.multiple_of

    @property
    def greatest(self) -> int:
        """The largest size allowed."""
        return self.max // self.multiple_of * self.multiple_of

    def nearest(self, size: int) -> int:
        """The allowed size nearest to `size` from below, or `least` where none is below."""
        return max(self.least, min(self.greatest, size // self.multiple_of * self.multiple_of))

    def allows(self, size: int) -> bool:
        """True where `size` lies in the range and is a multiple."""
        return self.min <= size <= self.max and size % self.multiple_of == 0

    def evaluate(self, dims: Mapping[str, int]) -> int:
        return dims[self.name]

    def dims(self) -> tuple[Dim, ...]:
        return (self,)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Constant(DimExpression):
    value: int

    def evaluate(self, dims: Mapping[str, int]) -> int:
        return self.value

    def dims(self) -> tuple[Dim, ...]:
        return ()

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class _Operation(DimExpression):
    symbol: str
    left: DimExpression
    right: DimExpression

    def __post_init__(self) -> None:
        if self.symbol == "//" and isinstance(self.right, _Constant) and self.right.value == 0:
            raise SpecError(f"dim expression {self}: division by zero")

    def evaluate(self, dims: Mapping[str, int]) -> int:
        return _OPERATIONS[self.symbol](self.left.evaluate(dims), self.right.evaluate(dims))

    def dims(self) -> tuple[Dim, ...]:
        return self.left.dims() + self.right.dims()

    def __str__(self) -> str:
        return f"({self.left} {self.symbol} {self.right})"


def as_dim(value: object) -> DimExpression:
    """`value` as an expression; `SpecError` where it is neither an integer nor made of dims."""
    if isinstance(value, DimExpression):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _Constant(value)
    raise SpecError(f"a dim is {value!r}; expected a Dim, an integer, or an expression of them with + - * //")
