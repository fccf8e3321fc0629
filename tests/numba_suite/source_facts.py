"""What the source of a test says, with that of the helpers it reaches in numba-cuda's test modules."""

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from numba.cuda.dispatcher import CUDADispatcher

from .rules import FOREIGN_KEYWORDS

_FIXTURES = ("setUp", "tearDown", "setUpClass", "tearDownClass")


@dataclass
class _Reading:
    """What has been read so far: identifiers (also in strings), keyword arguments, whether a launch is written."""

    package: str  # of the test; what lies outside is not read
    names: set[str] = field(default_factory=set)
    keywords: set[str] = field(default_factory=set)
    launches: bool = False
    visited: set[Any] = field(default_factory=set)


def facts_of(item: Any) -> dict[str, Any]:
    """`names`, `keywords` and `launches` of one collected pytest test."""
    reading = _Reading(package=item.module.__name__.rpartition(".")[0])
    owner = item.cls
    _read(inspect.unwrap(item.obj), owner, reading)
    for name in _FIXTURES if owner is not None else ():
        method = inspect.getattr_static(owner, name, None)
        if method is not None:
            _read(method, owner, reading)
    keywords = sorted(reading.keywords & FOREIGN_KEYWORDS)
    return {"names": sorted(reading.names), "keywords": keywords, "launches": reading.launches}


def _read(thing: Any, owner: Any, reading: _Reading) -> None:
    function = _python_function(thing)
    if function is None or function.__code__ in reading.visited or not _is_in(reading.package, function):
        return
    reading.visited.add(function.__code__)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return
    for node in ast.walk(tree):
        _note(node, reading)
    for reached in _reached(tree, function, owner):
        _read(reached, owner, reading)


def _note(node: ast.AST, reading: _Reading) -> None:
    if isinstance(node, ast.Name):
        reading.names.add(node.id)
    elif isinstance(node, ast.Attribute):
        base = f"{node.value.id}." if isinstance(node.value, ast.Name) else "."
        reading.names.update((node.attr, base + node.attr))
    elif isinstance(node, ast.alias):
        reading.names.update(node.name.split("."))
    elif isinstance(node, ast.ImportFrom) and node.module:
        reading.names.update(node.module.split("."))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        reading.names.add(node.value)
    elif isinstance(node, ast.keyword) and node.arg:
        reading.keywords.add(node.arg)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
        reading.launches = True


def _reached(tree: ast.AST, function: types.FunctionType, owner: Any) -> Iterator[Any]:
    """The functions that this one names: globals, variables of the enclosing function, attributes of `self`."""
    variables = inspect.getclosurevars(function)
    known = {**variables.globals, **variables.nonlocals}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in {**function.__globals__, **known}:
            yield known.get(node.id, function.__globals__.get(node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            yield inspect.getattr_static(owner, node.attr, None) if owner is not None else None


def _python_function(thing: Any) -> types.FunctionType | None:
    """The Python function behind a function, any kind of method, or a kernel."""
    if isinstance(thing, staticmethod | classmethod | types.MethodType):
        thing = thing.__func__
    if isinstance(thing, CUDADispatcher):
        thing = thing.py_func
    if isinstance(thing, types.FunctionType):
        thing = inspect.unwrap(thing)
    return thing if isinstance(thing, types.FunctionType) else None


def _is_in(package: str, function: types.FunctionType) -> bool:
    return (function.__module__ or "").startswith(package)
