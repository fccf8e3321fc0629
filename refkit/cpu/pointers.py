"""Where the pointers of a function come from, read from IR text in SSA form."""

import re

NAME = r'(?:"[^"]*"|[-\w$.]+)'
"""A pattern of an LLVM name without its sigil."""

_ALLOCA = re.compile(
    rf"^\s+%(?P<name>{NAME}) = alloca (?P<type>\[.*\]|\{{.*\}}|\S+?)(?:, align \d+)?(?:, !dbg ![0-9]+)?$"
)
_ADDRESS = re.compile(
    rf"^\s+%(?P<name>{NAME}) = (?P<rest>(?:getelementptr|bitcast|addrspacecast|select|phi|freeze)\b.*)$"
)
_POINTER = re.compile(rf"ptr (?P<pointer>%{NAME})")
_INCOMING = re.compile(rf"\[ (%{NAME}), ")


class Pointers:
    """The stack memory of one function, and what each pointer is computed from."""

    def __init__(self, body: list[str]) -> None:
        self.allocas: dict[str, str] = {}
        self.sources: dict[str, set[str]] = {}
        for line in body:
            if match := allocation(line):
                self.allocas["%" + match["name"]] = match["type"]
            elif match := address(line):
                self.sources["%" + match["name"]] = sources(match["rest"])

    def roots(self, pointer: str) -> set[str]:
        """The pointers that a pointer is computed from, back to where they enter the function."""
        found, pending, seen = set(), [pointer], set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            sources = self.sources.get(name)
            if sources:
                pending.extend(sources)
            else:
                found.add(name)
        return found


def allocation(line: str) -> re.Match[str] | None:
    """An instruction that takes stack memory: its `name` and `type`."""
    return _ALLOCA.match(line)


def address(line: str) -> re.Match[str] | None:
    """An instruction that computes a pointer (or a number in the same way): its `name`, and the `rest` of it."""
    return _ADDRESS.match(line)


def sources(rest: str) -> set[str]:
    """The pointers that the instruction `rest` of an address computes with."""
    return set(_POINTER.findall(rest)) | (set(_INCOMING.findall(rest)) if rest.startswith("phi ptr") else set())


def replaced(rest: str, name_of: dict[str, str]) -> str:
    """The instruction `rest` of an address on other pointers."""

    def instead(match: re.Match[str]) -> str:
        return match.group(0).replace(match.group(1), name_of.get(match.group(1), match.group(1)), 1)

    rest = _POINTER.sub(instead, rest)
    return _INCOMING.sub(instead, rest) if rest.startswith("phi ptr") else rest
