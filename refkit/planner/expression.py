"""A formula as data: written once, computed in Python, emitted as JavaScript, and shown to the reader.

A formula is one Python expression over names: `2 * m * n * k`, `forward.flops + dX.flops`, `a if x < y else b`. Allowed
are numbers, texts, + - * / //, comparisons, and/or, conditionals, and the functions

    ceil, floor, min, max
    first_within(f, (expression for s in range(low, high)))    the least s of the range whose expression is at most f
                                                               times the least of all; low where the range is empty
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def first_within(factor: float, low: int, high: int, value: Callable[[int], float]) -> int:
    """The least s in range(low, high) with value(s) <= factor times the least value; low where the range is empty."""
    values = [value(s) for s in range(low, high)]
    if not values:
        return low
    least = min(values)
    return next(low + index for index, each in enumerate(values) if each <= factor * least)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "first_within": first_within,
}


@dataclass(frozen=True)
class Reference:
    """A name inside a shown formula, to be replaced by its value: `T`, or `forward.flops`."""

    name: str


Parts = tuple[str | Reference, ...]


class Expression:
    """A formula. Raises ValueError, naming it, where it is not one that this module knows.

    source: as it was written. names: every name it refers to, `group.figure` for a figure of another group.
    parts: as it is shown, texts and references alternating.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        tree = ast.parse(source, mode="eval").body
        self._tree = tree
        names: list[str] = []
        _collect(tree, frozenset(), names, source)
        self.names = frozenset(names)
        self.parts: Parts = _joined(_Shown().write(tree, 0))
        python = ast.fix_missing_locations(ast.Expression(_Sequences().visit(ast.parse(source, mode="eval").body)))
        self._code = compile(python, f"<formula {source}>", "eval")

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    @property
    def text(self) -> str:
        """The formula with its names."""
        return "".join(part if isinstance(part, str) else part.name for part in self.parts)

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The value, with every name looked up in `scope`."""
        return eval(self._code, {"__builtins__": {}, **FUNCTIONS, **scope})

    def javascript(self, resolve: Callable[[str], str]) -> str:
        """The formula as JavaScript; `resolve` gives the code that stands for a name."""
        return _JavaScript(resolve).write(self._tree)


def _dotted(node: ast.expr) -> str | None:
    """`a` or `a.b` as text, None for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _loop(node: ast.expr) -> tuple[str, ast.expr, ast.expr, ast.expr]:
    """Of `(value for s in range(low, high))`: s, low, high, value."""
    assert isinstance(node, ast.GeneratorExp)
    (loop,) = node.generators
    assert isinstance(loop.target, ast.Name)
    assert isinstance(loop.iter, ast.Call)
    low, high = loop.iter.args
    return loop.target.id, low, high, node.elt


_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp)


def _is_operation(node: ast.AST) -> bool:
    """Whether `node` is an operation that formulas may hold; a comparison has two sides."""
    kinds = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    known = all(type(kind) in _OPERATORS or isinstance(kind, ast.USub) for kind in kinds)
    return isinstance(node, _OPERATIONS) and known and not (isinstance(node, ast.Compare) and len(node.ops) > 1)


def _collect(node: ast.AST, bound: frozenset[str], names: list[str], source: str) -> None:
    """Append every name that `node` refers to; ValueError for what a formula may not hold."""
    name = _dotted(node) if isinstance(node, ast.expr) else None
    if name is not None:
        if name not in bound:
            names.append(name)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        for argument in node.args:
            _collect(argument, bound, names, source)
    elif isinstance(node, ast.GeneratorExp):
        variable, low, high, value = _loop(node)
        _collect(low, bound, names, source)
        _collect(high, bound, names, source)
        _collect(value, bound | {variable}, names, source)
    elif _is_operation(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                _collect(child, bound, names, source)
    elif not (isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str))):
        raise ValueError(f"formula {source!r}: {ast.unparse(node)!r} is not part of the language of formulas")


class _Sequences(ast.NodeTransformer):
    """Turns `first_within(f, (value for s in range(low, high)))` into a call with a function of s."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        arguments: list[ast.expr] = []
        for argument in node.args:
            if isinstance(argument, ast.GeneratorExp):
                variable, low, high, value = _loop(argument)
                signature = ast.arguments([], [ast.arg(variable)], None, [], [], None, [])
                arguments += [low, high, ast.Lambda(signature, value)]
            else:
                arguments.append(argument)
        return ast.Call(node.func, arguments, [])


_OPERATORS: dict[type[ast.AST], tuple[str, int]] = {
    ast.Add: ("+", 6),
    ast.Sub: ("-", 6),
    ast.Mult: ("*", 7),
    ast.Div: ("/", 7),
    ast.FloorDiv: ("//", 7),
    ast.Lt: ("<", 4),
    ast.LtE: ("<=", 4),
    ast.Gt: (">", 4),
    ast.GtE: (">=", 4),
    ast.Eq: ("==", 4),
    ast.NotEq: ("!=", 4),
    ast.And: ("and", 3),
    ast.Or: ("or", 2),
}
_SHOWN = {"*": "·", "-": "−", "<=": "≤", ">=": "≥", "==": "=", "!=": "≠"}


class _Shown:
    """Writes a formula for the reader, with no parenthesis more than it needs."""

    def __init__(self) -> None:
        self.bound: set[str] = set()

    def write(self, node: ast.expr, outer: int) -> list[str | Reference]:
        """`node` as texts and references; in parentheses where it binds less tightly than `outer`."""
        name = _dotted(node)
        if name is not None:
            return [name if name in self.bound else Reference(name)]
        if isinstance(node, ast.Constant):
            return [_constant(node.value)]
        if isinstance(node, ast.Call):
            return self._call(node)
        inner, precedence = self._operation(node)
        return ["(", *inner, ")"] if precedence < outer else inner

    def _operation(self, node: ast.expr) -> tuple[list[str | Reference], int]:
        if isinstance(node, ast.IfExp):
            otherwise = self.write(node.orelse, 1)
            return [*self.write(node.body, 2), " if ", *self.write(node.test, 2), ", else ", *otherwise], 1
        if isinstance(node, ast.UnaryOp):
            return ["−", *self.write(node.operand, 8)], 8
        if isinstance(node, ast.BoolOp):
            symbol, precedence = _OPERATORS[type(node.op)]
            operands = [self.write(each, precedence + 1) for each in node.values]
            joined = operands[0]
            for each in operands[1:]:
                joined = [*joined, f" {symbol} ", *each]
            return joined, precedence
        if isinstance(node, ast.Compare):
            left, right = node.left, node.comparators[0]
            symbol, precedence = _OPERATORS[type(node.ops[0])]
        else:
            assert isinstance(node, ast.BinOp)
            left, right = node.left, node.right
            symbol, precedence = _OPERATORS[type(node.op)]
        if symbol == "//":
            return ["⌊", *self.write(left, precedence), " / ", *self.write(right, precedence + 1), "⌋"], 9
        shown = _SHOWN.get(symbol, symbol)
        return [*self.write(left, precedence), f" {shown} ", *self.write(right, precedence + 1)], precedence

    def _call(self, node: ast.Call) -> list[str | Reference]:
        assert isinstance(node.func, ast.Name)
        function = node.func.id
        if function in ("ceil", "floor"):
            opening, closing = "⌈⌉" if function == "ceil" else "⌊⌋"
            return [opening, *self.write(node.args[0], 0), closing]
        if function == "first_within":
            variable, low, high, value = _loop(node.args[1])
            if isinstance(high, ast.BinOp) and isinstance(high.op, ast.Add) and ast.unparse(high.right) == "1":
                high = high.left
            factor = f"{ast.literal_eval(node.args[0]) - 1:.0%}"
            span = [*self.write(low, 0), " to ", *self.write(high, 0)]
            self.bound.add(variable)
            searched = self.write(value, 0)
            self.bound.remove(variable)
            return [f"least {variable} in ", *span, f" within {factor} of the least ", *searched]
        inside = [part for each in node.args for part in (", ", *self.write(each, 0))][1:]
        return [function, "(", *inside, ")"]


def _constant(value: object) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else f"“{value!s}”"


def _joined(parts: list[str | Reference]) -> Parts:
    """The parts with neighbouring texts made one."""
    joined: list[str | Reference] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)


class _JavaScript:
    """Writes a formula as JavaScript; `runtime` functions of `planner_arithmetic.js` take the place of Python's."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self.resolve = resolve
        self.bound: set[str] = set()

    def write(self, node: ast.expr) -> str:
        """The code of `node`."""
        name = _dotted(node)
        if name is not None:
            return name if name in self.bound else self.resolve(name)
        if isinstance(node, ast.Constant):
            return repr(node.value) if not isinstance(node.value, str) else _quoted(node.value)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.IfExp):
            return f"({self.write(node.test)} ? {self.write(node.body)} : {self.write(node.orelse)})"
        if isinstance(node, ast.UnaryOp):
            return f"(-{self.write(node.operand)})"
        if isinstance(node, ast.BoolOp):
            joiner = " && " if isinstance(node.op, ast.And) else " || "
            return f"({joiner.join(map(self.write, node.values))})"
        if isinstance(node, ast.Compare):
            symbol = _OPERATORS[type(node.ops[0])][0]
            symbol = {"==": "===", "!=": "!=="}.get(symbol, symbol)
            return f"({self.write(node.left)} {symbol} {self.write(node.comparators[0])})"
        assert isinstance(node, ast.BinOp)
        left, right = self.write(node.left), self.write(node.right)
        if isinstance(node.op, ast.FloorDiv):
            return f"Math.floor({left} / {right})"
        return f"({left} {_OPERATORS[type(node.op)][0]} {right})"

    def _call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name)
        if node.func.id != "first_within":
            return f"Math.{node.func.id}({', '.join(map(self.write, node.args))})"
        variable, low, high, value = _loop(node.args[1])
        limits = f"{self.write(node.args[0])}, {self.write(low)}, {self.write(high)}"
        self.bound.add(variable)
        code = f"firstWithin({limits}, ({variable}) => {self.write(value)})"
        self.bound.remove(variable)
        return code


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
