"""Functions of IR text as graphs of labelled blocks, with their natural loops."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

LABEL = re.compile(r'^("[^"]*"|[-\w$.]+):')
DEFINITION = re.compile(r'^\s+%("[^"]*"|[-\w$.]+) = (.*)$')
OPERAND = re.compile(r'%("[^"]*"|[-\w$.]+)')
_REFERENCE = re.compile(r'label %("[^"]*"|[-\w$.]+)')
_NAME = re.compile(r'@("(?:[^"\\]|\\.)*"|[-\w$.]+)\(')


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header, its latches and all of its blocks, by label."""

    header: str
    latches: tuple[str, ...]
    body: frozenset[str]


class Function:
    """One function of IR text as labelled blocks."""

    def __init__(self, lines: list[str]) -> None:
        self.order: list[str] = []
        self.blocks: dict[str, list[str]] = {}
        label = ""
        for line in lines:
            if match := LABEL.match(line):
                label = match.group(1)
            if label not in self.blocks:
                self.order.append(label)
                self.blocks[label] = []
            self.blocks[label].append(line)
        self.successors = {label: self._targets(block) for label, block in self.blocks.items()}

    @staticmethod
    def _targets(block: list[str]) -> list[str]:
        text = "\n".join(block)
        start = max(
            text.rfind("\n  br "), text.rfind("\n  switch "), text.rfind("  br ") if text.startswith("  br ") else -1
        )
        return _REFERENCE.findall(text[start:]) if start >= 0 else []

    def loops(self) -> list[Loop]:
        """Every natural loop, one per header."""
        back: dict[str, list[str]] = {}
        state: dict[str, int] = {}
        stack = [(self.order[0], iter(self.successors[self.order[0]]))]
        state[self.order[0]] = 1
        while stack:
            label, targets = stack[-1]
            for target in targets:
                if state.get(target) == 1:
                    back.setdefault(target, []).append(label)
                elif target not in state:
                    state[target] = 1
                    stack.append((target, iter(self.successors[target])))
                    break
            else:
                state[label] = 2
                stack.pop()
        predecessors: dict[str, list[str]] = {}
        for label, following in self.successors.items():
            for target in following:
                predecessors.setdefault(target, []).append(label)
        return [
            Loop(header, tuple(latches), self._body(header, latches, predecessors)) for header, latches in back.items()
        ]

    @staticmethod
    def _body(header: str, latches: list[str], predecessors: dict[str, list[str]]) -> frozenset[str]:
        body, pending = {header}, list(latches)
        while pending:
            label = pending.pop()
            if label not in body:
                body.add(label)
                pending.extend(predecessors.get(label, []))
        return frozenset(body)

    def every_turn(self, loop: Loop, chosen: Collection[str]) -> bool:
        """Whether each turn of a loop passes one of the chosen blocks."""
        seen, pending = set(), [loop.header]
        while pending:
            label = pending.pop()
            if label in seen or label in chosen:
                continue
            if label in loop.latches:
                return False
            seen.add(label)
            pending.extend(target for target in self.successors[label] if target in loop.body)
        return True

    def text(self, labels: Collection[str]) -> str:
        """The lines of the given blocks, in order."""
        return "\n".join(line for label in self.order if label in labels for line in self.blocks[label])

    def definitions(self, labels: Collection[str]) -> dict[str, str]:
        """Name → right-hand side of what the given blocks define."""
        found = {}
        for label in labels:
            for line in self.blocks[label]:
                if match := DEFINITION.match(line):
                    found[match.group(1)] = match.group(2)
        return found

    def lines(self) -> Iterator[str]:
        """The function's lines, in order."""
        for label in self.order:
            yield from self.blocks[label]


def parts(text: str) -> Iterator[tuple[str, list[str]]]:
    """Module text in pieces: `(the line of a define, the lines of its body)`, and `("", [line])` for any other line."""
    header = ""
    body: list[str] = []
    for line in text.splitlines():
        if header:
            if line == "}":
                yield header, body
                yield "", [line]
                header = ""
            else:
                body.append(line)
        elif line.startswith("define "):
            header, body = line, []
        else:
            yield "", [line]


def names(text: str) -> list[str]:
    """The functions that a piece of text calls, or a define's line names first, without quotes."""
    return [name.strip('"') for name in _NAME.findall(text)]
