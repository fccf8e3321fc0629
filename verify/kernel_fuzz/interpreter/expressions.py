"""The value of an expression, for every thread at once.

All integer arithmetic is done in int64 modulo 2^64 and then reduced to the kind of the node: an int32 or uint32 operand
is exact there, and Numba computes every such operation in 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refkit.verify.kernel_fuzz.tree import (
    Arithmetic,
    Call,
    Cast,
    Choice,
    Comparison,
    Division,
    Element,
    Expression,
    Function,
    Kind,
    Logic,
    Name,
    Not,
    Number,
    Register,
    Scaled,
    Shift,
    Unary,
)

from .state import Memory

_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "//": np.floor_divide,
    "%": np.remainder,
    "<<": np.left_shift,
    ">>": np.right_shift,
}
_COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}

Caller = Callable[[Function, "list[np.ndarray]"], np.ndarray]


class Evaluator:
    """Expressions over the variables of one scope: a kernel's or a device function's."""

    def __init__(self, variables: dict[str, np.ndarray], memory: Memory, call: Caller) -> None:
        self.variables = variables
        self.memory = memory
        self._call = call

    def __call__(self, node: Expression) -> np.ndarray:
        """One element per thread, of the node's kind."""
        match node:
            case Name(name, _):
                return self.variables[name]
            case Register(name, _):
                return self.memory.threads.registers[name]
            case Number(value, kind):
                return np.full(self.memory.threads.count, value, kind.dtype)
            case Arithmetic(op, left, right, Kind.FLOAT32):
                return _ARITHMETIC[op](self(left), self(right), dtype=np.float32)
            case Arithmetic(op, left, right, kind):
                return _reduce(_ARITHMETIC[op](self.wide(left), self.wide(right)), kind)
            case Division(op, left, right, sign, kind):
                divisor = sign * ((self.wide(right) & 63) + 2)
                return _reduce(_ARITHMETIC[op](self.wide(left), divisor), kind)
            case Shift(op, left, right, kind):
                return _reduce(_ARITHMETIC[op](self.wide(left), self.wide(right) & (left.kind.bits - 1)), kind)
            case Unary(op, operand, kind):
                return _unary(op, self(operand), kind)
            case Cast(operand, kind):
                return _convert(self(operand), kind)
            case Scaled(operand, factor, floor, kind):
                product = self(operand) * np.float32(factor)
                return _reduce((np.floor(product) if floor else np.trunc(product)).astype(np.int64), kind)
            case Comparison(op, left, right):
                return self._compare(op, left, right)
            case Logic(op, left, right):
                return self(left) & self(right) if op == "and" else self(left) | self(right)
            case Not(operand):
                return ~self(operand)
            case Choice(condition, first, second, _, _):
                return np.where(self(condition), self(first), self(second))
            case Element():
                return self._load(node)
            case Call(function, arguments):
                return self._call(function, [self(argument) for argument in arguments])
        raise TypeError(f"{type(node).__name__} is no expression")

    def wide(self, node: Expression) -> np.ndarray:
        """An integer expression as int64."""
        return self(node).astype(np.int64)

    def _compare(self, op: str, left: Expression, right: Expression) -> np.ndarray:
        if left.kind in (Kind.FLOAT32, Kind.BOOLEAN):
            return _COMPARISONS[op](self(left), self(right))
        return _COMPARISONS[op](self.wide(left), self.wide(right))

    def _load(self, node: Element) -> np.ndarray:
        threads = self.memory.threads
        if node.warp_only:
            slot = threads.in_block - threads.in_block % 32 + self.wide(node.indices[0]) % threads.lanes
            return self.memory.arrays[node.array.name][threads.block_of, slot]
        place = self.memory.place(node.array, tuple(self.wide(index) for index in node.indices))
        return self.memory.arrays[node.array.name][place]


def _reduce(value: np.ndarray, kind: Kind) -> np.ndarray:
    """An int64 modulo the width of `kind`."""
    return value.astype(kind.dtype)


def _convert(value: np.ndarray, kind: Kind) -> np.ndarray:
    if value.dtype == np.float32 and kind is not Kind.FLOAT32:
        return _reduce(np.trunc(value).astype(np.int64), kind)
    return value.astype(kind.dtype)


def _unary(op: str, value: np.ndarray, kind: Kind) -> np.ndarray:
    if op == "-":
        return -value if kind is Kind.FLOAT32 else _reduce(-value.astype(np.int64), kind)
    if op == "~":
        return _reduce(~value.astype(np.int64), kind)
    if op == "abs":
        return np.abs(value) if kind is Kind.FLOAT32 else _reduce(np.abs(value.astype(np.int32).astype(np.int64)), kind)
    bits = _bits_of(value)
    if op == "popc":
        return _reduce(bits.sum(axis=1), kind)
    if op == "clz":
        return _reduce(np.where(bits.any(axis=1), np.argmax(bits[:, ::-1], axis=1), bits.shape[1]), kind)
    if op == "ffs":
        return _reduce(np.where(bits.any(axis=1), np.argmax(bits, axis=1) + 1, 0), kind)
    mirrored = np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(f"<i{value.itemsize}")[:, 0]
    return mirrored.astype(kind.dtype)


def _bits_of(value: np.ndarray) -> np.ndarray:
    """The bits of each element, least first: shape (threads, width)."""
    octets = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"))).view(np.uint8)
    return np.unpackbits(octets.reshape(len(value), -1), axis=1, bitorder="little")
