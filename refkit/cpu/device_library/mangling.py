"""The part of the Itanium C++ name mangling that numba-cuda's half-precision shims use.

A shim's symbol says everything: `_ZmlRK13__nv_bfloat16S1__nbst` is operator* of two `const __nv_bfloat16 &`,
`_ZN6__halfC1Ei_nbst` constructs a `__half` from an int, `____nv_bfloat16__ZNK13__nv_bfloat16cvfEv_1` converts to float.
(Itanium C++ ABI, section 5.1, "External Names".)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BUILTIN = {
    "f": "float",
    "d": "double",
    "a": "signed char",
    "c": "char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "b": "bool",
}
_OPERATORS = {
    "pl": "+",
    "mi": "-",
    "ml": "*",
    "dv": "/",
    "pL": "+=",
    "mI": "-=",
    "mL": "*=",
    "dV": "/=",
    "ps": "unary +",
    "ng": "unary -",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}


@dataclass(frozen=True)
class Shim:
    """What a shim calls: a kind, the name or operator, and the C++ types that it takes (`T*` for a pointer).

    `kind` is "function", "operator", "constructor" (`name` is the class) or "conversion" (`name` is the result type,
    the class is the only parameter).
    """

    kind: str
    name: str
    parameters: tuple[str, ...]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.known: list[str] = []

    def take(self, literal: str) -> bool:
        if not self.text.startswith(literal):
            return False
        self.text = self.text[len(literal) :]
        return True

    def source_name(self) -> str:
        match = re.match(r"\d+", self.text)
        if not match:
            raise ValueError(self.text)
        start, length = match.end(), int(match.group())
        name = self.text[start : start + length]
        self.text = self.text[start + length :]
        return name

    def type_(self) -> str:
        """One type; references and const leave no trace in the result, but count as substitutions."""
        if match := re.match(r"S(\d*)_", self.text):
            self.text = self.text[match.end() :]
            return self.known[0 if not match.group(1) else int(match.group(1)) + 1]
        for qualifier, mark in (("P", "*"), ("R", ""), ("O", ""), ("K", ""), ("V", "")):
            if self.take(qualifier):
                inner = self.type_() + mark
                self.known.append(inner)
                return inner
        if self.text[:1] in _BUILTIN:
            name = _BUILTIN[self.text[0]]
            self.text = self.text[1:]
            return name
        name = self.source_name()
        self.known.append(name)
        return name

    def parameters(self) -> tuple[str, ...]:
        if self.text == "v":
            return ()
        found = []
        while self.text:
            found.append(self.type_())
        return tuple(found)


def demangle(symbol: str) -> Shim | None:
    """The call behind a shim's symbol, or None where the symbol is not a shim's."""
    body = re.fullmatch(r"(?:_|__\w+?__)(Z\w+?)(?:_nbst|_1)", symbol)
    if not body:
        return None
    reader = _Reader(body.group(1)[1:])
    try:
        return _member(reader) if reader.take("N") else _free(reader)
    except (ValueError, IndexError):
        return None


def _member(reader: _Reader) -> Shim:
    while reader.take("K") or reader.take("V"):
        pass
    owner = reader.source_name()
    reader.known.append(owner)
    if reader.take("C1E"):
        return Shim("constructor", owner, reader.parameters())
    if not reader.take("cv"):
        raise ValueError(reader.text)
    result = reader.type_()
    if reader.text != "Ev":
        raise ValueError(reader.text)
    return Shim("conversion", result, (owner,))


def _free(reader: _Reader) -> Shim:
    if reader.text[:2] in _OPERATORS:
        name = _OPERATORS[reader.text[:2]]
        reader.text = reader.text[2:]
        return Shim("operator", name, reader.parameters())
    reader.take("L")
    name = reader.source_name()
    return Shim("function", name, reader.parameters())
