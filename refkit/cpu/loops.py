"""Finds the loops of a kernel in optimised IR text, and decides which of them get a poll and which are unrolled in full.

A loop that counts towards a bound ends by itself. Any other loop may not, so it polls: the host can stop it, and a loop
that waits for another thread's atomic lets that thread run. Loops that hold a barrier or a warp operation need no poll:
there the scheduler has control anyway.
"""

import re
from dataclasses import dataclass

from .debug_lines import Lines

_LABEL = re.compile(r'^("[^"]*"|[-\w$.]+):')
_REFERENCE = re.compile(r'label %("[^"]*"|[-\w$.]+)')
_DEFINITION = re.compile(r'^\s+%("[^"]*"|[-\w$.]+) = (.*)$')
_OPERAND = re.compile(r'%("[^"]*"|[-\w$.]+)')
_WAITING = re.compile(r"@\"?(?:nvvm\.(?:barrier0|bar\.warp|shfl|vote|match)|cudaCGSynchronize|rk\.activemask)")
_SHARED_STATE = re.compile(
    r"\b(?:atomicrmw|cmpxchg|load atomic|load volatile|fence)\b|@nvvm\.(?:membar|atomic)|nanosleep|@___numba_atomic"
)


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
            if match := _LABEL.match(line):
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
        for label, targets in self.successors.items():
            for target in targets:
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

    def definitions(self, labels: frozenset[str]) -> dict[str, str]:
        """Name → right-hand side of what the given blocks define."""
        found = {}
        for label in labels:
            for line in self.blocks[label]:
                if match := _DEFINITION.match(line):
                    found[match.group(1)] = match.group(2)
        return found


def counts(function: Function, loop: Loop) -> str | None:
    """`"constant"` or `"bounded"` for a loop that counts towards a bound; None for one that may not end."""
    defined = function.definitions(loop.body)
    header_phis = {
        name
        for line in function.blocks[loop.header]
        if " = phi " in line and (name := _DEFINITION.match(line).group(1))
    }

    def is_counter(name: str, depth: int = 0) -> bool:
        right = defined.get(name, "")
        if right.startswith("phi ") and name in header_phis:
            return any(
                steps(operand, name) for operand in _OPERAND.findall(right.split("[", 1)[1]) if operand in defined
            )
        if depth < 3 and re.match(r"(add|sub|trunc|zext|sext|freeze)\b", right):
            return any(is_counter(operand, depth + 1) for operand in _OPERAND.findall(right) if operand in defined)
        return False

    def steps(name: str, phi: str) -> bool:
        right = defined.get(name, "")
        if not re.match(r"(add|sub)\b", right):
            return False
        operands = _OPERAND.findall(right)
        return phi in operands and all(operand == phi or operand not in defined for operand in operands)

    for label in loop.body:
        terminator = function.blocks[label][-1] if function.blocks[label] else ""
        match = re.match(
            r"\s+br i1 %(\"[^\"]*\"|[-\w$.]+),",
            next((x for x in function.blocks[label] if x.lstrip().startswith("br i1")), terminator),
        )
        if not match or all(target in loop.body for target in function.successors[label]):
            continue
        condition = defined.get(match.group(1), "")
        compare = re.match(r"icmp (?:samesign )?\w+ \w+ ([^,]+), ([^,]+)", condition)
        if not compare:
            continue
        operands = [operand.strip() for operand in compare.groups()]
        names = [operand[1:] if operand.startswith("%") else None for operand in operands]
        for counter, bound in ((names[0], names[1]), (names[1], names[0])):
            if counter is not None and is_counter(counter) and (bound is None or bound not in defined):
                return "constant" if bound is None else "bounded"
    return None


def insert_polls(text: str, sites: list[tuple[str, int]], default_file: str) -> tuple[str, bool]:
    """The text with a poll in every loop that may not end, and whether a loop waits for other threads' atomics.

    The place of each poll is appended to `sites`.
    """
    lines = Lines(text, default_file)
    out: list[str] = []
    spins = False
    function: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            out.append(line)
            # the atomic loops of numba-cuda's own helpers end as soon as one thread succeeds
            function = None if "@___numba_atomic" in line or "@rk." in line else []
        elif function is not None and line == "}":
            polled, spun = _polled(function, lines, sites)
            spins = spins or spun
            out.extend(polled)
            out.append(line)
            function = None
        elif function is not None:
            function.append(line)
        else:
            out.append(line)
    return "\n".join(out), spins


_LOCAL_ARRAY = re.compile(r"= alloca \[")
_INDEX_ARITHMETIC = re.compile(r"(add|sub|mul|shl|or|xor|and|zext|sext|trunc|select|icmp|getelementptr)\b")
_MOST_UNROLLED = 64  # turns
_UNROLL_IN_FULL = '!1000 = !{!"llvm.loop.unroll.full"}'
_FIRST_LOOP_METADATA = 1001


def unroll_local_arrays(text: str) -> str:
    """The text with a request to unroll the short loops whose counter indexes a local array.

    Only constant indices let LLVM keep such an array in registers, as ptxas does.
    """
    out: list[str] = []
    metadata: list[str] = []
    function: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            out.append(line)
            function = []
        elif function is not None and line == "}":
            out.extend(_with_unrolling(function, metadata))
            out.append(line)
            function = None
        elif function is not None:
            function.append(line)
        else:
            out.append(line)
    return "\n".join([*out, *metadata, *([_UNROLL_IN_FULL] if metadata else [])])


def _with_unrolling(text_lines: list[str], metadata: list[str]) -> list[str]:
    arrays = {
        _DEFINITION.match(line).group(1) for line in text_lines if _LOCAL_ARRAY.search(line) and _DEFINITION.match(line)
    }
    if not arrays:
        return text_lines
    function = Function(text_lines)
    for loop in function.loops():
        if counts(function, loop) != "constant" or not _indexes(function, loop, arrays):
            continue
        number = _FIRST_LOOP_METADATA + len(metadata)
        metadata.append(f"!{number} = distinct !{{!{number}, !1000}}")
        for latch in loop.latches:
            block = function.blocks[latch]
            position = max(i for i, line in enumerate(block) if line.startswith("  br "))
            block[position] += f", !llvm.loop !{number}"
    return [line for label in function.order for line in function.blocks[label]]


def _indexes(function: Function, loop: Loop, arrays: set[str]) -> bool:
    """Whether a local array is indexed by what is computed from the loop's counters, and the loop is short."""
    phis = [line for line in function.blocks[loop.header] if " = phi i" in line]
    derived = {match.group(1) for line in phis if (match := _DEFINITION.match(line))}
    bases = set(arrays)
    lines = [line for label in function.order if label in loop.body for line in function.blocks[label]]
    bounds = [int(n) for line in lines if " = icmp " in line for n in re.findall(r", (\d+)$", line)]
    if not bounds or min(bounds) > _MOST_UNROLLED:
        return False
    for _ in range(4):  # blocks need not stand in the order of the data flow
        before = len(derived)
        for line in lines:
            match = _DEFINITION.match(line)
            if not match or not _INDEX_ARITHMETIC.match(match.group(2)):
                continue
            operands = set(_OPERAND.findall(match.group(2)))
            if match.group(2).startswith("getelementptr") and operands & bases and operands & derived:
                return True
            if operands & derived:
                derived.add(match.group(1))
        if len(derived) == before:
            break
    return False


def _polled(text_lines: list[str], lines: Lines, sites: list[tuple[str, int]]) -> tuple[list[str], bool]:
    function = Function(text_lines)
    loops = function.loops()
    spins = False
    polls: dict[str, str] = {}
    for loop in loops:
        text = "\n".join("\n".join(function.blocks[label]) for label in loop.body)
        if _WAITING.search(text):
            continue
        inner = [other for other in loops if other is not loop and other.body < loop.body]
        kind = counts(function, loop)
        if kind == "constant" or (kind == "bounded" and not inner):
            continue
        waits_for_others = kind is None and bool(_SHARED_STATE.search(text))
        spins = spins or waits_for_others
        polls[loop.header] = "rk.spin" if waits_for_others else "rk.poll"
    if not polls:
        return text_lines, False
    out = []
    for label in function.order:
        block = function.blocks[label]
        position = max(
            (i + 1 for i, line in enumerate(block) if " = phi " in line), default=1 if _LABEL.match(block[0]) else 0
        )
        out.extend(block[:position])
        if label in polls:
            sites.append(lines.first_location(block))
            out.append(f"  call void @{polls[label]}(ptr %rk.thread, i32 {len(sites) - 1})")
        out.extend(block[position:])
    return out, spins
