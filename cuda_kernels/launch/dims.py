"""Dims of launcher arguments: a name, an integer, or whole-number arithmetic on names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


@dataclass(frozen=True)
class Dim:
    """One dim: `factor` times `name` where `name` is set, else `tree`, an expression of the `names` in it."""

    text: str
    factor: int
    name: str
    names: tuple[str, ...]
    tree: Any

    def size(self, known: Mapping[str, int]) -> int:
        """The size, where every name is known (KeyError otherwise)."""
        return self.factor * known[self.name] if self.name else _evaluate(self.tree, known)


def parse(dim: str | int) -> Dim:
    """The dim that `dim` writes; ValueError where it is neither a name, an integer, nor + - * // of them."""
    if isinstance(dim, bool) or not isinstance(dim, (str, int)):
        raise TypeError(f"dim {dim!r} is neither a name nor an integer")
    text = str(dim)
    try:
        tree = ast.parse(text, mode="eval").body
        names = tuple(dict.fromkeys(_names(tree)))
    except (SyntaxError, ValueError):
        raise ValueError(f"dim {text!r} is neither a name, an integer, nor + - * // of them") from None
    if isinstance(tree, ast.Name):
        return Dim(text, 1, tree.id, names, None)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        for number, name in ((tree.left, tree.right), (tree.right, tree.left)):
            factor = number.value if isinstance(number, ast.Constant) else 0
            if isinstance(name, ast.Name) and isinstance(factor, int) and factor > 0:
                return Dim(text, factor, name.id, names, None)
    return Dim(text, 0, "", names, tree)


def _names(node: ast.AST) -> list[str]:
    """The names of an expression, in order; ValueError where it is more than arithmetic."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _names(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _names(node.left) + _names(node.right)
    raise ValueError(ast.dump(node))


def _evaluate(node: Any, known: Mapping[str, int]) -> int:
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, known)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_evaluate(node.left, known), _evaluate(node.right, known))
    return int(node.value)
